"""Columns that a user says are an axis: what was logged on the same lines gets its step, time or rank from them.

Part of `store`. The column itself stays, as a quantity of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from trainlens.catalog.mapping import Meaning
from trainlens.errors import InputError
from trainlens.model import Floats, Ints
from trainlens.store.relate import Key
from trainlens.store.stitch import Column


def with_told_axes(columns: Mapping[Key, Column], meanings: Sequence[Meaning], where: str) -> dict[Key, Column]:
    """The columns of one file on the axes that the user named; InputError where a step or rank is no whole number."""
    found = dict(columns)
    for said in (one for one in meanings if one.axis):
        for axis in [column for column in found.values() if said.means(column.tag) and column.origin is not None]:
            if said.axis != "time":
                _require_whole(axis, said.axis, where)
            found = _on(axis, said.axis, found)
    return found


def _on(axis: Column, kind: str, columns: Mapping[Key, Column]) -> dict[Key, Column]:
    found: dict[Key, Column] = {}
    read: dict[int, Floats] = {}  # columns of the same rows share their origins, and so what is read there
    for (tag, rank), column in columns.items():
        if column.origin is None:
            found[tag, rank] = column
            continue
        there = read.setdefault(id(column.origin), _at(axis, column.origin))
        if kind == "time":
            found[tag, rank] = replace(column, time=there)
        elif kind == "step":
            found[tag, rank] = replace(column, step=there.astype(np.int64))
        else:
            for one in np.unique(there):
                found[tag, int(one)] = column.rows(there == one)
    return found


def _at(axis: Column, origin: Ints) -> Floats:
    """The axis on these lines; on lines without it, as on the last line before that has it."""
    assert axis.origin is not None
    order = np.argsort(axis.origin, kind="stable")
    place = np.searchsorted(axis.origin[order], origin, "right") - 1
    return axis.value[order][np.maximum(place, 0)]


def _require_whole(axis: Column, kind: str, where: str) -> None:
    value = axis.value
    odd = np.flatnonzero(~np.isfinite(value) | (value != np.floor(value)) | (np.abs(value) > 2.0**62))
    if len(odd):
        what = f"{axis.tag!r} cannot be the {kind}: it has {value[odd[0]]:g}, which is no whole number"
        raise InputError(what, where=where, hint="Map another name, or leave the mapping out")

"""The diagnosis as one JSON document, schema version 1: what every other report is told from.

Strict JSON: a number that is not finite is the string "NaN", "Infinity" or "-Infinity". `parse` reads it back.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from trainlens.errors import InputError
from trainlens.model import NO_RANK, Diagnosis, Event, Fact, Note, Place, RunDiagnosis

SUFFIX = ".json"
SCHEMA_VERSION = 1

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class Options:
    indent: int = 2  # spaces a level; 0 for one line


def render(diagnosis: Diagnosis, options: Options) -> bytes:
    document = {
        "schema_version": SCHEMA_VERSION,
        "trainlens": diagnosis.version,
        "settings": _plain(diagnosis.settings),
        "summary": _plain(diagnosis.summary),
        "unread": _plain(diagnosis.unread),
        "runs": [_run(run) for run in diagnosis.runs],
    }
    encoded = msgspec.json.encode(document)
    return (msgspec.json.format(encoded, indent=options.indent) if options.indent else encoded) + b"\n"


def parse(content: bytes) -> Diagnosis:
    """The Diagnosis that `render` wrote. InputError when it is not such a document, or of another schema version."""
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"is not JSON ({problem})", hint=_HINT) from problem
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version is None:
        raise InputError("is not a diagnosis: it has no schema_version", hint=_HINT)
    if version != SCHEMA_VERSION:
        hint = "Use the trainlens that wrote it, or analyze the logs again"
        raise InputError(f"has schema version {version}, this trainlens reads version {SCHEMA_VERSION}", hint=hint)
    try:
        runs = [{**run, **_stored_places(run)} for run in document["runs"]]
        return _build(Diagnosis, {**document, "version": document["trainlens"], "runs": runs}, "")  # type: ignore[no-any-return]
    except _Mismatch as problem:
        raise InputError(f"is not a diagnosis: {problem}", hint=_HINT) from None
    except (KeyError, TypeError, AttributeError) as problem:
        raise InputError(f"is not a diagnosis: {problem} is missing or misshapen", hint=_HINT) from None


_HINT = "Make one with `trainlens analyze PATH --format json -o FILE`"

# ---- to plain values -----------------------------------------------------------------------------------------------


def _run(run: RunDiagnosis) -> dict[str, Any]:
    plain: dict[str, Any] = _plain(run)
    plain["facts"] = [_fact(fact) for fact in run.facts]
    plain["events"] = [_event(event) for event in run.events]
    return plain


def _fact(fact: Fact) -> dict[str, Any]:
    return {"name": fact.name, "value": _plain(fact.value), **_source(fact.place)}


def _event(event: Event) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "step": event.step,
        "time": _plain(event.time),
        "rank": _rank(event.rank),
        "text": _plain(event.text),
        **_source(event.place),
    }


def _source(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {"source": None, "line": None}
    return {"source": place.path, "line": place.line, **({} if place.byte is None else {"byte": place.byte})}


def _rank(rank: int | None) -> int | None:
    return None if rank == NO_RANK else rank


def _plain(value: Any) -> Any:
    """Values that JSON has: dataclasses as objects, tuples as arrays, what is not finite as its name."""
    if isinstance(value, float):
        return value if math.isfinite(value) else ("NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity")
    if isinstance(value, str):
        # A file name may hold bytes that are no text; JSON cannot.
        return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, Note):
        place = {"line": value.line} if value.byte is None else {"byte": value.byte}
        return {"kind": value.kind, "message": _plain(value.message), **place, "count": value.count}
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


# ---- and back ------------------------------------------------------------------------------------------------------


class _Mismatch(Exception):
    """A value that does not fit its place in the schema."""


def _stored_places(run: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Facts and events with their place as the model has it."""
    return {
        kind: [{**one, "place": _place(one), "rank": _given_rank(one)} for one in run.get(kind, ())]
        for kind in ("facts", "events")
    }


def _place(stored: Mapping[str, Any]) -> dict[str, Any] | None:
    if stored.get("source") is None:
        return None
    return {"path": stored["source"], "line": stored.get("line"), "byte": stored.get("byte")}


def _given_rank(stored: Mapping[str, Any]) -> int:
    rank = stored.get("rank")
    return NO_RANK if rank is None else rank


def _build(kind: Any, value: Any, where: str) -> Any:
    """The value as `kind`: a dataclass, tuple, mapping, literal, union of plain types, or a plain type."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, dict):
            raise _Mismatch(f"{where or 'the document'} must be an object")
        hints = _hints(kind)
        given = {name: _build(hints[name], value[name], f"{where}.{name}".lstrip(".")) for name in hints if name in value}
        try:
            return kind(**given)
        except TypeError as problem:
            raise _Mismatch(f"{where or 'the document'}: {problem}") from None
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _one_of(parts, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise _Mismatch(f"{where} must be an array")
        return tuple(_build(parts[0], one, f"{where}[{at}]") for at, one in enumerate(value))
    if origin is not None and not isinstance(value, dict) and origin not in (None, Mapping, *_MAPPINGS):
        if value in parts:
            return value
        raise _Mismatch(f"{where} cannot be {value!r}")
    return value if origin is not None else _scalar(kind, value, where)


_MAPPINGS = (dict,)


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _one_of(parts: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in parts:
        return None
    problem = _Mismatch(f"{where} cannot be null")
    for part in parts:
        if part is not type(None):
            try:
                return _build(part, value, where)
            except _Mismatch as found:
                problem = found
    raise problem


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (bool, int, float, str) and type(value) is not kind:
        raise _Mismatch(f"{where} must be a {kind.__name__}, not {value!r}"[:200])
    return value

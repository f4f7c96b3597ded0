"""The diagnosis as one JSON document, schema version 1: what every other report is told from.

Strict JSON: a number that is not finite is null, or the string "NaN", "Infinity" or "-Infinity" where it is what a
finding or a configuration states. `parse` reads the document back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trainlens.diagnosis import Diagnosis, Finding, RunDiagnosis
from trainlens.errors import InputError
from trainlens.model import NO_RANK, Event, Fact, Note, Place, SourceReport

SUFFIX = ".json"
SCHEMA_VERSION = 1

_HINT = "Make one with `trainlens analyze PATH --format json -o FILE`"


@dataclass(frozen=True)
class Options:
    indent: int = 2  # spaces a level; 0 for one line


def render(diagnosis: Diagnosis, options: Options) -> bytes:
    document = {
        "schema_version": SCHEMA_VERSION,
        "trainlens": diagnosis.version,
        "settings": diagnosis.settings,
        "summary": diagnosis.summary,
        "unread": [_source(source) for source in diagnosis.unread],
        "runs": [_run(run) for run in diagnosis.runs],
    }
    try:
        encoded = msgspec.json.encode(document, enc_hook=_of_numpy)
    except UnicodeEncodeError:  # a file's name may hold bytes that are no text; JSON has no place for them
        encoded = msgspec.json.encode(text_only(msgspec.to_builtins(document, enc_hook=_of_numpy)))
    return (msgspec.json.format(encoded, indent=options.indent) if options.indent else encoded) + b"\n"


def schema() -> bytes:
    """The JSON Schema of what `render` writes."""
    from trainlens.reports import _json_schema

    return msgspec.json.format(msgspec.json.encode(_json_schema.schema(SCHEMA_VERSION)), indent=2) + b"\n"


def parse(content: bytes) -> Diagnosis:
    """The Diagnosis that `render` wrote. InputError when it is not such a document, or of another schema version."""
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise InputError(f"is not JSON ({problem})", hint=_HINT) from problem
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version is None:
        raise InputError("is not a diagnosis: it has no schema_version", hint=_HINT)
    if version != SCHEMA_VERSION:
        hint = "Use the trainlens that wrote it, or analyze the logs again"
        raise InputError(f"has schema version {version}, this trainlens reads version {SCHEMA_VERSION}", hint=hint)
    try:
        runs = [_stored_run(run) for run in document["runs"]]
        return msgspec.convert({**document, "version": document["trainlens"], "runs": runs}, Diagnosis)
    except msgspec.ValidationError as problem:
        raise InputError(f"is not a diagnosis: {problem}", hint=_HINT) from None
    except (KeyError, TypeError, AttributeError) as problem:
        raise InputError(f"is not a diagnosis: {problem} is missing or misshapen", hint=_HINT) from None


# ---- to plain values -----------------------------------------------------------------------------------------------


def _run(run: RunDiagnosis) -> dict[str, Any]:
    return {
        "name": run.name,
        "path": run.path,
        "sources": [_source(source) for source in run.sources],
        "metrics": run.metrics,
        "facts": [_fact(fact) for fact in run.facts],
        "events": [_event(event) for event in run.events],
        "checks": run.checks,
        "result": run.result,
        "findings": [finding_as_told(finding) for finding in run.findings],
        "curves": run.curves,
        "attempts": run.attempts,
        "notes": [_note(note) for note in run.notes],
        "accepted": [{"reason": one.reason, "finding": finding_as_told(one.finding)} for one in run.accepted],
        "schedule": run.schedule,
        "explained": run.explained,
        "scores": run.scores,
    }


def _source(source: SourceReport) -> dict[str, Any]:
    return {**_fields(source), "notes": [_note(note) for note in source.notes]}


def _note(note: Note) -> dict[str, Any]:
    place = {"line": note.line} if note.byte is None else {"byte": note.byte}
    return {"kind": note.kind, "message": note.message, **place, "count": note.count}


def _fact(fact: Fact) -> dict[str, Any]:
    return {"name": fact.name, "value": _named(fact.value), **_place(fact.place)}


def _event(event: Event) -> dict[str, Any]:
    rank = None if event.rank == NO_RANK else event.rank
    told = {"kind": event.kind, "step": event.step, "time": event.time, "rank": rank, "text": event.text}
    return {**told, **_place(event.place)}


def _place(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {"source": None, "line": None}
    return {"source": place.path, "line": place.line, **({} if place.byte is None else {"byte": place.byte})}


def finding_as_told(finding: Finding) -> dict[str, Any]:
    leading = {"id": finding.id, "detector": finding.detector}
    return {**leading, **_named(msgspec.to_builtins(finding, enc_hook=_of_numpy))}


def _of_numpy(value: Any) -> Any:
    """A numpy number, such as an outsider's detector may leave in a finding, as Python's own."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a diagnosis")


def _fields(value: object) -> dict[str, Any]:
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}  # type: ignore[attr-defined]


def _named(value: Any) -> Any:
    """The same values with the names of numbers that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _named(one) for key, one in value.items()}
    return [_named(one) for one in value] if isinstance(value, list | tuple) else value


def text_only(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {text_only(key): text_only(one) for key, one in value.items()}
    return [text_only(one) for one in value] if isinstance(value, list | tuple) else value


# ---- and back ------------------------------------------------------------------------------------------------------


def _stored_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run as the model has it: places whole, no rank as NO_RANK, curves' nulls as NaN."""
    return {
        **run,
        "facts": [{**fact, "place": _stored_place(fact)} for fact in run["facts"]],
        "events": [{**event, "place": _stored_place(event), "rank": _stored_rank(event)} for event in run["events"]],
        "curves": [{**curve, **{name: _stored_values(curve[name]) for name in _VALUES}} for curve in run["curves"]],
    }


_VALUES = ("value", "low", "high")


def _stored_place(stored: Mapping[str, Any]) -> dict[str, Any] | None:
    if stored.get("source") is None:
        return None
    return {"path": stored["source"], "line": stored.get("line"), "byte": stored.get("byte")}


def _stored_rank(stored: Mapping[str, Any]) -> Any:
    return NO_RANK if stored.get("rank") is None else stored["rank"]


def _stored_values(values: list[Any]) -> list[Any]:
    return [math.nan if value is None else value for value in values] if None in values else values

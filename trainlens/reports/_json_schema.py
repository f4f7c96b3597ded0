"""The JSON Schema of the JSON answer (draft 2020-12), made from the nouns it is told from."""

from __future__ import annotations

from typing import Any

import msgspec

from trainlens.diagnosis import Diagnosis

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_WHOLE_OR_NULL = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
# JSON has no NaN: such a number is its name, or null where the place says that it is none.
_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}, {"type": "null"}]}


def schema(version: int) -> dict[str, Any]:
    """What `json.render` writes. New fields may come within a version: none is closed against others."""
    anything = {"description": "any value"}
    (top,), parts = msgspec.json.schema_components([Diagnosis], schema_hook=lambda _: anything)
    for part in parts.values():
        for name, about in part.get("properties", {}).items():
            part["properties"][name] = _written(about)
        part.pop("description", None)
    _named_places(parts)
    whole = parts.pop(top["$ref"].rpartition("/")[2])
    fields = whole["properties"]
    fields["trainlens"] = fields.pop("version")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The diagnosis of trainlens",
        "type": "object",
        "properties": {"schema_version": {"const": version}, **fields},
        "required": ["schema_version", "trainlens", "settings", "summary", "runs"],
        "$defs": parts,
    }


def _written(about: Any) -> Any:
    """A field as it is written: every number may be one that is not finite."""
    if isinstance(about, dict):
        if about.get("type") == "number":
            return dict(_NUMBER)
        return {name: _written(one) for name, one in about.items() if name not in ("default", "title")}
    return [_written(one) for one in about] if isinstance(about, list) else about


def _named_places(parts: dict[str, Any]) -> None:
    """Facts and events name source and line in place of a place; a note has a line or a byte; no rank is null."""
    for name in ("Fact", "Event"):
        fields = parts[name]["properties"]
        del fields["place"], fields["run"]
        fields |= {"source": _TEXT_OR_NULL, "line": _WHOLE_OR_NULL, "byte": {"type": "integer"}}
        parts[name]["required"] = [*parts[name].get("required", ()), "source", "line"]
    parts["Event"]["properties"]["rank"] = _WHOLE_OR_NULL
    parts["Event"]["properties"]["text"] = _TEXT

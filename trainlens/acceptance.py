"""Findings that someone looked at and accepted: a file of them, each with its reason.

    [[accept]]
    detector = "loss-spike"     # a name or pattern
    run = "atlas-7b"            # the same; left out: every run
    metric = "train/loss"       # the same; left out: every metric
    first_step = 31216          # findings that touch these steps, or nearly; left out: anywhere
    last_step = 31249
    reason = "bad shard, replaced on 22 April"

What is accepted changes neither the verdict nor the exit status; it is counted and told apart. Nearly: within 1 % of
the step, at least ten, since a begin may move when a log grows. Entries that match nothing any more are told, so that
they are taken out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from trainlens.diagnosis import Accepted, Diagnosis, Finding, RunDiagnosis
from trainlens.errors import SettingsError
from trainlens.settings import nearest, toml

_KEYS: dict[str, type[Any]] = {
    "detector": str, "run": str, "metric": str, "first_step": int, "last_step": int, "reason": str
}  # fmt: skip


_NEAR = 10  # steps


@dataclass(frozen=True)
class Acceptance:
    """One entry of the file. Empty and None mean any."""

    detector: str
    reason: str
    run: str = ""
    metric: str = ""
    first_step: int | None = None
    last_step: int | None = None

    def covers(self, finding: Finding, run: str) -> bool:
        named = fnmatchcase(finding.detector, self.detector) and (not self.run or fnmatchcase(run, self.run))
        return named and (not self.metric or fnmatchcase(finding.metric or "", self.metric)) and self._touches(finding)

    def _touches(self, finding: Finding) -> bool:
        first, last = finding.first_step, finding.last_step
        if first is None or last is None:
            return self.first_step is None and self.last_step is None
        begin, end = self.first_step, self.last_step
        slack = max(_NEAR, first // 100)
        after = begin is None or last >= begin - slack
        return after and (end is None or first <= end + slack)


def load(path: str | None) -> tuple[Acceptance, ...]:
    """The entries of the file; SettingsError for what is wrong in it. Nothing without a file."""
    if path is None:
        return ()
    content = toml(Path(path))
    if set(content) - {"accept"} or not isinstance(content.get("accept", []), list):
        raise SettingsError("holds other things than [[accept]] tables", where=path, hint="Write [[accept]] tables")
    return tuple(_entry(entry, f"{path}, entry {number}") for number, entry in enumerate(content.get("accept", []), 1))


def _entry(entry: Any, where: str) -> Acceptance:
    if not isinstance(entry, dict):
        raise SettingsError("is no table", where=where, hint="Write [[accept]] tables")
    for key, value in entry.items():
        if key not in _KEYS:
            raise SettingsError(f"there is no key {key!r}", where=where, hint=nearest(key, _KEYS))
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            kind = "a whole number" if _KEYS[key] is int else "text"
            raise SettingsError(f"{key} cannot be {value!r}", where=where, hint=f"It must be {kind}")
    for key in ("detector", "reason"):
        if not entry.get(key, "").strip():
            raise SettingsError(f"has no {key}", where=where, hint="Name the detector and say why it is accepted")
    return Acceptance(**entry)


def parted(
    findings: Sequence[Finding], run: str, entries: Sequence[Acceptance]
) -> tuple[list[Finding], tuple[Accepted, ...]]:
    """The findings that still count, and those accepted: what is told inside of an accepted one goes with it."""
    reasons: dict[str, str] = {}
    for finding in findings:
        said = next((entry.reason for entry in entries if entry.covers(finding, run)), None)
        if said is not None:
            reasons[finding.id] = said
    for finding in findings:
        if finding.part_of in reasons:
            reasons.setdefault(finding.id, reasons[finding.part_of])
    accepted = tuple(Accepted(finding, reasons[finding.id]) for finding in findings if finding.id in reasons)
    left = [finding for finding in findings if finding.id not in reasons]
    kept = {finding.id for finding in left}
    return [one if one.part_of in kept else replace(one, part_of=None) for one in left], accepted


def unmatched(runs: Sequence[RunDiagnosis], entries: Sequence[Acceptance]) -> tuple[str, ...]:
    """The entries that match no finding of any run, in words: "loss-spike at 31,216 (bad shard)"."""
    found = [(run.name, one.finding) for run in runs for one in run.accepted]
    return tuple(_words(entry) for entry in entries if not any(entry.covers(finding, run) for run, finding in found))


def _words(entry: Acceptance) -> str:
    begin, end = entry.first_step, entry.last_step
    steps = f"{begin:,}–{end:,}" if begin is not None and end not in (None, begin) else None
    one = begin if begin is not None else end
    where = f" at {steps or f'{one:,}'}" if one is not None else ""
    return f"{entry.detector}{f' of {entry.run}' if entry.run else ''}{where} ({entry.reason})"


def written(diagnosis: Diagnosis, reason: str, entries: Sequence[Acceptance] = ()) -> bytes:
    """A file that accepts every warning and error of this diagnosis; entries that stood there before stay."""
    found = [
        Acceptance(
            finding.detector, reason, _literal(run.name), _literal(finding.metric or ""), finding.first_step,
            finding.last_step,
        )
        for run in diagnosis.runs
        for finding in run.findings
        if finding.severity != "info"
    ]  # fmt: skip
    # "?" stands for a letter that UTF-8 has no place for, and as a pattern it matches that letter.
    return "\n".join(map(_table, [*entries, *found])).encode("utf-8", "replace")


def _table(entry: Acceptance) -> str:
    values = [(key, getattr(entry, key)) for key in _KEYS]
    return "\n".join(["[[accept]]", *_lines([(key, value) for key, value in values if value != ""]), ""])


def _lines(entries: Iterable[tuple[str, str | int | None]]) -> Iterable[str]:
    """A text of JSON is one of TOML too, but for DEL, which TOML wants escaped."""
    return (
        f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
        for key, value in entries
        if value is not None
    )


def _literal(text: str) -> str:
    """The text as a pattern that matches nothing but itself."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)

"""The door of all cause tests: a run and a finding in, each cause's verdict out.

`verdicts("loss-spike", run, 500, 520)` tests a made-up finding of that detector over these steps, with every cause set
that explains it; the run comes from the door of the detectors' tests.
"""

from __future__ import annotations

from trainlens import plugins
from trainlens.diagnosis import Finding, Verdict
from trainlens.model import Event, EventKind, Run


def finding(detector: str, first: int | None, last: int | None, metric: str | None = "train/loss") -> Finding:
    return Finding(detector, "warning", metric, first, last, "title", "message", 0.9)


def told(
    detector: str, run: Run, first: int | None, last: int | None, metric: str | None = "train/loss"
) -> dict[str, Verdict]:
    """Each cause's verdict by its name; also holds them to the common form."""
    sets = [causes for causes in plugins.load_all("causes").values() if detector in causes.EXPLAINS]
    assert sets, f"nothing explains {detector}"
    found = [cause(finding(detector, first, last, metric), run) for causes in sets for cause in causes.CAUSES]
    for verdict in found:
        assert verdict.message.endswith("."), verdict
        assert (verdict.verdict == "supported") == bool(verdict.remedy), verdict
        assert (verdict.verdict == "supported") <= bool(verdict.evidence), verdict
        assert verdict.verdict != "not-measured" or not verdict.evidence, verdict
        assert verdict.verdict == "not-measured" or any(letter.isdigit() for letter in verdict.message) or run.facts, (
            verdict
        )
    assert len({verdict.cause for verdict in found}) == len(found)
    return {verdict.cause: verdict for verdict in found}


def verdicts(
    detector: str, run: Run, first: int | None, last: int | None, metric: str | None = "train/loss"
) -> dict[str, str]:
    return {name: verdict.verdict for name, verdict in told(detector, run, first, last, metric).items()}


def events(kind: EventKind, *steps: int, text: str = "as the log says") -> list[Event]:
    return [Event(kind, text, step) for step in steps]

"""The sentences that all reports share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reports import diagnoses
from trainlens.diagnosis import Check, Finding, Result, RunDiagnosis, Severity
from trainlens.model import SourceReport
from trainlens.reports import _words as words


def finding(name: str, severity: Severity = "warning", **more: object) -> Finding:
    return Finding("loss-spike", severity, "train/loss", 1, 2, f"{name} happened", f"{name}.", id=name, **more)  # type: ignore[arg-type]


def run(*findings: Finding, **more: object) -> RunDiagnosis:
    result = Result("finished", 24_000, 24_000)
    return RunDiagnosis("run", "runs/run", result, checks=(Check("hang", "clean"),), findings=findings, **more)  # type: ignore[arg-type]


def test_verdicts() -> None:
    assert words.verdict(run()) == "Healthy: nothing found in 24,000 steps"
    assert words.verdict(run(finding("A", "info"))) == "Healthy: nothing found in 24,000 steps"
    assert words.verdict(run(finding("Alpha"))) == "1 warning: Alpha happened"
    three = (finding("Alpha", "error"), replace(finding("Beta"), detector="hang"), finding("Gamma"))
    assert words.verdict(run(*three)) == "1 error, 2 warnings: Alpha happened; beta happened and 1 more"
    assert words.verdict(diagnoses.unjudged().runs[0]) == "Not judged: 12 points, 40 are needed"
    lost = SourceReport("a", "", state="not-read"), SourceReport("b", "", state="ignored")
    assert words.verdict(run(sources=lost)) == "Healthy: nothing found in 24,000 steps. 1 file could not be read"


def test_verdict_of_several_runs() -> None:
    assert words.verdict_of(diagnoses.fleet(3)) == "3 runs: 1 with errors, 1 with warnings, 1 healthy"
    assert words.verdict_of(
        diagnoses.told(run(), unread=(SourceReport("x.md", "", state="ignored"),))
    ) == words.verdict(run())
    assert words.verdict_of(diagnoses.empty()) == "Not judged: nothing could be read. 1 file could not be read"


def test_what_is_told_inside_another_does_not_count() -> None:
    whole, part = finding("Alpha"), replace(finding("Beta"), part_of="Alpha", detector="gradient-spike")
    [card] = words.cards(run(whole, part))
    assert (card.finding, card.includes) == (whole, (part,))
    assert words.verdict(run(whole, part)) == "1 warning: Alpha happened"
    orphan = replace(part, part_of="nothing")
    assert [one.finding for one in words.cards(run(whole, orphan))] == [whole, orphan]


def test_do_first() -> None:
    assert words.do_first(run()) is None
    assert words.do_first(run(finding("A", "info", actions=("Look",)))) is None
    assert words.do_first(run(finding("A", actions=("Stop it", "Look")), finding("B", actions=("Wait",)))) == "Stop it"


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (Result("finished", 48_000, 48_000), "Finished, 48,000 of 48,000 steps."),
        (Result("stopped", 300, 48_000), "Stopped, 300 of 48,000 steps."),
        (Result("running", 31_400, 48_000), "Running, step 31,400 of 48,000."),
        (Result("running", 31_400), "Running, step 31,400."),
        (Result("unknown", 12), "Read up to step 12."),
        (Result("unknown"), "No step numbers in the logs."),
    ],
)
def test_result(result: Result, says: str) -> None:
    assert words.result_line(replace(run(), result=result)) == says


def test_confidence_is_never_certain_unless_stated() -> None:
    assert words.confidence(finding("A", confidence=0.999)) == "confidence 99\u00a0%"
    assert words.confidence(finding("A")) == "certain: stated by the log"


def test_not_judged_gathers_equal_reasons() -> None:
    checks = (
        Check("hang", "clean"),
        Check("low-mfu", "not-applicable", "no mfu in the logs"),
        Check("low-power", "not-applicable", "no mfu in the logs"),
        Check("loss-spike", "not-enough-data", "12 points, 40 are needed"),
        Check("loss-shift", "not-enough-data", "12 points, 40 are needed"),
    )
    judged = replace(run(), checks=checks)
    assert words.not_judged_line(judged) == (
        "4 of 5 detectors. Not in the logs: mfu. Too few: loss-spike, loss-shift (12 points, 40 are needed)."
    )
    brief = words.not_judged_line(judged, brief=True)
    assert brief == "4 of 5 detectors: what they need is not in the logs, or too little of it."
    assert words.not_judged_line(run()) is None

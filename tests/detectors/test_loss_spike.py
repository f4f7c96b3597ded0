"""Spikes are found by size, place and fate; scatter, staircases, drops and lawful changes are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.detectors.door import answer, falling, findings, fires, run_of
from trainlens.detectors import _loss_rules as rules
from trainlens.diagnosis import NotApplicable, NotEnoughData
from trainlens.model import Attempt, Floats


def spiked(size: float, at: int = 400, decay: float = 5.0, points: int = 1000, **more: Any) -> Floats:
    loss = falling(points, **more)
    loss[at:] *= 1 + (size - 1) * np.exp(-np.arange(points - at) / decay)
    return loss


def lone(size: float, at: int, points: int = 12_000) -> Floats:
    loss = falling(points)
    loss[at] *= size
    return loss


@pytest.mark.parametrize(
    ("loss", "first", "severity"),
    [
        (spiked(1.15), 401, "warning"),
        (spiked(1.6), 401, "warning"),
        (spiked(3.0), 401, "warning"),
        (spiked(12.0), 401, "warning"),
        (spiked(1.5, decay=60.0), 401, "error"),
        (spiked(1.5, at=30), 31, "warning"),
        (spiked(2.0, at=990), 991, "error"),
        (lone(4.0, 7413), 7414, "warning"),
        (spiked(1.5, points=60, at=40), 41, "error"),
        (np.r_[11.1, 11.0, 36.0, 24.2, 26.5, 20.7, 27.5, 21.5, falling(900, start=6, scatter=0.5)], 3, "warning"),
        (np.r_[np.full(4, 12.0), 30.0, np.full(9, 12.0)], 5, "error"),
    ],
)
def test_a_spike_is_found_where_it_begins(loss: Floats, first: int, severity: str) -> None:
    found = fires("loss-spike", loss)
    assert [one[2] for one in found] == [severity]
    assert found[0][0] is not None
    assert abs(found[0][0] - first) <= 3


def test_a_slow_hump_is_one_episode_with_its_whole_extent() -> None:
    hump = 1 + 0.12 * np.exp(-(((np.arange(4000) - 2000) / 60) ** 2))
    found = fires("loss-spike", falling(4000, scatter=0.03) * hump)
    assert len(found) == 1
    first, last, _ = found[0]
    assert first is not None
    assert last is not None
    assert 1850 < first < 2000 < last < 2200


def test_recovery_is_told() -> None:
    (back,) = findings("loss-spike", spiked(2.0))
    assert "recovered in" in back.title
    assert not back.ongoing
    lasting = falling()
    lasting[985:] *= 1.6
    (stuck,) = findings("loss-spike", lasting)
    assert "not recovered" in stuck.title
    assert stuck.ongoing
    assert stuck.severity == "error"


def test_each_of_several_spikes_is_found_even_close_together() -> None:
    loss = falling(3000)
    for at in (500, 530, 1200, 2000):
        loss[at] *= 1.8
    assert [first for first, _, _ in fires("loss-spike", loss)] == [501, 531, 1201, 2001]


def test_many_spikes_in_one_part_do_not_hide_each_other() -> None:
    loss = falling(4000)
    for at in range(1500, 1980, 30):
        loss[at : at + 2] *= 2.0
    assert len(fires("loss-spike", loss)) == 16


def peaks(points: int = 1000, seed: int = 5) -> Floats:
    """Scatter that reaches up to 2.5 times the level at any time, and hardly down."""
    chance = np.random.default_rng(seed)
    return np.asarray(falling(points, start=1.6, end=0.35, scatter=0.0) * (1 + 1.5 * chance.beta(0.6, 6.0, points)))


def near_zero(points: int = 500) -> Floats:
    chance = np.random.default_rng(2)
    loss = 0.7 * np.exp(-np.arange(points) / 45) + 1e-5
    loss = loss * np.exp(chance.uniform(-1.1, 1.1, points))
    loss[[400, 433, 450]] = 0.0
    return np.asarray(loss)


def staircase() -> Floats:
    return np.concatenate([level + 0.05 * np.random.default_rng(4).normal(size=200) for level in (1.1, 0.72, 0.41)])


@pytest.mark.parametrize(
    "loss",
    [
        *[falling(seed=seed) for seed in range(4)],
        *[falling(5000, scatter=0.1, tails=5, seed=seed) for seed in range(4)],
        *[falling(500, scatter=0.3, tails=6, seed=seed) for seed in range(4)],
        falling(20_000, scatter=0.03, tails=3),
        peaks(),
        peaks(8000, 6),
        near_zero(),
        staircase(),
        np.r_[np.full(300, 10.8), falling(900, start=10.8)] + 0.01 * np.random.default_rng(1).normal(size=1200),
        np.full(200, 2.0),
        falling() * np.r_[np.ones(800), np.linspace(1, 0.85, 200)],
        -falling(),
        np.random.default_rng(3).normal(0, 0.02, 800),
        falling(30, scatter=0.1),
    ],
    ids=lambda loss: f"{len(loss)} points",
)
def test_scatter_staircases_and_flat_starts_are_no_spikes(loss: Floats) -> None:
    assert fires("loss-spike", loss) == []


def test_peaks_all_over_the_run_hide_small_ones_but_not_a_huge_one() -> None:
    loss = falling(12_000, scatter=0.02)
    loss[np.arange(300, 12_000, 280)] *= 1.5
    assert fires("loss-spike", loss) == []
    loss[7000:7010] *= 4.0
    assert [first for first, _, _ in fires("loss-spike", loss)] == [7001]


def test_a_change_of_sequence_length_explains_a_rise() -> None:
    loss = spiked(1.15, at=600, decay=12.0)
    assert fires("loss-spike", loss)
    length = np.r_[np.full(600, 512.0), np.full(400, 1024.0)]
    assert fires("loss-spike", {"train/loss": loss, "sequence_length": length}) == []


@pytest.mark.parametrize(("size", "severities"), [(1.10, []), (2.1, ["warning"])])
def test_after_a_restart_only_a_large_one_counts(size: float, severities: list[str]) -> None:
    run = run_of(spiked(size, at=600), attempts=(Attempt(1, 600), Attempt(601, 1000)))
    found = findings("loss-spike", run)
    assert [one.severity for one in found] == severities
    assert all("restart" in one.message for one in found)


def test_parts_of_a_loss_are_told_with_the_sum() -> None:
    about = {"loss_aux": ("loss", "lower")}
    run = run_of({"train/loss": spiked(1.6), "loss_aux": spiked(1.6, seed=1)}, about=about)  # type: ignore[arg-type]
    (found,) = findings("loss-spike", run)
    assert found.metric == "train/loss"
    assert any(one.metric == "loss_aux" for one in found.evidence)


def test_losses_of_policies_are_not_judged() -> None:
    run = run_of({"policy/loss": spiked(3.0)})
    assert isinstance(answer("loss-spike", run), NotApplicable)


def test_few_points_are_not_enough_rather_than_fine() -> None:
    assert isinstance(answer("loss-spike", run_of(falling(20))), NotEnoughData)


def test_a_few_evaluations_are_left_to_other_detectors() -> None:
    held_out = np.r_[np.linspace(3, 2, 15), 4.0, np.linspace(2, 1.9, 10)]
    assert fires("loss-spike", {"eval/loss": held_out}) == []


@pytest.mark.parametrize("rule", rules.NAMES)
def test_every_rule_finds_what_is_plain(rule: str) -> None:
    loss = falling(4000)
    loss[3000:3008] *= 5.0
    found = fires("loss-spike", loss, rule=rule)
    assert any(first is not None and last is not None and first <= 3001 <= last for first, last, _ in found)


@pytest.mark.parametrize(
    ("rule", "quiet"),
    [("ratio3", True), ("olmo", True), ("foundry", True), ("olmo-core", False), ("hampel", False), ("zclip", False)],
)
def test_rules_differ_on_a_small_spike(rule: str, quiet: bool) -> None:
    loss = falling(900)
    loss[600] *= 1.2
    assert (601 not in [first for first, _, _ in fires("loss-spike", loss, rule=rule)]) == quiet


def test_ratio3_keeps_quiet_where_values_change_sign() -> None:
    signed = np.random.default_rng(3).normal(0, 1, 500)
    assert fires("loss-spike", signed, rule="ratio3") == []


@pytest.mark.parametrize(("option", "value"), [("score", 60.0), ("size", 0.9), ("lone", 20.0)])
def test_a_stricter_threshold_silences(option: str, value: float) -> None:
    loss = falling(2000)
    loss[1000] *= 1.3
    assert fires("loss-spike", loss)
    assert fires("loss-spike", loss, **{option: value}) == []


def test_severity_follows_its_thresholds() -> None:
    loss = spiked(1.15)
    assert fires("loss-spike", loss, minor=0.5)[0][2] == "info"
    assert fires("loss-spike", loss, severe=0.05, lasting=0.001)[0][2] == "error"
    assert fires("loss-spike", loss, severe=0.05)[0][2] == "warning"  # it came back: nothing is left to save


def test_a_severe_spike_that_lasts_or_repeats_is_an_error() -> None:
    assert [one[2] for one in fires("loss-spike", spiked(1.5, decay=60.0))] == ["error"]
    loss = spiked(2.0, points=3000, at=1000)
    assert [one[2] for one in fires("loss-spike", loss)] == ["warning"]
    for at in (1060, 1120):
        loss[at : at + 5] *= 2.0
    assert [one[2] for one in fires("loss-spike", loss)] == ["error"] * 3


def test_the_olmo_score_stands_beside() -> None:
    (found,) = findings("loss-spike", spiked(2.0, points=3000, at=1500))
    (score,) = [one.observed for one in found.evidence if "OLMo" in one.text]
    assert isinstance(score, float)
    assert 0 < score < 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.r_[np.ones(99)], None),
        (falling(2000), 0.0),
        (np.r_[falling(3000)[:1500], 50.0, falling(3000)[1501:]], 1 / 2400),
    ],
)
def test_the_olmo_score_counts_far_values_of_the_middle(values: Floats, expected: float | None) -> None:
    found = rules.olmo_score(values)
    assert found == (expected if expected is None else pytest.approx(expected, abs=1e-6))


@pytest.mark.parametrize("points", [120, 900, 6000])
@pytest.mark.parametrize("law", ["gamma", "lognormal", "correlated"])
def test_skewed_and_correlated_scatter_is_no_spike(points: int, law: str) -> None:
    chance, alarms = np.random.default_rng(points), 0
    for _ in range(60):
        if law == "gamma":
            noise = chance.gamma(4, size=points) / 4
        elif law == "lognormal":
            noise = np.exp(0.3 * chance.normal(size=points))
        else:
            steps = chance.normal(size=points)
            noise = np.exp(0.25 * np.convolve(steps, 0.8 ** np.arange(20), "full")[:points] * 0.6)
        told = fires("loss-spike", falling(points, scatter=0.0) * noise)
        alarms += any(severity != "info" for _, _, severity in told)
    assert alarms <= 1  # 0.02 a healthy run


def begun(*first: float, points: int = 400, scatter: float = 0.004) -> Floats:
    """A loss whose first points are these, and which then falls from 9 by a power law."""
    rest = 2 + 7 * (1 + np.arange(points) / 20) ** -0.5
    noise = 1 + scatter * np.random.default_rng(2).normal(size=points + len(first))
    return np.asarray(np.r_[first, rest] * noise)


@pytest.mark.parametrize(
    ("first", "points", "low", "back"),
    [((10.9, 16.9, 12.0, 10.5), 400, 1, 4), ((10.0, 9.9, 10.8, 10.6, 10.2), 400, 2, 6), ((8.6, 8.5, 11.0), 14, 2, 4)],
)
def test_a_rise_in_the_first_steps_is_worth_a_line(first: tuple[float, ...], points: int, low: int, back: int) -> None:
    (found,) = findings("loss-spike", begun(*first, points=points))
    assert found.severity == "info"
    assert found.first_step == low
    assert found.last_step is not None
    assert abs(found.last_step - back) <= 1


@pytest.mark.parametrize(
    "loss",
    [
        begun(10.0, 9.9, 10.1),
        begun(10.0, 9.5, 10.4, scatter=0.03),
        begun(10.0, 12.0, 13.0, points=400)[::-1],
        np.r_[10.0, 9.9, 11.5, np.linspace(11, 10.5, 300)],
        -begun(10.9, 16.9, 12.0),
    ],
    ids=["small", "noise", "at the end", "learns nothing after it", "below zero"],
)
def test_other_starts_are_quiet(loss: Floats) -> None:
    assert not any("first steps" in one.title for one in findings("loss-spike", loss))


def test_a_log_from_the_middle_of_a_run_has_no_start() -> None:
    loss = begun(10.9, 16.9, 12.0, 10.5)
    curves = {"train/loss": (np.arange(5000, 5000 + len(loss)), loss)}
    assert not any("first steps" in one.title for one in findings("loss-spike", curves))

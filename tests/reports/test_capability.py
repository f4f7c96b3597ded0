"""Benchmarks of a run: one score each, better in its own way, against targets, published scores or its own best."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reports import diagnoses
from trainlens.diagnosis import Curve, MetricReport, RunDiagnosis
from trainlens.model import Better
from trainlens.reports._capability import radar, scores
from trainlens.reports._published import MODELS, published


def scored(**benchmarks: tuple[Better, tuple[float, ...]]) -> RunDiagnosis:
    """A run whose `bench/…` metrics rise and fall so; "__" in a name stands for "/"."""
    curves, metrics = [], []
    for key, (better, values) in benchmarks.items():
        name, steps = f"bench/{key.replace('__', '/')}", tuple(range(1000, 1000 * len(values) + 1, 1000))
        curves.append(Curve(name, None, "", "capability", steps, values, values, values))
        ends = (len(values), steps[0], steps[-1], values[0], values[-1], min(values), max(values), values[0], 0)
        metrics.append(MetricReport(name, (name,), "", better, "capability", None, *ends))
    return replace(diagnoses.unjudged().runs[0], curves=tuple(curves), metrics=tuple(metrics), findings=())


def test_a_benchmark_has_one_score_and_its_parts_none() -> None:
    up: Better = "higher"
    run = scored(
        mmlu=(up, (0.3, 0.4)), mmlu_anatomy=(up, (0.1,)), mmlu_law=(up, (0.1,)), mmlu_virology=(up, (0.2,)),
        arc_easy=(up, (0.6,)), mmlu__acc_norm=(up, (0.3,)), wiki__word_perplexity=("lower", (20.0, 12.0, 14.0)),
    )  # fmt: skip
    found, told = scores(run, (), "")
    assert [one.name for one in found] == ["arc_easy", "mmlu", "wiki/word_perplexity"]
    assert told == "each benchmark's best of this run"
    wiki = found[-1]
    assert (wiki.best, wiki.best_step) == (12.0, 2000)
    assert wiki.share(wiki.last) == pytest.approx(12 / 14)


def test_targets_of_the_settings_are_the_reference() -> None:
    run = scored(gsm8k=("higher", (0.1, 0.4)), piqa=("higher", (0.6, 0.7)))
    found, told = scores(run, ["bench/gsm8k >= 0.5 by 40000", "eval/loss <= 2.1", 7], "")
    assert told == "the targets of the settings"
    assert [one.reference for one in found] == [0.5, None]


def test_published_scores_of_a_chosen_model() -> None:
    run = scored(
        hellaswag=("higher", (50.0, 70.0)), gsm8k=("higher", (0.1, 0.4)), my_own=("higher", (0.2, 0.3)),
        arc_challenge=("higher", (0.2, 0.3)), openbookqa=("higher", (0.2, 0.3)),
    )  # fmt: skip
    found, told = scores(run, (), "llama-2-70b")
    assert told == "llama-2-70b as published (arXiv:2401.02954)"
    by_name = {one.name: one.reference for one in found}
    assert by_name["hellaswag"] == pytest.approx(84.0)
    assert by_name["gsm8k"] == pytest.approx(0.584)
    assert by_name["my_own"] is None
    assert [name for *_, name in radar(found)] == ["arc_challenge", "gsm8k", "hellaswag", "openbookqa"]


@pytest.mark.parametrize(("name", "known"), [
    ("HellaSwag", 0.84), ("arc-easy", 0.765), ("nq_open", 0.361), ("HumanEval pass@1", 0.287), ("mmlu_5shot", 0.69),
    ("MMLU (5-shot)", 0.69), ("made_up", None),
])  # fmt: skip
def test_names_of_benchmarks_as_tools_write_them(name: str, known: float | None) -> None:
    assert published("llama-2-70b", name) == (None if known is None else pytest.approx(known))
    assert published("no-such-model", name) is None
    assert len(MODELS) == 4

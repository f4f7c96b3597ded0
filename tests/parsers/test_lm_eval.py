from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.door import Row, batches, facts, notes, points, rows, sniffed
from trainlens import analyze
from trainlens.catalog import resolve
from trainlens.errors import InputError
from trainlens.parsers import csv, json_table, jsonl, lm_eval

NEW = {
    "results": {
        "hellaswag": {"alias": "hellaswag", "acc,none": 0.5, "acc_stderr,none": 0.01, "acc_norm,none": 0.6,
                      "acc_norm_stderr,none": 0.02},
        "gsm8k": {"exact_match,strict-match": 0.3, "exact_match_stderr,strict-match": 0.01,
                  "exact_match,flexible-extract": 0.4, "exact_match_stderr,flexible-extract": "N/A"},
        "wikitext": {"word_perplexity,none": 9.5, "word_perplexity_stderr,none": "N/A"},
    },
    "n-shot": {"hellaswag": 5, "gsm8k": 5},
    "config": {"model": "hf", "model_args": "pretrained=out/checkpoint-500,dtype=float32", "batch_size": "8",
               "random_seed": 0, "limit": None},
    "date": 1741221341.5,
}  # fmt: skip


def of(whole: dict[str, Any], **more: Any) -> str:
    return json.dumps({**whole, **more})


def test_the_harness() -> None:
    assert rows(lm_eval, of(NEW)) == {
        "bench/hellaswag": [(500, 0.6)],
        "bench/hellaswag/acc": [(500, 0.5)],
        "stderr/hellaswag": [(500, 0.02)],
        "stderr/hellaswag/acc": [(500, 0.01)],
        "bench/gsm8k": [(500, 0.3)],
        "bench/gsm8k/exact_match,flexible-extract": [(500, 0.4)],
        "stderr/gsm8k": [(500, 0.01)],
        "bench/wikitext/word_perplexity": [(500, 9.5)],
    }
    first = points(batches(lm_eval, of(NEW)))[0]
    assert first.time is not None
    assert first.time.tolist() == [1741221341.5]


def test_the_older_harness() -> None:
    old = {"results": {"lambada": {"ppl": 5.0, "ppl_stderr": 0.1, "acc": 0.6, "acc_stderr": 0.01}}, "versions": {}}
    assert rows(lm_eval, of(old)) == {
        "bench/lambada": [(None, 0.6)], "bench/lambada/ppl": [(None, 5.0)], "stderr/lambada": [(None, 0.01)],
        "stderr/lambada/ppl": [(None, 0.1)],
    }  # fmt: skip


def test_results_by_date() -> None:
    dated = {"results": {"axb+GPT-3 style": {"2022-07-06-20": {"acc": 0.1}, "2022-07-07-20": {"acc": 0.2}}}}
    assert rows(lm_eval, of(dated)) == {"bench/axb/GPT-3 style": [(None, 0.2)]}


TABLE = {
    "tokens": [100, 200, 300],
    "checkpoints": [1, 2, 3],
    "results": {"piqa": {"acc": [0.5, None, 0.7], "acc_stderr": [0.1, 0.1, 0.1]}, "copa": {"acc": [0.5, 0.6]}},
}


def test_through_training() -> None:
    assert rows(lm_eval, of(TABLE)) == {
        "bench/piqa": [(1, 0.5), (3, 0.7)],
        "stderr/piqa": [(1, 0.1), (2, 0.1), (3, 0.1)],
        "bench/copa": [(None, 0.5), (None, 0.6)],
        "tokens": [(1, 100), (2, 200), (3, 300)],
    }


def test_through_the_training_of_several_models() -> None:
    found = points(batches(lm_eval, of({"one": TABLE, "two": TABLE})))
    assert {one.run for one in found} == {"one", "two"}
    assert len(found) == 8


def test_programs_that_pass() -> None:
    assert rows(lm_eval, '{"pass@1": 0.15, "pass@10": 0.25}', "humaneval_temp02.json") == {
        "bench/humaneval_temp02": [(None, 0.15)], "bench/humaneval_temp02/pass@10": [(None, 0.25)]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "step"),
    [
        ("pretrained=/out/checkpoint-500", 500),
        ({"pretrained": "/out/checkpoint-500/", "dtype": "auto"}, 500),
        ("pretrained=EleutherAI/pythia-160m,revision=step143000", 143000),
        ("pretrained=/out/global_step0070/hf", 70),
        ("pretrained=/checkpoint-100/lora/checkpoint-7", 7),
        ("pretrained=/out/iter_0000500", 500),
        ("pretrained=Qwen/Qwen2.5-7B", None),
        ("pretrained=stepfun-ai/Step3", 3),  # a name that looks like one
        ("pretrained=model-step10k", None),
        ("pretrained=twostep2", None),
    ],
)
def test_the_step_is_that_of_the_checkpoint(arguments: Any, step: int | None) -> None:
    whole = of(NEW, config={"model_args": arguments})
    assert rows(lm_eval, whole)["bench/hellaswag"] == [(step, 0.6)]


def test_the_step_may_stand_in_the_path() -> None:
    found = batches(lm_eval, of(NEW, config={}), "results_1.json", folder="model/checkpoint-42")
    assert points(found)[0].step is not None
    assert points(found)[0].step.tolist() == [42]  # type: ignore[union-attr]


def test_facts_say_what_was_judged() -> None:
    assert facts(lm_eval, of(NEW)) == {
        "config.model": "hf", "config.model_args": "pretrained=out/checkpoint-500,dtype=float32", "n-shot": 5
    }  # fmt: skip


def test_which_way_is_better() -> None:
    tags = ["bench/hellaswag", "bench/wikitext/word_perplexity", "bench/lambada/ppl", "stderr/piqa"]
    assert [about.better for about in resolve(tags).values()] == ["higher", "lower", "lower", "none"]


def test_no_score_and_no_document() -> None:
    assert [note.kind for note in notes(lm_eval, '{"results": {"a": {"alias": "b"}}}')] == ["no-points"]
    with pytest.raises(InputError, match="incomplete"):
        batches(lm_eval, of(NEW)[:-50])


@pytest.mark.parametrize("content", [of(NEW), json.dumps(NEW, indent=2), of(TABLE), '{"pass@1": 0.15}',
                                     of({"one": TABLE})])  # fmt: skip
def test_knows_its_own(content: str) -> None:
    assert sniffed(lm_eval, content, "results_1.json") > max(0.9, sniffed(json_table, content, "results_1.json"))


@pytest.mark.parametrize(
    "content", ["", "{}", '{"results": {"loss": 2}}', '{"eval_loss": 2, "acc": 0.5}', '[{"results": 1, "acc": 2}]']
)
def test_knows_what_is_not_its_own(content: str) -> None:
    assert sniffed(lm_eval, content) == 0


def test_the_checkpoints_of_one_run_are_one_curve(tmp_path: Path) -> None:
    for at in (500, 1000, 1500):
        folder = tmp_path / f"__out__checkpoint-{at}"
        folder.mkdir()
        whole = of(NEW, config={"model_args": f"pretrained=/out/checkpoint-{at}"}, date=1741221341.5 + at)
        (folder / "results_2025.json").write_text(whole)
    (run,) = analyze([tmp_path]).runs
    told = {one.name: (one.points, one.first_step, one.last_step) for one in run.metrics}
    assert told["bench/hellaswag"] == (3, 500, 1500)
    assert [finding.detector for finding in run.findings] == []


def test_groups_and_shots_that_differ() -> None:
    whole = {**NEW, "groups": {"mmlu": {"acc,none": 0.7}}, "n-shot": {"hellaswag": 10, "gsm8k": 5}}
    assert rows(lm_eval, of(whole))["bench/mmlu"] == [(500, 0.7)]
    told = facts(lm_eval, of(whole))
    assert (told["n-shot.hellaswag"], told["n-shot.gsm8k"]) == (10, 5)


def test_answers_to_questions_are_no_scores() -> None:
    text = '{"doc_id": 0, "doc": {"label": 3}, "resps": [[-5.0, false]], "acc": 1.0}\n' * 3
    assert sniffed(lm_eval, text, "samples_x.jsonl") > sniffed(jsonl, text, "samples_x.jsonl")
    assert rows(lm_eval, text, "samples_x.jsonl") == {}
    assert [one.kind for one in notes(lm_eval, text, "samples_x.jsonl")] == ["no-points"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("checkpoint,hellaswag\nstep_2000,0.4\nstep_4000,0.5\n", {"bench/hellaswag": [(2000, 0.4), (4000, 0.5)]}),
        ("model,tokens,piqa\nx/iter_0002000,1e9,0.4\n", {"tokens": [(2000, 1e9)], "bench/piqa": [(2000, 0.4)]}),
        ("step,MMLU,arc_easy\n10,25,0.5\n", {"bench/MMLU": [(10, 25.0)], "bench/arc_easy": [(10, 0.5)]}),
        ("step,loss,race\n10,2.5,0.5\n", {"loss": [(10, 2.5)], "race": [(10, 0.5)]}),
        ("dataset,version,metric,mode,m-step7\nARC-c,1e,acc,ppl,30.5\nx,-,acc,gen,-\n", {"bench/ARC-c": [(7, 30.5)]}),
    ],
)
def test_tables_of_scores(text: str, expected: dict[str, list[Row]]) -> None:
    assert rows(csv, text, "scores.csv") == expected

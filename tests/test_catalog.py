"""What the catalogue makes of tags as frameworks write them."""

from __future__ import annotations

import numpy as np
import pytest

from trainlens import catalog
from trainlens.catalog.languages import english
from trainlens.model import NO_RANK

TRAINERS = [
    ("loss eval_loss learning_rate grad_norm", "train/loss eval/loss lr grad_norm"),
    (
        "lm loss|validation lm loss|learning-rate|grad-norm|iteration-time",
        "train/loss eval/loss lr grad_norm step_time",
    ),
    ("lm-loss|grad norm|number of skipped iterations|consumed samples", "train/loss grad_norm skipped_steps samples"),
    ("reduced_train_loss val_loss", "train/loss eval/loss"),
    ("Loss/Train Loss/Valid", "train/loss eval/loss"),
    ("Loss_train/Loss Loss_val/Loss", "train/loss eval/loss"),
    ("train/epoch_loss validation/epoch_loss", "train/loss eval/loss"),
    ("trl tel norm", "train/loss eval/loss grad_norm"),
    ("train_loss_step lr-AdamW val_loss", "train/loss lr eval/loss"),
    (
        "elapsed_time_per_iteration_ms tokens_per_sec CurrSamplesPerSec",
        "step_time tokens_per_second samples_per_second",
    ),
    ("iter time (s)|tgs|TFLOPs", "step_time tokens_per_second tflops"),
    ("time data_time memory loss", "step_time data_time gpu/memory_used train/loss"),
    ("utilization.gpu [%]|memory.used [MiB]|power.draw [W]", "gpu/utilization gpu/memory_used gpu/power"),
    (
        "system.gpu.0.gpu system.gpu.0.memory system.gpu.0.memoryAllocated system.gpu.0.powerWatts system.gpu.0.temp",
        "gpu/utilization gpu/memory_bandwidth gpu/memory_share gpu/power gpu/temperature",
    ),
    ("act_mean/h.0 expert_load/3 update_ratio/h.1", "act_mean/h.0 expert_load/3 update_ratio/h.1"),
    ("throughput lm-loss iteration-time", "tflops train/loss step_time"),
    ("Policy/Learning Rate|Environment/Cumulative Reward", "lr reward"),
]


def tags(text: str) -> list[str]:
    return text.split("|") if "|" in text else text.split()


@pytest.mark.parametrize(("written", "canonical"), TRAINERS)
def test_tags_of_trainers_get_their_canonical_names(written: str, canonical: str) -> None:
    assert [about.name for about in catalog.resolve(tags(written)).values()] == canonical.split()


@pytest.mark.parametrize(
    ("written", "winner"),
    [
        ("loss train_loss", "loss"),
        ("loss train/loss", "train/loss"),
        ("train_loss_epoch train_loss_step", "train_loss_step"),
        ("loss_bbox loss_cls total_loss", "total_loss"),
        ("test_loss val_loss", "val_loss"),
    ],
)
def test_of_several_claimants_the_best_has_the_name_and_the_others_their_own(written: str, winner: str) -> None:
    found = catalog.resolve(written.split())
    assert [tag for tag, about in found.items() if about.name in ("train/loss", "eval/loss")] == [winner]
    assert all(about.name == tag for tag, about in found.items() if tag != winner)
    assert {about.role for about in found.values()} <= {"loss", "eval-loss"}


def test_a_tag_with_few_points_does_not_take_the_name() -> None:
    assert catalog.resolve(["loss", "total_loss"], {"loss": 2, "total_loss": 500})["total_loss"].name == "train/loss"


@pytest.mark.parametrize(
    ("tag", "role", "better"),
    [
        ("eval_wiki_loss", "eval-loss", "lower"),
        ("mtp_1 loss", "loss", "lower"),
        ("decode.loss_seg", "loss", "lower"),
        ("elbo/neg", "loss", "lower"),
        ("nll", "loss", "lower"),
        ("actor/pg_loss", "policy-loss", "none"),
        ("val_auc", "score", "higher"),
        ("metrics/mAP50(B)", "score", "higher"),
        ("score_err", "score", "lower"),
        ("bench/gsm8k", "score", "higher"),
        ("bench/wikitext_perplexity", "score", "lower"),
        ("bench/gsm8k_stderr", "other", "none"),
        ("eval/episode_reward", "reward", "higher"),
        ("hp_metric", "other", "none"),
        ("min_val_loss", "other", "none"),
        ("loss_weight", "other", "none"),
        ("lm loss vs samples", "other", "none"),
        ("kernel/lengthscale", "other", "none"),
        ("elapsed_s", "clock", "none"),
        ("train_runtime", "duration", "none"),
        ("eval_samples_per_second", "duration", "none"),
        ("train_speed(iter/s)", "other", "none"),
        ("RunningAvgSamplesPerSec", "other", "none"),
        ("code_perplexity", "other", "none"),
    ],
)
def test_what_is_told_of_a_name_that_has_no_canonical_one(tag: str, role: str, better: str) -> None:
    about = catalog.resolve([tag])[tag]
    assert (about.name, about.role, about.better) == (tag, role, better)


def test_the_loss_of_reinforcement_learning_has_no_better_direction() -> None:
    found = catalog.resolve(["loss", "reward", "kl"])
    assert (found["loss"].role, found["loss"].better) == ("policy-loss", "none")
    preference = catalog.resolve(["loss", "rewards/chosen", "rewards/margins", "rewards/accuracies"])
    assert preference["loss"].role == "loss"


@pytest.mark.parametrize(
    ("tag", "unit", "scale"),
    [
        ("elapsed time per iteration (ms)", "s", 1e-3),
        ("elapsed time per iteration (s)", "s", 1.0),
        ("memory(GiB)", "bytes", 2.0**30),
        ("system/peak_mem_allocated_mib", "bytes", 2.0**20),
        ("mfu(%)", "share", 0.01),
        ("memory/max_active(%)", "share", 0.01),
        ("samples/sec", "samples/s", 1.0),
        ("tokens_per_second", "tokens/s", 1.0),
    ],
)
def test_units_are_read_from_the_tag(tag: str, unit: str, scale: float) -> None:
    about = catalog.resolve([tag])[tag]
    assert about.unit == unit
    assert about.scale == pytest.approx(scale)


@pytest.mark.parametrize(
    ("tag", "values", "scale"), [("mfu", [38.0, 41.0], 0.01), ("mfu", [0.38, 0.41], 1.0), ("mfu", [-100.0], 1.0)]
)
def test_a_share_above_one_is_a_percentage(tag: str, values: list[float], scale: float) -> None:
    assert catalog.settle(catalog.resolve([tag])[tag], tag, np.array(values)).scale == scale


@pytest.mark.parametrize(
    ("tag", "bare", "rank"),
    [
        ("step_time/rank3", "step_time", 3),
        ("rank_2/loss", "loss", 2),
        ("loss rank 12", "loss", 12),
        ("system.gpu.0.powerWatts", "system.gpu.powerWatts", 0),
        ("expert_load/7", "expert_load/7", NO_RANK),
        ("mAP50", "mAP50", NO_RANK),
        ("rank", "rank", NO_RANK),
        ("rank_correlation", "rank_correlation", NO_RANK),
    ],
)
def test_ranks_are_split_from_tags(tag: str, bare: str, rank: int) -> None:
    assert catalog.split_rank(tag) == (bare, rank)


def test_ranks_of_one_tag_share_its_name() -> None:
    assert {about.name for about in catalog.resolve([f"step_time/rank{k}" for k in range(4)]).values()} == {"step_time"}


def test_groups_of_the_learning_rate_are_numbered() -> None:
    found = catalog.resolve(["lr/pg0", "lr/pg1", "lr/pg2"])
    assert [about.name for about in found.values()] == ["lr", "lr/1", "lr/2"]


@pytest.mark.parametrize(
    ("tag", "axis"),
    [
        ("step", "step"), ("global_step", "step"), ("trainer/global_step", "step"), ("Step", "step"),
        ("num_updates", "step"), ("global_step/max_steps", "step"), ("timestamp", "time"), ("_timestamp", "time"),
        ("Wall time", "time"), ("rank", "rank"), ("run_id", "run"), ("epoch", None), ("time", None), ("loss", None),
    ],
)  # fmt: skip
def test_axes(tag: str, axis: str | None) -> None:
    assert catalog.axis(tag) == axis


def test_the_table_is_found_by_name() -> None:
    assert all(catalog.metric(about.name) is about for about in catalog.METRICS)
    assert catalog.metric("no such") is None


@pytest.mark.parametrize(
    ("tag", "unit", "name", "scale"),
    [
        ("dt", "ms", "step_time", 1e-3), ("train_time", "ms", "train_time", 1e-3), ("mfu", "%", "mfu", 0.01),
        ("memory", "GiB", "gpu/memory_used", 1024.0**3), ("loss", "BPC", "train/loss", 1.0),
        ("dt", "", "step_time", 1.0), ("iter_time_ms", "s", "step_time", 1e-3),
        ("throughput", "tokens/s", "throughput", 1.0),
    ],
)  # fmt: skip
def test_a_unit_beside_the_values_counts_where_the_name_has_none(tag: str, unit: str, name: str, scale: float) -> None:
    about = catalog.resolve([tag], units={tag: unit})[tag]
    assert (about.name, about.scale) == (name, scale)


@pytest.mark.parametrize(
    ("unit", "values", "claimed", "name"),
    [
        ("ms", [120.0, 130.0, 125.0, 128.0], (), "step_time"),
        ("ms", [120.0, 250.0, 375.0, 500.0], (), "time"),
        ("ms", [120.0, 130.0, 125.0, 128.0], ("step_time",), "time"),
        ("s", [120.0, 130.0, 125.0, 128.0], (), "time"),
        ("s", [2.0, 2.1, 1.9, 2.2, 2.0, 2.1, 1.8, 2.0, 2.3, 2.1], (), "step_time"),
        ("s", [2.0, 4.1, 6.0, 8.2, 10.0, 2.1, 4.0, 6.1, 8.0, 10.1], (), "time"),
        ("", [120.0, 130.0, 125.0, 128.0], (), "time"),
    ],
)
def test_a_time_in_milliseconds_that_goes_back_is_that_of_a_step(
    unit: str, values: list[float], claimed: tuple[str, ...], name: str
) -> None:
    about = catalog.resolve(["time"], units={"time": unit})["time"]
    settled = catalog.settle(about, "time", np.array(values), frozenset(claimed))
    assert (settled.name, settled.scale) == (name, about.scale)


def test_a_tag_that_lost_its_own_name_to_a_fuller_one_is_told_apart() -> None:
    sizes = {"loss": 5000, "train/loss": 20}
    assert [about.name for about in catalog.resolve(sizes, sizes).values()] == ["train/loss", "train/loss/1"]


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("clocks_throttle_reasons.hw_slowdown", "gpu/throttled/hw_slowdown"),
        ("clocks_event_reasons.active", "gpu/throttled/active"),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gpu/throttled/active"),
    ],
)
def test_reasons_of_lower_clocks(tag: str, name: str) -> None:
    about = catalog.resolve([tag])[tag]
    assert (about.name, about.role, about.panel) == (name, "throttle", "resources")


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("Verlust", "train/loss"), ("Validierungsverlust", "eval/loss"), ("Lernrate", "lr"),
        ("Perte d'entraînement", "train/loss"), ("perte de validation", "eval/loss"), ("taux d’apprentissage", "lr"),
        ("val_pérdida", "eval/loss"), ("Tasa de aprendizaje", "lr"), ("acurácia", "train/accuracy"),
        ("потери", "train/loss"), ("точность валидации", "eval/accuracy"), ("скорость обучения", "lr"),
        ("训练损失", "train/loss"), ("验证/损失", "eval/loss"), ("学习率", "lr"), ("验证集准确率", "eval/accuracy"),
        ("損失", "train/loss"), ("検証損失", "eval/loss"), ("학습률", "lr"), ("검증 정확도", "eval/accuracy"),
        ("valid's loss", "eval/loss"),  # LightGBM
    ],
)  # fmt: skip
def test_names_in_other_languages(tag: str, name: str) -> None:
    assert catalog.resolve([tag])[tag].name == name


@pytest.mark.parametrize("tag", ["Schritt", "étape", "paso", "шаг", "训练步数", "ステップ", "스텝"])
def test_steps_in_other_languages(tag: str) -> None:
    assert catalog.axis(tag) == "step"


@pytest.mark.parametrize("tag", ["compass", "superloss", "verlustig", "perdita2"])
def test_words_that_only_hold_such_a_word_stay(tag: str) -> None:
    assert english(tag) == tag

"""Heat maps: what is grouped as layers or experts, what each row is held against, what stays a curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.reports import diagnoses
from trainlens.diagnosis import Curve, Finding
from trainlens.reports import html
from trainlens.reports._ranks import Heat, layers

STEPS = tuple(range(0, 2_000, 10))


def curve(metric: str, level: float = 1.0, late: float = 1.0) -> Curve:
    """A level that is `late` times as high in the last quarter."""
    value = tuple((level * np.where(np.arange(len(STEPS)) >= 150, late, 1.0)).tolist())
    return Curve(metric, None, "", "stability", STEPS, value, value, value)


def heats(curves: Sequence[Curve], findings: tuple[Finding, ...] = ()) -> list[Heat]:
    run = replace(diagnoses.healthy().runs[0], curves=tuple(curves), findings=findings)
    return layers(run, {one.metric: one for one in curves}, (0, 1_990))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("layer_{}/grad_norm", "layer"),
        ("act_rms/layers.{}", "layer"),
        ("grad_norm/model.layers.{}.mlp.weight", "layer"),
        ("h.{}.attn/rms", "layer"),
        ("transformer/block{}/norm", "block"),
        ("expert_load/{}", "expert"),
        ("moe/Expert_{}/tokens", "expert"),
    ],
)
def test_numbered_names_are_rows_in_order_of_their_numbers(name: str, kind: str) -> None:
    (heat,) = heats([curve(name.format(at), 1 + at) for at in (10, 2, 0, 1, 11)])
    assert (heat.kind, heat.ranks) == (kind, (0, 1, 2, 10, 11))
    assert heat.metric == name.replace("{}", "*")


@pytest.mark.parametrize(
    "names",
    [
        [f"layer_{at}/grad_norm" for at in range(3)],  # few enough to be curves
        [f"gauge_{at}" for at in range(8)],
        [f"eval/loss_{at}" for at in range(8)],
        [f"bench/layer_{at}" for at in range(8)],
        [f"loss/graph{at}" for at in range(8)],
        [f"layer_{part}/norm" for part in "abcdef"],
    ],
)
def test_other_names_stay_curves(names: list[str]) -> None:
    assert heats([curve(name) for name in names]) == []


def test_a_layer_is_held_against_itself_and_an_expert_against_the_others() -> None:
    (deep,) = heats([curve(f"layer_{at}/norm", level=10.0**at, late=5.0 if at == 3 else 1.0) for at in range(6)])
    assert (deep.rows[0].rank, round(deep.rows[0].ratio, 2), deep.against) == (3, 5.0, "its own median")
    (moe,) = heats([curve(f"expert_{at}/load", level=3.0 if at == 2 else 1.0) for at in range(8)])
    assert (moe.rows[0].rank, round(moe.rows[0].ratio, 2), moe.against) == (2, 3.0, "the median expert")


def test_a_layer_that_falls_is_as_dark_as_one_that_rises() -> None:
    (heat,) = heats([curve(f"layer_{at}/norm", late={1: 0.25, 2: 4.0}.get(at, 1.0)) for at in range(6)])
    assert np.allclose(heat.shade[1, -4:], heat.shade[2, -4:])
    assert heat.worst == pytest.approx(4.0)


def test_values_around_zero_have_no_ratio() -> None:
    assert heats([curve(f"act_mean/layer.{at}", level=at - 2.0) for at in range(6)]) == []


def test_what_findings_speak_of_comes_first() -> None:
    quiet = [curve(f"layer_{at}/weight_norm") for at in range(6)]
    loud = [curve(f"layer_{at}/grad_norm", late=9.0) for at in range(6)]
    told = Finding("activation-drift", "error", "layer_4/weight_norm", 1_500, 1_990, "Drift", "It drifts.", id="drift")
    assert [heat.metric for heat in heats([*loud, *quiet], (told,))] == ["layer_*/weight_norm", "layer_*/grad_norm"]
    assert heats([*loud, *quiet], (told,))[0].named == (4,)


def test_the_page_shows_layers_once() -> None:
    curves = tuple(curve(f"layer_{at}/norm", late=3.0 if at == 1 else 1.0) for at in range(6))
    run = replace(diagnoses.healthy().runs[0], curves=(*diagnoses.healthy().runs[0].curves, *curves))
    text = html.render(diagnoses.told(run), html.Options(charts=False)).decode()
    assert 'id="layers"' in text
    assert text.count("layer_*/norm") == 2  # caption and words
    assert 'id="curve-layer' not in text

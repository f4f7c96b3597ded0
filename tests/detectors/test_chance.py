"""How far chance reaches is told by a run's own peaks: rarely too near, whatever the tail, and spikes stand beyond."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trainlens.detectors._chance import beyond_chance, chance_reach
from trainlens.model import Floats

Draw = Callable[[np.random.Generator, int], Floats]
TAILS: dict[str, Draw] = {
    "normal": lambda chance, n: chance.normal(size=n),
    "exponential": lambda chance, n: chance.exponential(size=n) - 1,
    "Student, 5 degrees": lambda chance, n: chance.standard_t(5, n),
}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("points", [300, 5000])
def test_the_next_run_of_the_same_kind_rarely_reaches_further(tail: str, points: int) -> None:
    beyond = 0
    for seed in range(100):
        chance = np.random.default_rng(seed)
        beyond += TAILS[tail](chance, points).max() > chance_reach(TAILS[tail](chance, points))
    assert beyond <= (12 if points < 1000 else 6)  # 2 of 100 where the tail is known


def test_few_points_tell_nothing() -> None:
    assert chance_reach(np.zeros(99)) == 0.0


def test_spikes_do_not_hide_themselves_and_common_peaks_are_given_back() -> None:
    above = np.random.default_rng(3).normal(size=2000)
    above[[700, 1500]] = 30.0, 25.0
    hits = above > 3.0
    kept, reach = beyond_chance(above, hits, 0, 5)
    assert np.flatnonzero(kept).tolist() == [700, 1500]
    assert 3.0 < reach < 25.0
    assert hits.sum() > 2  # as given

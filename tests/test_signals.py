"""The arithmetic of detectors: small exact cases, and properties that hold for any input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.lib.stride_tricks import sliding_window_view

from trainlens import signals
from trainlens.model import Floats

numbers = st.floats(-1e6, 1e6, allow_nan=False)
series = arrays(float, st.integers(1, 200), elements=numbers)


def noise(n: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=n)


# ---- levels ----------------------------------------------------------------------------------------------------------


def naive_rolling(x: Floats, half: int) -> Floats:
    reaches = [min(half, max(2, i)) for i in range(len(x))]
    return np.array([np.median(x[max(0, i - reach) : i + reach + 1]) for i, reach in enumerate(reaches)])


@settings(max_examples=60, deadline=None)
@given(series, st.integers(1, 60))
def test_rolling_median_is_the_median_of_each_window(x: Floats, half: int) -> None:
    np.testing.assert_allclose(signals.rolling_median(x, half), naive_rolling(x, min(half, len(x))))


@settings(max_examples=60, deadline=None)
@given(series, st.integers(1, 60))
def test_trailing_median_sees_only_what_came_before(x: Floats, window: int) -> None:
    found = signals.trailing_median(x, window)
    assert math.isnan(found[0])
    window = min(window, len(x))
    expected = [np.median(x[max(0, i - window) : i]) for i in range(1, len(x))]
    np.testing.assert_allclose(found[1:], expected)


def test_long_series_are_thinned_but_stay_close() -> None:
    x = np.linspace(5, 1, 60_000) + 0.1 * noise(60_000)
    exact = np.array([np.median(x[i - 50 : i + 51]) for i in range(1000, 59_000, 777)])
    assert np.abs(signals.rolling_median(x, 50)[1000:59_000:777] - exact).max() < 0.04
    before = np.array([np.median(x[i - 100 : i]) for i in range(1000, 59_000, 777)])
    assert np.abs(signals.trailing_median(x, 100)[1000:59_000:777] - before).max() < 0.04


def test_a_falling_curve_gets_no_lag_at_its_start() -> None:
    x = np.linspace(10, 0, 400)
    np.testing.assert_allclose(signals.rolling_median(x, 50)[5:300], x[5:300])


@pytest.mark.parametrize("width", [1, 2, 63, 64, 65, 66, 128, 129, 256, 257, 400, 513, 514, 601])
@pytest.mark.parametrize(("points", "stride"), [(700, 1), (9_000, 1), (9_000, 3), (9_000, 32), (9_000, 1_000)])
@pytest.mark.parametrize("digits", [1, 12])
def test_window_medians_are_those_of_numpy_to_the_bit(width: int, points: int, stride: int, digits: int) -> None:
    x = np.round(np.random.default_rng(width).normal(size=points), digits)
    begins = np.arange(0, points - width + 1, stride)
    expected = np.median(sliding_window_view(x, width)[begins], axis=1)
    np.testing.assert_array_equal(signals.window_medians(x, begins, width), expected)


@settings(max_examples=60, deadline=None)
@given(series)
def test_median_is_that_of_numpy_to_the_bit(x: Floats) -> None:
    assert signals.median(x) == np.median(x)
    x[len(x) // 2] = math.nan
    assert math.isnan(signals.median(x))


def test_rolling_median_of_nothing_and_of_a_half_of_nothing() -> None:
    assert len(signals.rolling_median(np.empty(0), 5)) == 0
    np.testing.assert_array_equal(signals.rolling_median(np.array([3.0, 1.0]), 0), [3.0, 1.0])


def test_mad_is_a_standard_deviation_of_normal_noise_and_blind_to_outliers() -> None:
    x = noise(20_000)
    x[:4000] = 1e9
    assert 1.0 < signals.mad(x) < 1.4
    assert abs(signals.mad(noise(20_000)) - 1) < 0.03
    assert signals.mad(np.empty(0)) == 0


def test_blocks_leave_the_rest_out() -> None:
    x = np.array([1.0, 2.0, 9.0, 4.0, 5.0, 6.0, 100.0])
    np.testing.assert_array_equal(signals.block_medians(x, 3), [2.0, 5.0])
    np.testing.assert_array_equal(signals.block_means(x, 3), [4.0, 5.0])
    assert len(signals.block_medians(x, 8)) == 0


def test_block_noise_does_not_see_a_step_or_a_slope() -> None:
    x = noise(400)
    moved = x + 10 * (np.arange(400) > 200) + 0.01 * np.arange(400)
    assert signals.block_noise(moved) == pytest.approx(signals.block_noise(x), rel=0.1)


@pytest.mark.parametrize(
    ("hits", "gap", "expected"),
    [
        ([], 1, []),
        ([3], 1, [(3, 3)]),
        ([3, 4, 5], 1, [(3, 5)]),
        ([3, 5], 1, [(3, 3), (5, 5)]),
        ([3, 5], 2, [(3, 5)]),
        ([0, 9], 0, [(0, 0), (9, 9)]),
        ([0, 4, 9], 5, [(0, 9)]),
    ],
)
def test_episodes(hits: list[int], gap: int, expected: list[tuple[int, int]]) -> None:
    mask = np.zeros(10, bool)
    mask[hits] = True
    assert signals.episodes(mask, gap) == expected


@settings(max_examples=50, deadline=None)
@given(series, st.integers(1, 50))
def test_thinning_keeps_the_extremes(x: Floats, blocks: int) -> None:
    step = np.arange(len(x))
    thinned = signals.thin(step, x, blocks)
    assert len(thinned.step) <= max(blocks, 1) or len(x) <= blocks
    assert thinned.low.min() == x.min()
    assert thinned.high.max() == x.max()
    assert (thinned.low <= thinned.median).all()
    assert (thinned.median <= thinned.high).all()
    assert (np.diff(thinned.step) > 0).all()


def test_interpolate_last_holds_the_last_known_value() -> None:
    found = signals.interpolate_last(np.array([1, 10, 15, 99]), np.array([10, 20]), np.array([0.1, 0.2]))
    np.testing.assert_array_equal(found, [math.nan, 0.1, 0.1, 0.2])
    empty = signals.interpolate_last(np.array([1]), np.empty(0, np.int64), np.empty(0))
    assert np.isnan(empty).all()


# ---- questions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "df", "expected"),
    [(0.75, 4, 0.740697), (0.975, 8, 2.306004), (0.99, 20, 2.527977), (0.999, 50, 3.261409), (0.975, 200, 1.971896)],
)
def test_quantiles_of_students_t(p: float, df: int, expected: float) -> None:
    assert signals.t_quantile(p, df) == pytest.approx(expected, abs=1e-5)


def test_the_tail_threshold_grows_with_heavy_tails_and_with_the_number_of_tests() -> None:
    generator = np.random.default_rng(1)
    normal = np.abs(generator.normal(size=4000))
    heavy = np.abs(generator.standard_t(4, 4000)) * 0.9
    assert signals.tail_threshold(normal, 12_000, 3.0) < signals.tail_threshold(heavy, 12_000, 3.0)
    assert signals.tail_threshold(normal, 100, 3.0) < signals.tail_threshold(normal, 10_000_000, 3.0)
    assert signals.tail_threshold(normal, 12_000, 6.0) >= 6.0
    assert 2 * heavy.max() < signals.tail_threshold(heavy, 10**9, 6.0) <= 100 ** (1 / 4) * heavy.max() * (1 + 1e-9)


def test_the_tail_threshold_of_few_points_is_careful() -> None:
    assert signals.tail_threshold(np.ones(10), 100, 6.0) == 7.0
    assert signals.tail_threshold(np.zeros(100), 100, 6.0) == 6.0


def test_theil_sen_finds_the_slope_through_outliers() -> None:
    x = np.arange(2000.0)
    y = 2 * x + noise(2000)
    y[::5] += 1e6
    slope, low, high = signals.theil_sen(x, y)
    assert low <= slope <= high
    assert slope == pytest.approx(2, abs=0.01)
    assert signals.theil_sen(np.ones(2), np.ones(2)) == (0.0, -math.inf, math.inf)


@pytest.mark.parametrize(
    ("y", "tau"), [(np.arange(50.0), 1.0), (-np.arange(50.0), -1.0), (np.ones(50), 0.0), (np.arange(5000.0), 1.0)]
)
def test_kendall_of_clear_cases(y: Floats, tau: float) -> None:
    found, p = signals.kendall(y)
    assert found == pytest.approx(tau)
    assert (p < 1e-6) == (tau != 0)


def test_kendall_of_noise_is_no_trend() -> None:
    assert signals.kendall(noise(300))[1] > 0.05
    assert signals.kendall(np.array([1.0, 2.0])) == (0.0, 1.0)


def test_fit_line_knows_its_error() -> None:
    x = np.arange(100.0)
    slope, error = signals.fit_line(x, 3 * x + noise(100))
    assert abs(slope - 3) < 4 * error < 0.1
    assert signals.fit_line(np.ones(9), np.arange(9.0)) == (0.0, math.inf)


@pytest.mark.parametrize("size", [1.0, 3.0, -3.0])
def test_change_point_lies_at_the_step(size: float) -> None:
    x = noise(3000)
    x[1800:] += size
    at = signals.change_point(x)
    assert at is not None
    assert abs(at - 1800) <= 45


@pytest.mark.parametrize("x", [noise(3000), noise(20), np.ones(500), noise(5)])
def test_no_change_point_where_nothing_changes(x: Floats) -> None:
    assert signals.change_point(x) is None


def test_held_level_is_the_longest_stretch_of_equal_values() -> None:
    x = np.array([1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 4.0, 5.0])
    assert signals.held_level(x, 3) == (4, 6)
    assert signals.held_level(x, 4) is None
    assert signals.held_level(np.empty(0), 2) is None


def test_a_million_points_keep_their_input() -> None:
    x = noise(1_000_000)
    before = x[::1000].copy()
    signals.rolling_median(x, 128)
    signals.trailing_median(x, 128)
    np.testing.assert_array_equal(x[::1000], before)

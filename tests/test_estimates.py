"""The formulas of weighted aggregates, over plain arrays, against the estimates of the core."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import estimates as weighted
from tests.reference.estimate import Sample


class Arrays:
    """Formulas as numbers: Spark's functions over arrays, null as NaN."""

    def literal(self, value: float | None) -> Any:
        return np.float64(math.nan if value is None else value)

    def call(self, name: str, *arguments: Any) -> Any:
        return FUNCTIONS[name](*arguments)


def _pairs(x: Any, y: Any) -> Any:
    there = ~(np.isnan(x) | np.isnan(y))
    return np.cov(x[there], y[there], ddof=0)[0, 1]


FUNCTIONS: dict[str, Any] = {
    "sum": np.nansum,
    "max": np.nanmax,
    "double": lambda x: x,
    "bigint": lambda x: int(x),
    "round": np.round,
    "sqrt": np.sqrt,
    "coalesce": lambda x, y: y if np.isnan(x) else x,
    "greatest": max,
    "least": min,
    "nvl2": lambda x, a, b: np.where(np.isnan(x), b, a),
    "if": lambda condition, a, b: a if condition else b,
    "try_divide": lambda a, b: a / b if b else math.nan,
    "var_pop": np.nanvar,
    "var_samp": lambda x: np.nanvar(x, ddof=1),
    "stddev_pop": np.nanstd,
    "stddev_samp": lambda x: np.nanstd(x, ddof=1),
    "covar_pop": _pairs,
    "covar_samp": lambda x, y: _pairs(x, y),
    "corr": lambda x, y: np.corrcoef(x, y)[0, 1],
}
ARRAYS = Arrays()
values = st.floats(-100, 100).map(lambda x: round(x, 3))
samples = st.lists(st.tuples(values, values, st.sampled_from([1.0, 1.5, 2.0, 10.0])), min_size=2)


def _agree(found: weighted.Weighted[Any], expected: Any, scale: float, lean: float = 0.0) -> None:
    """``expected`` has Student's interval; to it comes what the interval reaches further."""
    low, high = weighted.bounds(ARRAYS, found, 0.95)
    if found.lean is not None:
        assert float(found.lean) == pytest.approx(lean, rel=1e-4, abs=1e-5)
        further = float(found.lean) * _johnson(found)
        low, high = low - min(further, 0.0), high - max(further, 0.0)
    assert float(found.value) == pytest.approx(expected.value, rel=1e-9, abs=1e-9 * scale)
    slack = 1e-5 * scale  # a difference of sums of fourth powers, then a root
    assert float(low) == pytest.approx(expected.low, rel=1e-6, abs=slack)
    assert float(high) == pytest.approx(expected.high, rel=1e-6, abs=slack)


def _johnson(found: weighted.Weighted[Any]) -> float:
    """How far an interval of 95 % reaches further, for each unit of lean."""
    assert found.variance is not None
    assert found.doubt is not None
    times = min(1.0 + 60.0 * float(found.doubt), 4.0)
    return times * (1.0 + 2.0 * 1.959964**2) / 6.0 * math.sqrt(max(float(found.variance), 0.0))


def _skewness(x: Any, w: Any, *, of_sum: bool = False) -> float:
    """The skewness of the error of a mean or a sum, tuple by tuple."""
    e = w * (w - 1.0)
    about = x - (w * x).sum() / w.sum()
    second = (e * (x if of_sum else about) ** 2).sum()
    if second <= max((e * x * x).sum() * 1e-9, 0.0):
        return 0.0
    skewness: float = (e * about**3).sum() / second**1.5 * math.sqrt((e * e).sum() / e.sum())
    return 2.0 * skewness if of_sum else skewness


@settings(max_examples=300)
@given(samples)
def test_formulas_are_the_estimates_of_the_core(rows: list[tuple[float, float, float]]) -> None:
    x, y, w = (np.array(column) for column in zip(*rows, strict=True))
    one, both = Sample().update(x, weight=w), Sample().update(x, y, weight=w)
    _agree(weighted.total(ARRAYS, x, w), one.sum(), 1e3, _skewness(x, w, of_sum=True))
    _agree(weighted.mean(ARRAYS, x, w), one.mean(), 1e2, _skewness(x, w))
    _agree(weighted.covariance(ARRAYS, x, y, w), both.covariance(), 1e4)
    count = weighted.count(ARRAYS, w)
    assert count.value == round(one.count().value)


@settings(max_examples=300)
@given(samples)
def test_a_variance_has_its_interval_and_its_root(rows: list[tuple[float, float, float]]) -> None:
    x, _, w = (np.array(column) for column in zip(*rows, strict=True))
    found, expected = weighted.variance(ARRAYS, x, w), Sample().update(x, weight=w).covariance()
    _agree(found, expected, 1e4)
    if expected.value > 1.0:
        root = weighted.deviation(ARRAYS, x, w)
        half = (expected.high - expected.value) / (2 * math.sqrt(expected.value))
        low, high = weighted.bounds(ARRAYS, root, 0.95)
        assert float(root.value) == pytest.approx(math.sqrt(expected.value), rel=1e-6)
        assert float(high - low) / 2 == pytest.approx(half, rel=1e-3, abs=1e-2)


@settings(max_examples=100)
@given(samples, st.lists(st.booleans(), min_size=200, max_size=200))
def test_a_missing_value_counts_for_nothing(
    rows: list[tuple[float, float, float]], holes: list[bool]
) -> None:
    x, y, w = (np.array(column) for column in zip(*rows, strict=True))
    gone = np.resize(holes, x.size)
    if gone.sum() > x.size - 2:
        return
    holed = np.where(gone, np.nan, x)
    for formula in (weighted.mean, weighted.variance, weighted.deviation):
        whole, part = formula(ARRAYS, holed, w), formula(ARRAYS, x[~gone], w[~gone])
        assert float(whole.value) == pytest.approx(float(part.value), abs=1e-6)
    pair, part = (
        weighted.covariance(ARRAYS, holed, y, w),
        weighted.covariance(ARRAYS, x[~gone], y[~gone], w[~gone]),
    )
    assert float(pair.value) == pytest.approx(float(part.value), abs=1e-6)


def test_an_interval_reaches_further_on_the_side_to_which_its_error_leans() -> None:
    """One tuple of five is large: what was shed may well be larger than what was kept."""
    x, w = np.array([1.0, 1.0, 1.0, 1.0, 6.0]), np.full(5, 4.0)
    for formula, sign in ((weighted.mean, 1), (weighted.total, 1), (weighted.mean, -1)):
        found = formula(ARRAYS, sign * x, w)
        low, high = weighted.bounds(ARRAYS, found, 0.95)
        below, above = found.value - low, high - found.value
        assert (above > 1.2 * below) if sign > 0 else (below > 1.2 * above)
    even = weighted.mean(ARRAYS, np.arange(5.0), w)
    low, high = weighted.bounds(ARRAYS, even, 0.95)
    assert high - even.value == pytest.approx(even.value - low)


def test_the_correlation_is_that_of_repeated_tuples() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=200), rng.integers(1, 5, 200).astype(float)
    y = x + rng.normal(size=200)
    twice = [np.repeat(column, w.astype(int)) for column in (x, y)]
    found = weighted.correlation(ARRAYS, x, y, w)
    assert float(found.value) == pytest.approx(FUNCTIONS["corr"](*twice))
    assert found.variance is None
    with pytest.raises(ValueError, match="no sound interval"):
        weighted.bounds(ARRAYS, found, 0.95)


@pytest.mark.parametrize("seed", range(3))
def test_intervals_cover_the_truth(seed: int) -> None:
    """Law 7 for second-order aggregates: 95 % of intervals, within what chance allows."""
    rng = np.random.default_rng(seed)
    x = rng.exponential(50.0, 2000)
    y = x + rng.normal(0, 20, x.size)
    rate = np.where(np.arange(x.size) % 2, 0.5, 0.25)
    truth = (x.var(), x.std(), np.cov(x, y, ddof=0)[0, 1])
    hits = np.zeros(3)
    for _ in range(400):
        kept = rng.random(x.size) < rate
        a, b, w = x[kept], y[kept], 1 / rate[kept]
        found = (
            weighted.variance(ARRAYS, a, w),
            weighted.deviation(ARRAYS, a, w),
            weighted.covariance(ARRAYS, a, b, w),
        )
        for i, (estimate, true) in enumerate(zip(found, truth, strict=True)):
            low, high = weighted.bounds(ARRAYS, estimate, 0.95)
            hits[i] += low <= true <= high
    assert (hits / 400 > 0.9).all(), hits / 400

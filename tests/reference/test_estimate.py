"""Law 7: weighted estimates are unbiased, and their intervals cover."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from penstock.estimates import student
from tests.reference.estimate import Estimate, Sample

numbers = st.floats(-100, 100)
rows = st.lists(st.tuples(numbers, numbers, st.floats(1, 20)), min_size=1, max_size=30)


def _of(rows: list[tuple[float, float, float]], origin: tuple[float, float] = (0, 0)) -> Sample:
    x, y, w = np.array(rows).T
    return Sample(origin).update(x, y, weight=w)


def _close(one: Estimate, other: Estimate) -> bool:
    """But for rounding: an end is the root of a difference of fourth powers, up to ten-fold."""
    value = np.isclose(one.value, other.value, rtol=1e-6, atol=1e-6)
    return bool(value and np.allclose(one, other, rtol=1e-6, atol=1e-2))


@given(rows, rows)
def test_merged_equals_whole(
    first: list[tuple[float, float, float]], second: list[tuple[float, float, float]]
) -> None:
    merged, whole = _of(first) + _of(second), _of(first + second)
    for name in ("count", "sum", "mean", "covariance"):
        assert _close(getattr(merged, name)(), getattr(whole, name)())


@given(rows, numbers, numbers)
def test_the_origin_does_not_matter(
    rows: list[tuple[float, float, float]], a: float, b: float
) -> None:
    for name in ("count", "sum", "mean", "covariance"):
        assert _close(getattr(_of(rows, (a, b)), name)(), getattr(_of(rows), name)())


@given(rows)
def test_against_the_obvious_formulas(rows: list[tuple[float, float, float]]) -> None:
    x, y, w = np.array(rows).T
    sample, total = _of(rows), w.sum()
    assert sample.count().value == pytest.approx(total)
    assert sample.sum().value == pytest.approx((w * x).sum(), abs=1e-6)
    mean = (w * x).sum() / total
    assert sample.mean().value == pytest.approx(mean, abs=1e-6)
    extra = w * (w - 1)
    share = (extra**2).sum() / extra.sum() ** 2 if extra.any() else 0.0
    left = max(1 - share, 0.5)
    half = np.sqrt((extra * (x - mean) ** 2).sum() / left) / total
    half *= student(1.959964, min(share / left, 1.0))
    assert sample.mean().high - sample.mean().value == pytest.approx(half, rel=1e-3, abs=1e-3)
    covariance = (w * (x - mean) * (y - (w * y).sum() / total)).sum() / total
    assert sample.covariance().value == pytest.approx(covariance, abs=1e-6)


def test_without_shedding_an_estimate_is_exact() -> None:
    x = np.arange(10.0)
    sample = Sample().update(x)
    assert sample.count() == (10, 10, 10)
    assert sample.sum() == (45, 45, 45)
    assert sample.mean() == (4.5, 4.5, 4.5)
    assert sample.variance() == pytest.approx((x.var(),) * 3)


def test_nothing_admitted_says_nothing() -> None:
    assert np.isnan(Sample().mean().value)
    assert Sample().mean().high == np.inf
    assert np.isnan(Sample().variance().value)
    assert Sample().count().value == 0


def test_law_7_unbiased_and_covered() -> None:
    """2,000 windows with strata at rates from 5 to 50 %."""
    rng = np.random.default_rng(7)
    windows, size = 2000, 3000
    x = rng.gamma(4.0, 2.0, size)
    y = 0.5 * x + rng.normal(size=size)
    rate = rng.choice([0.05, 0.1, 0.2, 0.5], size)
    truth = {
        "count": size,
        "sum": x.sum(),
        "mean": x.mean(),
        "variance": x.var(),
        "covariance": np.cov(x, y, bias=True)[0, 1],
    }
    covered = dict.fromkeys(truth, 0)
    values: dict[str, list[float]] = {name: [] for name in truth}
    for _ in range(windows):
        kept = rng.random(size) < rate
        weight = 1 / rate[kept]
        both = Sample((8.0, 4.0)).update(x[kept], y[kept], weight=weight)
        alone = Sample((8.0, 8.0)).update(x[kept], weight=weight)
        estimates = {
            "count": both.count(),
            "sum": both.sum(),
            "mean": both.mean(),
            "variance": alone.variance(),
            "covariance": both.covariance(),
        }
        for name, estimate in estimates.items():
            covered[name] += estimate.low <= truth[name] <= estimate.high
            values[name].append(estimate.value)
    for name in ("count", "sum"):  # unbiased: within three standard errors
        error = np.std(values[name]) / np.sqrt(windows)
        assert abs(np.mean(values[name]) - truth[name]) <= 3 * error
    for name in ("count", "sum", "mean"):
        assert 0.93 <= covered[name] / windows <= 0.97, name
    for name in ("variance", "covariance"):  # fourth moments: slower to become normal
        assert 0.90 <= covered[name] / windows <= 0.97, name


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("freedom", [5, 10, 30, 1000])
def test_the_quantile_is_students(confidence: float, freedom: int) -> None:
    exact = stats.t.ppf(0.5 + confidence / 2, freedom)
    assert student(stats.norm.ppf(0.5 + confidence / 2), 1 / freedom) == pytest.approx(exact, 0.03)


@pytest.mark.parametrize(
    ("size", "rates", "shares"),
    [
        (50, [0.3], [1.0]),
        (110, [1.0, 0.2], [0.2, 0.8]),
        (90, [1.0, 0.4, 0.1], [0.3, 0.2, 0.5]),
        (470, [0.8, 0.05], [0.5, 0.5]),
    ],
)
def test_small_windows_whose_rates_change_are_covered_too(
    size: int, rates: list[float], shares: list[float]
) -> None:
    """A handful of skewed values, most of the weight on a few: normal ones cover 83 to 90 %."""
    rng = np.random.default_rng(8)
    names, runs = ("count", "sum", "mean"), 2000
    hits = dict.fromkeys(names, 0)
    for _ in range(runs):
        rate, x = rng.choice(rates, size, p=shares), rng.lognormal(0.0, 0.6, size)
        kept = rng.random(size) < rate
        sample = Sample().update(x[kept], weight=1 / rate[kept])
        for name, truth in zip(names, (size, x.sum(), x.mean()), strict=True):
            estimate = getattr(sample, name)()
            hits[name] += estimate.low <= truth <= estimate.high
    assert all(hits[name] / runs >= 0.9 for name in names), hits


def test_samples_about_different_origins_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="do not add up"):
        Sample() + Sample((1.0, 0.0))


def test_confidence_is_a_share() -> None:
    with pytest.raises(ValueError, match="confidence"):
        Sample().update([1.0]).count(95)

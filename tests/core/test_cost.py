"""Samples in, limits out: no clock, no threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.cost import DisspCost, ThreeTermCost
from penstock.testing import Cost

REAL = Cost(fixed=0.2, arriving=3e-7, admitting=5e-6)


def _warm(real: Cost = REAL, arrived: int = 100_000) -> ThreeTermCost:
    model = ThreeTermCost()
    for i in range(25):
        admitted = arrived * (1 + i % 3) / 3
        model = model.update(real.seconds(arrived, admitted), arrived, admitted)
    return model


def test_thesis_figure_5_2() -> None:
    # 5,000 tuples in 300 ms: 0.06 ms a tuple; "approximately 4,100" fit into 250 ms
    model = DisspCost().update(seconds=0.3, tuples=5000)
    assert model.per_tuple == pytest.approx(0.06e-3)
    assert model.keep(0.25) == 4166


def test_dissp_is_a_moving_average() -> None:
    model = DisspCost(window=2)
    assert model.keep(1.0) is None
    for seconds in (9.0, 1.0, 3.0):
        model = model.update(seconds, 1)
    assert model.per_tuple == 2.0
    assert model.update(5.0, 0) == model  # an idle interval says nothing


def test_the_three_terms_are_found() -> None:
    model = ThreeTermCost()
    rng = np.random.default_rng(1)
    for _ in range(60):
        arrived = float(rng.integers(10_000, 500_000))
        admitted = arrived * rng.random()
        model = model.update(REAL.seconds(arrived, admitted), arrived, admitted)
    assert model.fixed == pytest.approx(REAL.fixed, rel=0.05)
    assert model.arriving == pytest.approx(REAL.arriving, rel=0.1)
    assert model.admitting == pytest.approx(REAL.admitting, rel=0.05)


def test_a_steady_load_forgets_nothing() -> None:
    model = _warm()
    for _ in range(200):
        model = model.update(REAL.seconds(100_000, 50_000), 100_000, 50_000)
    assert model.seconds(100_000, 100_000) == pytest.approx(REAL.seconds(100_000, 100_000), rel=0.1)


@pytest.mark.parametrize("factor", [3.0, 10.0, 100.0])
def test_one_outlier_does_little_and_is_forgotten_at_once(factor: float) -> None:
    before, seconds = _warm(), REAL.seconds(100_000, 50_000)
    struck = before.update(seconds * factor, 100_000, 50_000)
    assert struck.seconds(100_000, 50_000) <= 2.1 * seconds
    after = struck.update(seconds, 100_000, 50_000)
    assert after.seconds(100_000, 50_000) == pytest.approx(seconds, rel=0.15)


def test_a_pause_while_tuples_are_timed_is_an_outlier_too() -> None:
    """In a calm that never varies, in which all that arrives is admitted."""
    model = ThreeTermCost()
    for _ in range(30):
        model = model.update(0.5, 4000, 4000, span=0.3)
    struck = model.update(5.4, 4000, 4000, span=5.0)
    assert struck.seconds(4000, 4000) <= 2.1 * 0.5
    after = struck.update(0.5, 4000, 4000, span=0.3)
    assert after.seconds(4000, 4000) == pytest.approx(0.5, rel=0.15)


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 3.0])
def test_a_change_is_believed_within_two_batches(factor: float) -> None:
    model = _warm()
    for _ in range(2):
        seconds = REAL.seconds(100_000, 50_000) * factor
        model = model.update(seconds, 100_000, 50_000)
    assert model.seconds(100_000, 50_000) == pytest.approx(seconds, rel=0.25)


def test_a_slow_start_is_forgotten() -> None:
    model = ThreeTermCost()
    for slow in (20, 8, 3, 1.5, *[1] * 8):
        model = model.update(REAL.seconds(50_000, 50_000) * slow, 50_000, 50_000)
    assert model.seconds(50_000, 50_000) == pytest.approx(REAL.seconds(50_000, 50_000), rel=0.1)


def test_a_steady_calm_tells_what_a_flood_will_cost() -> None:
    """The time of a batch does not; the time between its first tuple and its last does."""
    real, calm, flood = Cost(fixed=0.4, arriving=1e-6, admitting=7e-5), 4_000, 80_000
    told = ThreeTermCost()
    for _ in range(20):
        seconds = real.seconds(calm, calm)
        told = told.update(seconds, calm, calm, span=seconds - real.fixed)
    assert 0.6 < told.seconds(flood, flood) / real.seconds(flood, flood) < 1.1
    assert told.seconds(calm, calm) == pytest.approx(real.seconds(calm, calm), rel=0.05)


def test_a_few_tuples_are_not_taken_for_dear() -> None:
    """Tasks do not begin together: ten tuples may be tens of milliseconds apart."""
    deaf = told = ThreeTermCost()
    for _ in range(20):
        deaf, told = deaf.update(0.5, 10, 10), told.update(0.5, 10, 10, span=0.08)
    assert told.terms.tolist() == deaf.terms.tolist()


def test_a_first_batch_of_a_few_tuples_does_not_make_them_dear() -> None:
    """A cold JVM took half a second between the first of them and the second."""
    model = ThreeTermCost().update(1.2, 2, 2, overhead=0.4, span=0.57)
    assert model.admitting <= 5e-6
    assert model.seconds(2, 2) == pytest.approx(1.2, rel=0.01)


def test_known_overhead_is_not_charged_to_tuples() -> None:
    model = ThreeTermCost().update(1.0, 1_000_000, 1_000_000, overhead=1.0)
    assert model.admitting == 0.0


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.integers(0, 10**7), st.floats(0, 1)),
        min_size=1,
        max_size=40,
    )
)
def test_whatever_it_is_told_it_stays_sane(told: list[tuple[float, int, float]]) -> None:
    model = ThreeTermCost()
    for seconds, arrived, share in told:
        model = model.update(seconds, arrived, arrived * share)
    assert np.isfinite(model.terms).all()
    assert model.terms.min() >= 0
    assert len(model.seen) <= model.window


def test_a_measured_cost_is_believed_at_once() -> None:
    """A JVM starts slowly, but what a guard timed are its tuples."""
    model = ThreeTermCost().update(seconds=7.0, arrived=5, admitted=5, overhead=1.0)
    model = model.informed(0.002).update(seconds=2.0, arrived=25_000, admitted=900)
    assert model.seconds(7_000, 1_000) > 1.6


@st.composite
def batches(draw: st.DrawFn) -> tuple[float, int, int]:
    arrived = draw(st.integers(1, 1_000_000))
    return draw(st.floats(0.01, 60.0)), arrived, draw(st.integers(0, arrived))


@settings(max_examples=300, deadline=None)
@given(st.lists(batches(), max_size=8), batches())
def test_what_happens_again_and_again_is_expected_in_the_end(
    before: list[tuple[float, int, int]], again: tuple[float, int, int]
) -> None:
    model = ThreeTermCost()
    for batch in [*before, *[again] * 30]:
        model = model.update(*batch)
    assert model.seconds(*again[1:]) == pytest.approx(again[0], rel=0.35)


def test_what_a_guard_measured_is_not_unlearnt() -> None:
    """A first batch of which little was believed, and costs told by a guard, contradict each other:
    the truth must not be unlearnt for the first.
    """
    model = ThreeTermCost().update(4.3, 4000, 4000).informed(0.00105)
    for _ in range(30):
        model = model.update(3.5, 4000, 3200)
    assert model.seconds(4000, 3200) == pytest.approx(3.5, rel=0.3)

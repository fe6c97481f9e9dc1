"""What the clock alone allows, as a property and case by case."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.governor import (
    FIRST_TUPLE_SECONDS,
    LEAST_FALL,
    MOST_STEP,
    Governor,
    Took,
)

BUDGET, PLAN = 1.5, 1.35
seconds = st.floats(0.01, 60.0)
tuples = st.integers(1, 1_000_000)


@given(st.lists(st.tuples(seconds, tuples, st.floats(0, 1)), max_size=6), seconds, tuples)
def test_a_batch_that_overran_is_followed_by_one_that_is_planned_smaller(
    before: list[tuple[float, int, float]], took: float, admitted: int
) -> None:
    governor = Governor()
    for each, arrived, share in before:
        governor = governor.after(Took(each), arrived, arrived * share, BUDGET, PLAN)
    governor = governor.after(Took(took), admitted, admitted, BUDGET, PLAN)
    if took > BUDGET:
        assert governor.bounded(1e12, admitted) < admitted
        assert governor.most >= LEAST_FALL * admitted  # but not to nothing
    else:
        assert governor.bounded(1e12, admitted) >= admitted


@given(seconds, tuples, st.floats(0, 1e9))
def test_a_first_batch_is_followed_by_a_step_and_not_by_a_leap(
    took: float, admitted: int, proposed: float
) -> None:
    governor = Governor().after(Took(took), admitted, admitted, BUDGET, PLAN)
    step = max(MOST_STEP, PLAN / took / 2) * admitted
    assert governor.bounded(proposed, admitted) <= max(step, PLAN / FIRST_TUPLE_SECONDS)


def test_nothing_is_known_against_a_first_batch() -> None:
    assert Governor().bounded(1e9, 1e9) == 1e9


def test_a_model_that_is_far_too_careful_cannot_shed_for_ever() -> None:
    """It proposes next to nothing, and a batch takes a third of its time: more must be tried."""
    governor, admitted = Governor(), 1000.0
    for _ in range(30):
        took = 0.3 + admitted * 1e-4
        governor = governor.after(Took(took), 100_000, admitted, BUDGET, PLAN)
        admitted = governor.bounded(1.0, 100_000)
    assert 0.3 + admitted * 1e-4 == pytest.approx(PLAN, rel=0.2)


def test_a_model_that_is_far_too_bold_cannot_break_the_latency_for_long() -> None:
    governor, admitted, times = Governor(), 1000.0, []
    for _ in range(60):
        times.append(0.3 + admitted * 1e-4)
        governor = governor.after(Took(times[-1]), 100_000, admitted, BUDGET, PLAN)
        admitted = governor.bounded(1e9, 100_000)
    late = [each > BUDGET for each in times]
    assert max(times) < 3 * BUDGET
    assert not any(one and other for one, other in pairwise(late))


def test_tuples_are_not_held_responsible_for_what_is_not_theirs() -> None:
    """A JVM takes seconds for its first batch, of which the tuples were passing for a moment."""
    blamed = Governor().after(Took(8.0), 1000, 1000, BUDGET, PLAN)
    timed = Governor().after(Took(8.0, passing=0.9), 1000, 1000, BUDGET, PLAN)
    assert blamed.most < 200
    assert timed.most == pytest.approx(750)


def test_what_the_model_knew_is_no_reason_to_hold_back() -> None:
    """Much was read after a pause, and the model had said how long that takes."""
    governor = Governor().after(Took(1.0), 5000, 4000, BUDGET, PLAN)
    after = governor.after(Took(4.0, expected=3.9), 500_000, 900, BUDGET, PLAN)
    assert after.most == governor.most


def test_a_larger_batch_is_promised_nothing() -> None:
    governor = Governor().after(Took(0.6), 10_000, 1000, BUDGET, PLAN)
    assert governor.bounded(1.0, 10_000) == 1250
    assert governor.bounded(1.0, 50_000) == 1.0


def test_small_changes_are_damped_and_large_ones_are_not() -> None:
    governor = Governor().after(Took(1.3), 10_000, 1000, BUDGET, PLAN)
    assert governor.bounded(810.0, 10_000) == pytest.approx(900.0)
    assert governor.bounded(100.0, 10_000) == 800.0
    assert governor.bounded(100.0, 50_000) == 100.0  # another batch altogether


def test_tuples_that_hardly_cost_anything_are_not_held_responsible() -> None:
    """Reading takes all the time there is, and a few thousand tuples more would not be felt."""
    governor = Governor().after(Took(2.0), 60_000, 1000, BUDGET, PLAN)
    assert governor.bounded(1.0, 60_000) == 1.0
    assert governor.bounded(1.0, 60_000, cheap=1500.0) == 1500.0
    assert governor.bounded(1.0, 60_000, cheap=9000.0) == 2000.0


def test_with_a_minute_to_spare_a_calm_start_is_followed_by_whatever_comes() -> None:
    """Law 6: a first batch of two tuples in a second, and then a hundred thousand."""
    governor = Governor().after(Took(1.0), 2, 2, budget=30.0, plan=27.0)
    assert governor.bounded(1e9, 100_000) >= 100_000

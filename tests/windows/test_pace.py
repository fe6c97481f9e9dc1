"""Rates that bring a window's groups to their quotas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.demand import Filling
from penstock.core.types import Floats
from penstock.windows.pace import levels, rates_at

NUMBERS = st.floats(0.0, 1000.0)
GROUP = st.tuples(NUMBERS, st.floats(0.0, 1.0), NUMBERS, st.floats(0.01, 10.0), st.floats(0, 1))


def filling(groups: list[tuple[float, float, float, float, float]]) -> tuple[Filling, Floats]:
    arrived, part, rest, share, waiting = np.array(groups).T
    return Filling(arrived, arrived * part, rest, share), rest * waiting


@settings(max_examples=200)
@given(st.lists(GROUP, min_size=1, max_size=12), NUMBERS, NUMBERS)
def test_rates_are_rates_and_grow_with_the_level(
    groups: list[tuple[float, float, float, float, float]], first: float, second: float
) -> None:
    state, tuples = filling(groups)
    low, high = (
        rates_at(np.full(len(groups), level), state, tuples) for level in sorted((first, second))
    )
    assert (low >= 0).all()
    assert (high <= 1).all()
    assert (low <= high).all()


@settings(max_examples=200)
@given(st.lists(GROUP, min_size=1, max_size=12), st.floats(0.0, 1.0))
def test_a_budget_is_kept_and_used(
    groups: list[tuple[float, float, float, float, float]], part: float
) -> None:
    """Law 4; and a little more than the level would be too much."""
    state, tuples = filling(groups)
    one = np.zeros(len(groups), dtype=np.int64)
    budget = part * tuples.sum()
    level = levels(state, tuples, tuples, one, np.array([budget]))
    spent = float((tuples * rates_at(level[one], state, tuples)).sum())
    assert spent <= budget * (1 + 1e-9) + 1e-9
    if np.isfinite(level[0]):
        more = rates_at(level[one] * (1 + 1e-6) + 1e-6, state, tuples)
        assert float((tuples * more).sum()) >= budget * (1 - 1e-6) - 1e-6


def test_one_query_may_afford_everything_and_another_little() -> None:
    state, tuples = filling([(0, 0, 10, 1, 1), (0, 0, 90, 1, 1), (0, 0, 50, 1, 1)])
    query = np.array([0, 0, 1])
    level = levels(state, tuples, tuples, query, np.array([60.0, 50.0]))
    assert level.tolist() == [pytest.approx(50.0), np.inf]
    assert rates_at(level[query], state, tuples) == pytest.approx([1.0, 50 / 90, 1.0])


def test_a_group_below_its_quota_is_admitted_whole() -> None:
    state = Filling(
        np.array([3.0, 500.0]), np.array([3.0, 5.0]), np.array([4.0, 500.0]), np.ones(2)
    )
    rates = rates_at(np.array([10.0, 10.0]), state, np.array([1.0, 50.0]))
    assert rates.tolist() == [1.0, pytest.approx(0.01)]


def test_a_group_that_has_its_quota_is_still_sampled() -> None:
    """Law 10, and no weight is much larger than the others."""
    state = Filling(np.array([500.0]), np.array([50.0]), np.array([500.0]), np.ones(1))
    assert rates_at(np.array([20.0]), state, np.array([10.0])) == pytest.approx([0.01])


def test_a_group_of_which_nothing_was_kept_gets_a_tuple_soon() -> None:
    state = Filling(np.array([5.0]), np.array([0.0]), np.array([1000.0]), np.ones(1))
    assert rates_at(np.array([10.0]), state, np.array([2.0])) == pytest.approx([0.5])


def test_luck_is_made_up_for() -> None:
    """However it went so far, the goal is still met on average."""
    for kept in (0.0, 4.0, 8.0):
        state = Filling(np.array([100.0]), np.array([kept]), np.array([100.0]), np.ones(1))
        rate = rates_at(np.array([10.0]), state, np.array([100.0]))[0]
        assert kept + 100.0 * rate == pytest.approx(max(10.0, kept + 2.5))

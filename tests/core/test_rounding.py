"""Few tuples: taken whole, or by turns, and never beyond the capacity."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.demand import Demand, Queries
from penstock.core.rounding import Past, rounded
from penstock.policy.balance_sic import BalanceSic
from penstock.testing import random_demand


@given(st.integers(0, 10_000), st.floats(0.05, 0.95))
def test_law_4_rounding_spends_no_more_than_the_capacity(seed: int, share: float) -> None:
    demand = random_demand(seed)
    capacity = share * demand.total_cost()
    rates = BalanceSic().rates(demand, capacity)
    rng = np.random.default_rng(seed)
    arrived = 10 * demand.tuples + 1
    past = Past(arrived, arrived * rng.random(len(demand)), np.ones(len(demand), dtype=np.bool_))
    after = rounded(demand, rates, capacity, past)
    assert ((after >= 0.0) & (after <= 1.0)).all()
    assert demand.spent(after) <= max(capacity, demand.spent(rates)) * (1 + 1e-9) + 1e-9


def _level(had: float) -> float:
    """The rate of a query of two tuples a batch that had this share, beside a large one at 0.4."""
    demand = Demand.of(Queries.of([0.4, had]), [0, 1], [10_000.0, 2.0], [1e-4, 0.5])
    unseen = np.ones(2, dtype=np.bool_)
    past = Past(np.array([1e5, 20.0]), np.array([4e4, 20.0 * had]), unseen)
    rates = BalanceSic().rates(demand, 4000.0)
    return float(rounded(demand, rates, 4000.0, past)[1])


def test_a_small_query_is_brought_to_where_the_large_ones_stand() -> None:
    assert _level(0.9) == 0.0
    assert _level(0.1) == 1.0
    assert 0.3 < _level(0.4) < 0.5


def test_what_was_counted_does_not_take_turns() -> None:
    demand = Demand.of(Queries.of([0.4, 0.9]), [0, 1], [10_000.0, 2.0], [1e-4, 0.5])
    rates = BalanceSic().rates(demand, 4000.0)
    past = Past(np.array([1e5, 20.0]), np.array([4e4, 18.0]), np.zeros(2, dtype=np.bool_))
    assert (
        rounded(demand, rates, 4000.0, past).tolist()
        == rounded(demand, rates, 4000.0, None).tolist()
    )

"""Contracts that every policy must pass, found without being listed anywhere.

``for check in policy_checks(): check(policy)`` is all that a policy of your own needs for a
test. Each check raises ``AssertionError`` with what it found.
"""

import sys
from collections.abc import Callable, Iterator

import numpy as np

from penstock.policy import Policy
from penstock.types import Demand, Queries

PolicyCheck = Callable[[Policy], None]


def policy_checks() -> list[PolicyCheck]:
    """Every function of this module whose name begins with ``check_policy_``."""
    found = vars(sys.modules[__name__])
    return [found[name] for name in sorted(found) if name.startswith("check_policy_")]


def random_demand(seed: int, most: int = 12) -> Demand:
    """Whole tuples of a few queries; strata may be empty, worthless, free or paid for."""
    rng = np.random.default_rng(seed)
    queries, strata = int(rng.integers(1, 6)), int(rng.integers(1, most))
    return Demand.of(
        Queries.of(rng.random(queries) * rng.integers(0, 2)),
        rng.integers(0, queries, strata),
        rng.integers(0, 30, strata),
        rng.random(strata) * rng.integers(0, 2, strata) / 10,
        rng.choice([0.0, 0.5, 1.0, 3.0], strata, p=[0.1, 0.3, 0.4, 0.2]),
        rng.random(strata) < 0.2,
    )


def _cases() -> Iterator[tuple[Demand, float]]:
    for seed in range(200):
        demand = random_demand(seed)
        for share in (0.0, 0.1, 0.5, 0.9):
            yield demand, share * demand.total_cost()


def check_policy_rates_lie_between_0_and_1(policy: Policy) -> None:
    for demand, capacity in _cases():
        rates = policy.rates(demand, capacity)
        assert rates.shape == (len(demand),), f"{rates.shape} rates for {len(demand)} strata"
        assert np.isfinite(rates).all(), f"a rate is not a number: {rates}"
        assert rates.min() >= 0.0, f"rate {rates.min()}"
        assert rates.max() <= 1.0, f"rate {rates.max()}"


def check_policy_respects_the_capacity(policy: Policy) -> None:
    """Law 4."""
    for demand, capacity in _cases():
        spent = demand.spent(policy.rates(demand, capacity))
        assert spent <= capacity * (1 + 1e-9) + 1e-9, f"spends {spent} of {capacity}"


def check_policy_uses_the_capacity(policy: Policy) -> None:
    """What a policy leaves would not have been enough for the dearest tuple that it shed.

    (A form that takes whole tuples stops at one that does not fit.)
    """
    for demand, capacity in _cases():
        rates = policy.rates(demand, capacity)
        left = capacity - demand.spent(rates)
        shed = (demand.tuples * (1 - rates) >= 1.0 - 1e-9) & (demand.cost > 0)
        if shed.any():
            dearest = float(demand.cost[shed].max())
            assert left <= dearest + 1e-9, f"leaves {left} where a tuple costs {dearest}"


def check_policy_stands_open_without_overload(policy: Policy) -> None:
    """Law 6."""
    for demand, _ in _cases():
        rates = policy.rates(demand, demand.total_cost())
        assert (rates == 1.0).all(), f"sheds although there is room: {rates}"


def check_policy_repeats_itself(policy: Policy) -> None:
    """Law 8, the controller's half: the same demand, the same plan."""
    for demand, capacity in _cases():
        first, again = policy.rates(demand, capacity), policy.rates(demand, capacity)
        assert (first == again).all(), "two answers to one question"


def check_policy_leaves_its_demand_alone(policy: Policy) -> None:
    for demand, capacity in _cases():
        before = [demand.tuples.copy(), demand.sic.copy(), demand.queries.sic.copy()]
        policy.rates(demand, capacity)
        after = [demand.tuples, demand.sic, demand.queries.sic]
        assert all((a == b).all() for a, b in zip(before, after, strict=True)), "changed its demand"


def check_policy_takes_an_empty_demand(policy: Policy) -> None:
    nothing = Demand.of(Queries.of([0.5]), np.empty(0, dtype=np.int64), [], [], [])
    assert policy.rates(nothing, 0.0).shape == (0,)

"""BALANCE-SIC as a fluid: the form that the controller uses."""

from typing import ClassVar

import numpy as np

from penstock.core.demand import Demand
from penstock.core.types import Floats
from penstock.policy.water import Fill, Vessels


class BalanceSic:
    """Lifts the queries with the least SIC together until the capacity is spent.

    The fairness of THEMIS (section 5) with rates instead of tuples: find the level L such that
    lifting each query to ``SIC = weight · L``, with its tuples in descending SIC per unit of
    cost, costs exactly the capacity; a query that runs out of tuples stays below. Max-min fair:
    nobody can be raised without lowering somebody who has no more.

    Floors come first; where they cannot all be met they are raised together, in plain SIC. A
    ceiling yields while anybody else wants more, but it never wastes capacity: what is left
    when all others are satisfied goes above it. O(n log n) for n strata.
    """

    name: ClassVar[str] = "balance-sic"
    levels_sic: ClassVar[bool] = True

    def rates(self, demand: Demand, capacity: float) -> Floats:
        return level_out(demand, capacity, "sic")


def level_out(demand: Demand, capacity: float, amount: str) -> Floats:
    """Answers rates that make ``amount`` ("sic" or "cost") per weight as even as can be."""
    if demand.total_cost() <= capacity:
        return np.ones(len(demand))
    vessels, queries = Vessels.of(demand), demand.queries
    filled = _serve_floors(vessels, demand, capacity)
    start = queries.sic if amount == "sic" else np.zeros(len(queries))
    for limit in _limits(vessels, demand):
        filled = vessels.raise_together(
            filled,
            limit,
            amount,
            start + vessels.by_query(amount, filled),
            queries.weight,
            capacity - vessels.spent(filled),
        )
    rates = vessels.rates(_give_away(vessels, filled, capacity))
    spent = demand.spent(rates)
    if spent > capacity * (1 + 1e-12):  # rounding, where weights are orders of magnitude apart
        rates *= capacity / spent
    return rates


def _serve_floors(vessels: Vessels, demand: Demand, capacity: float) -> Fill:
    """Fills what costs nothing, then every query's promised SIC, or as much as there is."""
    queries, free = demand.queries, vessels.free()
    if not (queries.floor > queries.sic).any():
        return free
    return vessels.raise_together(
        free,
        vessels.filled_at(queries.sic, np.maximum(queries.floor, queries.sic)),
        "sic",
        queries.sic + vessels.by_query("sic", free),
        np.ones(len(queries)),
        capacity,
    )


def _limits(vessels: Vessels, demand: Demand) -> list[Fill]:
    """Answers how far each layer may be filled: first up to the ceilings, then past them."""
    queries = demand.queries
    if not np.isfinite(queries.ceiling).any():
        return [vessels.full()]
    return [vessels.filled_at(queries.sic, queries.ceiling), vessels.full()]


def _give_away(vessels: Vessels, filled: Fill, capacity: float) -> Fill:
    """Spends what is left on tuples that no query gains from, at an even rate."""
    spare = capacity - vessels.spent(filled)
    if spare <= 1e-9 * capacity:
        return filled
    wanted = vessels.spent([1.0 - part for part in filled])
    share = min(spare / wanted, 1.0) if wanted > 0.0 else 0.0
    return [part + (1.0 - part) * share for part in filled]

"""Keeps a part of a site's capacity for its own queries (autonomy, law 9)."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from penstock.core.demand import Demand, Policy, is_blind, keeps_paid, levels_sic
from penstock.core.types import Bools, Floats


class Lending:
    """Divides by another policy; guests never take more than what the site lends.

    As long as the policy gives guests no more than the site's file allows, nothing changes. Where
    it would, guests share what is lent between themselves by the same policy, and the site's own
    queries what is left. Capacity that one side does not want goes to the other, since a tuple
    that waits for a reserve helps nobody.
    """

    name: ClassVar[str] = "lending"

    def __init__(self, policy: Policy, share: float) -> None:
        self._policy, self._share = policy, share
        self.blind = is_blind(policy)
        self.levels_sic = levels_sic(policy)
        self.keeps_paid = keeps_paid(policy)

    def rates(self, demand: Demand, capacity: float) -> Floats:
        """Answers the rates of the policy, with guests within their limit."""
        rates = self._policy.rates(demand, capacity)
        guests = demand.queries.guest[demand.query]
        costs = demand.tuples * demand.cost
        if not guests.any() or demand.total_cost() <= capacity:
            return rates
        wanted_by_own = float(costs[~guests].sum())
        limit = max(self._share * capacity, capacity - wanted_by_own)
        if float((costs * rates)[guests].sum()) <= limit * (1 + 1e-9):
            return rates
        return np.where(
            guests,
            self._among(demand, guests, limit),
            self._among(demand, ~guests, capacity - limit),
        )

    def _among(self, demand: Demand, some: Bools, capacity: float) -> Floats:
        """Answers the policy's rates where only some strata have anything that waits."""
        tuples = np.where(some, demand.tuples, 0.0)
        return self._policy.rates(replace(demand, tuples=tuples), capacity)

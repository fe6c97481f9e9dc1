"""Fair between queries, and inside each query fair between its groups."""

from typing import ClassVar

import numpy as np

from penstock.core.demand import Demand, Filling
from penstock.core.types import Floats
from penstock.policy.balance_sic import level_out
from penstock.windows.pace import levels, rates_at


class ConceptPolicy:
    """CoD (section V) inside the budget that BALANCE-SIC gives a query.

    A query's budget is what lifting it to the common level of SIC costs. It goes to its groups
    such that each comes to the same quota in the current window: a group below it is admitted
    whole, one beyond is thinned (see ``penstock.windows.pace``). Where nothing is known of the
    window, what waits is taken for all of it.
    """

    name: ClassVar[str] = "concept"

    def rates(self, demand: Demand, capacity: float) -> Floats:
        if demand.total_cost() <= capacity:
            return np.ones(len(demand))
        fair = level_out(demand, capacity, "sic")
        cost = demand.tuples * demand.cost
        spent = np.bincount(demand.query, cost * fair, len(demand.queries))
        filling = demand.filling or _just_begun(demand)
        level = levels(filling, demand.tuples, cost, demand.query, spent.astype(np.float64))
        return rates_at(level[demand.query], filling, demand.tuples)


def _just_begun(demand: Demand) -> Filling:
    """Answers windows of which nothing has come but what waits."""
    nothing = np.zeros(len(demand))
    return Filling(nothing, nothing, demand.tuples, np.ones(len(demand)))

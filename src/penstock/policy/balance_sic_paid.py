"""BALANCE-SIC that never drops what was already paid for."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from penstock.core.demand import Demand
from penstock.core.types import Floats
from penstock.policy.balance_sic import level_out


class BalanceSicPaid:
    """Partial results of other sites first, then BALANCE-SIC over the source tuples.

    As published, a site that finds a query above its own level drops everything of it, also the
    partial results that other sites have spent their capacity on. That pulls the query down to
    the level of the most loaded site on its way, and gains that site next to nothing: a partial
    result is a tuple or a few, and stands for a second of ten sources. Here they pass whatever
    their query's standing, and fairness is a matter of source tuples only, whose admission costs
    what it gains. Sites that are less loaded then notice by the query's SIC that it stands high,
    and give their capacity to others. Where even the partial results are too many, they are
    levelled out among themselves.
    """

    name: ClassVar[str] = "balance-sic-paid"
    levels_sic: ClassVar[bool] = True
    keeps_paid: ClassVar[bool] = True

    def rates(self, demand: Demand, capacity: float) -> Floats:
        if demand.total_cost() <= capacity:
            return np.ones(len(demand))
        paid = demand.paid
        spent = float((demand.tuples * demand.cost)[paid].sum())
        if spent > capacity:
            return self._only_paid(demand, capacity)
        passed = np.where(paid, 0.0, demand.sic)  # no reason to give a query less of this site
        free = replace(demand, cost=np.where(paid, 0.0, demand.cost), sic=passed)
        return np.where(paid, 1.0, level_out(free, capacity - spent, "sic"))

    def _only_paid(self, demand: Demand, capacity: float) -> Floats:
        waiting = replace(demand, tuples=np.where(demand.paid, demand.tuples, 0.0))
        return np.where(demand.paid, level_out(waiting, capacity, "sic"), 0.0)

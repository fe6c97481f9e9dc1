"""BALANCE-SIC over tuples, as THEMIS has it: a reference for the fluid form."""

from typing import ClassVar

import numpy as np

from penstock.core.demand import Demand
from penstock.core.types import Floats


class BalanceSicTuple:
    """THEMIS, algorithm 1: selectTuplesToKeep, literally.

    Take the query with the least SIC and the next query above it; keep as many of the former's
    most valuable tuples as lift it to the latter; repeat. Where several are lowest, one tuple is
    taken (the paper's figure 3, iteration 1; line 14 read literally would lift one of them past
    its equals). Ties go to the query that comes first: the paper draws at random, and a plan
    must be repeatable. Quadratic, for small instances; whole tuples; neither floors nor ceilings.
    """

    name: ClassVar[str] = "balance-sic-tuple"

    def rates(self, demand: Demand, capacity: float) -> Floats:
        if demand.total_cost() <= capacity:
            return np.ones(len(demand))
        left = np.floor(demand.tuples)
        level = demand.queries.sic / demand.queries.weight
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.nan_to_num(demand.sic / demand.cost, nan=np.inf, posinf=np.inf)
        candidates = set(demand.query[left > 0].tolist())
        while candidates:
            lowest = min(candidates, key=lambda q: (level[q], q))
            above = min((level[q] for q in candidates if q != lowest), default=np.inf)
            while True:
                mine = np.flatnonzero((demand.query == lowest) & (left > 0))
                best = int(mine[np.argmax(value[mine])]) if mine.size else -1
                if best < 0 or demand.cost[best] > capacity:
                    candidates.discard(lowest)
                    break
                left[best] -= 1
                capacity -= demand.cost[best]
                level[lowest] += demand.sic[best] / demand.queries.weight[lowest]
                if level[lowest] >= above - 1e-12:
                    break
        kept: Floats = np.floor(demand.tuples) - left
        return np.divide(kept, demand.tuples, out=np.ones_like(kept), where=demand.tuples > 0)

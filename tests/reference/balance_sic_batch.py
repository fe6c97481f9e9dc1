"""BALANCE-SIC over batches, as DISSP has it: a reference for the fluid form."""

import heapq
from typing import ClassVar

import numpy as np

from penstock.core.demand import Demand
from penstock.core.types import Floats


class BalanceSicBatch:
    """DISSP, algorithm 1: two levels of priority queues.

    Everything is discarded at first; then, again and again, the query with the least SIC gets
    its most valuable batch back, until the capacity is reached. A stratum is cut into batches of
    ``size`` tuples (the last may be smaller). The published loop may overshoot by one batch;
    this one stops before it would (law 4). A batch that does not fit ends its query's turn, so
    that smaller batches of others can still use the capacity. Weights as in the fluid form;
    floors and ceilings are not published and not known here.
    """

    name: ClassVar[str] = "balance-sic-batch"

    def __init__(self, size: float = 1.0) -> None:
        self.size = size

    def rates(self, demand: Demand, capacity: float) -> Floats:
        if demand.total_cost() <= capacity:
            return np.ones(len(demand))
        sic, weight = demand.queries.sic.copy(), demand.queries.weight
        kept = np.zeros(len(demand))
        waiting = _batches_by_query(demand)
        queue = [(sic[q] / weight[q], q) for q in waiting]
        heapq.heapify(queue)
        while queue:
            _, query = heapq.heappop(queue)
            _, stratum = waiting[query][0]
            tuples = min(self.size, demand.tuples[stratum] - kept[stratum])
            cost = tuples * demand.cost[stratum]
            if cost > capacity:
                continue
            capacity -= cost
            kept[stratum] += tuples
            sic[query] += tuples * demand.sic[stratum]
            if kept[stratum] >= demand.tuples[stratum]:
                heapq.heappop(waiting[query])
            if waiting[query]:
                heapq.heappush(queue, (sic[query] / weight[query], query))
        return np.divide(kept, demand.tuples, out=np.ones_like(kept), where=demand.tuples > 0)


def _batches_by_query(demand: Demand) -> dict[int, list[tuple[float, int]]]:
    """For each query a heap of its strata, most SIC per unit of cost first."""
    waiting: dict[int, list[tuple[float, int]]] = {}
    for stratum in np.flatnonzero(demand.tuples > 0).tolist():
        cost = demand.cost[stratum]
        value = demand.sic[stratum] / cost if cost > 0 else np.inf
        waiting.setdefault(int(demand.query[stratum]), []).append((-value, stratum))
    for heap in waiting.values():
        heapq.heapify(heap)
    return waiting

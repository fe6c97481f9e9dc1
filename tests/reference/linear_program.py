"""Max-min fairness by linear programs: slow, obvious, and the judge of the fluid form."""

import numpy as np
from scipy.optimize import linprog

from penstock.core.demand import Demand
from penstock.core.types import Floats


def max_min_sic(demand: Demand, capacity: float, start: Floats | None = None) -> Floats:
    """The lexicographically largest sorted ``sic / weight``, each query's SIC.

    ``start`` bounds the SIC of each query from below (floors that were already served).
    """
    weight, n = demand.queries.weight, len(demand)
    lowest = demand.queries.sic if start is None else start
    gain = np.zeros((len(demand.queries), n))
    gain[demand.query, np.arange(n)] = demand.tuples * demand.sic
    cost = demand.tuples * demand.cost
    fixed: dict[int, float] = {}

    def best(objective: Floats, least: Floats, level: bool) -> float:
        # variables: a rate for each stratum, then the common level
        rows, limits = [np.append(cost, 0.0)], [capacity]
        for query in range(len(demand.queries)):
            lifted = level and query not in fixed
            rows.append(np.append(-gain[query], weight[query] if lifted else 0.0))
            limits.append(demand.queries.sic[query] - (-np.inf if lifted else least[query]))
        keep = [np.isfinite(limit) for limit in limits]
        for query in range(len(demand.queries)):
            if level and query not in fixed:
                limits[query + 1] = demand.queries.sic[query]
                keep[query + 1] = True
        answer = linprog(
            -objective,
            A_ub=np.array(rows)[keep],
            b_ub=np.array(limits)[keep] + 1e-12,
            bounds=[(0, 1)] * n + [(None, None)],
        )
        assert answer.status in (0, 3), answer.message
        return -float(answer.fun or 0.0) if answer.status == 0 else np.inf

    while len(fixed) < len(demand.queries):
        least = np.array([fixed.get(q, lowest[q]) for q in range(len(weight))])
        level = best(np.append(np.zeros(n), 1.0), least, level=True)
        free = [q for q in range(len(weight)) if q not in fixed]
        held = np.array([fixed.get(q, level * weight[q]) for q in range(len(weight))])
        stuck = [
            q
            for q in free
            if demand.queries.sic[q] + best(np.append(gain[q], 0.0), held, level=False)
            <= held[q] + 1e-7
        ]
        for q in stuck or free:
            fixed[q] = float(held[q])
    return np.array([fixed[q] for q in range(len(weight))])

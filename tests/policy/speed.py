"""Seconds that a sort of 100,000, a plan of 100,000 strata and one of a million take, as JSON.

The least of interleaved rounds: what else the machine does only adds to it.
"""

import json
import time
from collections.abc import Callable

import numpy as np

from penstock.core.demand import Demand, Queries
from penstock.policy.balance_sic import BalanceSic

ROUNDS = 20


def large(strata: int) -> Demand:
    rng = np.random.default_rng(strata)
    queries = strata // 100
    return Demand.of(
        Queries.of(rng.random(queries) * 0.3),
        rng.integers(0, queries, strata),
        rng.integers(1, 100, strata),
        rng.random(strata) / 1000,
        rng.random(strata) + 0.1,
    )


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    keys = np.random.default_rng(0).random(100_000)
    some, many = large(100_000), large(1_000_000)
    works: list[Callable[[], object]] = [
        lambda: np.argsort(keys),
        lambda: BalanceSic().rates(some, some.total_cost() / 3),
        lambda: BalanceSic().rates(many, many.total_cost() / 3),
    ]
    least = np.min([[seconds(work) for work in works] for _ in range(ROUNDS)], axis=0)
    print(json.dumps(least.tolist()))

"""The rivals of THEMIS, section 7.5: central programs that maximise a sum over queries.

Both know every rate and every capacity, and decide for all queries. Neither has fairness as its
goal: a sum does not mind who has what.

*Weighted throughput* (Tatbul, Çetintemel and Zdonik, "Staying FIT", 2007): the sum of the queries'
output rates, each times its weight; a linear program. *Log-utility* (Zhao, Xia, Liu and Towsley,
"A unified modeling framework", 2010): the sum of the logarithms of output rates; concave, solved
by tangents: each logarithm is bounded by lines that touch it, more where the solution is, until
the bound is tight.
"""

import numpy as np
from scipy.optimize import linprog

from penstock.core.types import Floats
from penstock.errors import PenstockError
from penstock.lab.themis.central import Problem

LOG_GAP_PER_QUERY = 1e-4
"""The tangents are good enough where the sum of logarithms is off by at most this."""
MOST_ROUNDS = 60


def output_rates(problem: Problem) -> Floats:
    """Returns, queries by fragments, the source tuples a second behind results kept whole."""
    return np.asarray((problem.gain > 0) * problem.tuples)


def weighted_throughput(problem: Problem, weights: Floats | None = None) -> Floats:
    """Returns the shares that fragments keep where ``Σ weight · output`` is largest."""
    output = output_rates(problem)
    weight = np.ones(len(output)) if weights is None else weights
    # a corner of the polytope, as the simplex method of the paper's tool finds it
    solved = linprog(
        -(weight @ output),
        A_ub=problem.load,
        b_ub=problem.room,
        bounds=(0.0, 1.0),
        method="highs-ds",
    )
    return _solution(solved.x, solved.message)


def log_utility(problem: Problem) -> Floats:
    """Returns the shares that fragments keep where ``Σ log output`` is largest."""
    output = output_rates(problem)
    queries, fragments = output.shape
    whole = output.sum(axis=1)
    output = output / whole[:, None]  # shares of the whole: only a constant in the sum
    touching = [np.full(queries, at) for at in (1e-3, 1e-2, 0.1, 0.5, 1.0)]
    objective = np.concatenate((np.zeros(fragments), -np.ones(queries)))
    room = np.hstack((problem.load, np.zeros((problem.room.size, queries))))
    for _ in range(MOST_ROUNDS):
        # u ≤ log(at) + (y - at) / at, for every point that is touched
        tangents = [np.hstack((-output / at[:, None], np.eye(queries))) for at in touching]
        solved = linprog(
            objective,
            A_ub=np.vstack((room, *tangents)),
            b_ub=np.concatenate((problem.room, *(np.log(at) - 1.0 for at in touching))),
            bounds=[(0.0, 1.0)] * fragments + [(None, 0.0)] * queries,
        )
        found = _solution(solved.x, solved.message)
        kept, bound = found[:fragments], found[fragments:]
        reached = np.maximum(output @ kept, 1e-9)
        if float((bound - np.log(reached)).sum()) <= LOG_GAP_PER_QUERY * queries:
            return kept
        touching.append(reached)
    raise PenstockError(f"log-utility did not converge within {MOST_ROUNDS} rounds of tangents")


def _solution(x: Floats | None, message: str) -> Floats:
    if x is None:
        raise PenstockError(f"the program was not solved: {message}")
    return np.asarray(x)

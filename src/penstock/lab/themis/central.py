"""Computes the yardstick: what a planner that sees all sites and knows every rate could reach.

Which share x of its source tuples each fragment keeps is a linear program: a query's SIC is
``Σ share · x`` over its fragments, and the kept tuples of a site's fragments, with the partial
results that pass through it, fit into its capacity. *Lexicographic max-min*: raise the least SIC
as far as it goes, hold the queries that cannot rise any further, raise the least of the others,
and so on. No other allocation raises a query without lowering one that has no more (law 5).
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from penstock.core.types import Bools, Floats
from penstock.errors import PenstockError
from penstock.sim.deployment import Deployment
from penstock.sim.query_graph import WINDOW_SECONDS

TIGHT_PRICE = 1e-7
"""A dual price above this says that a query cannot rise."""


@dataclass(frozen=True)
class Problem:
    """Describes a deployment in steady state, as matrices over fragments."""

    gain: Floats
    """Queries by fragments: SIC of keeping everything."""
    load: Floats
    """Sites by fragments: what keeping everything costs a second."""
    room: Floats
    """What each site can process a second, besides partial results and idle fragments."""
    tuples: Floats
    """Source tuples a second of each fragment."""

    @classmethod
    def of(cls, deployment: Deployment, rate: float) -> "Problem":
        """Describes a deployment with every source at this rate, in tuples a second."""
        work = deployment.work
        fragments = np.arange(work.query.size)
        inner = np.flatnonzero(~work.root)
        sent = work.emits / WINDOW_SECONDS
        received = deployment.cost[deployment.partial_stratum()[inner]]
        passing: Floats = deployment.idle_cost
        for where, cost in ((work.down[inner], received), (inner, deployment.sending[inner])):
            at = deployment.site_of[where]
            handled = np.bincount(at, sent[inner] * cost, deployment.sites)
            passing = passing + np.asarray(handled, dtype=np.float64)
        gain = np.zeros((len(work.ids), fragments.size))
        gain[work.query, fragments] = work.share
        load = np.zeros((deployment.sites, fragments.size))
        cost = deployment.cost[deployment.source_stratum()]
        load[deployment.site_of, fragments] = work.sources * rate * cost
        room = np.maximum(deployment.capacity - passing, 0.0)
        return cls(gain, load, room, np.asarray(work.sources * rate, dtype=np.float64))

    def sic(self, kept: Floats) -> Floats:
        """Returns the SIC of queries, by the share that each fragment keeps."""
        return np.asarray(self.gain @ kept)


def lexicographic_max_min(problem: Problem) -> Floats:
    """Returns each query's SIC at the optimum."""
    held = np.full(len(problem.gain), np.nan)
    while np.isnan(held).any():
        rising = np.isnan(held)
        level, price = _raise_least(problem, held, rising)
        stuck = rising.copy()
        stuck[rising] = price > TIGHT_PRICE
        if not stuck.any():
            stuck = rising  # the level costs no query anything: they all have everything
        held[stuck] = level
    return held


def _raise_least(problem: Problem, held: Floats, rising: Bools) -> tuple[float, Floats]:
    """Returns the highest level that all who rise can reach, and its price to each."""
    queries, fragments = problem.gain.shape
    at_least = np.hstack((-problem.gain, rising.astype(np.float64)[:, None]))
    room = np.hstack((problem.load, np.zeros((problem.room.size, 1))))
    # held levels are let go by a trifle: they were computed in floating point
    needed = np.where(rising, 0.0, -(np.nan_to_num(held) - 1e-9))
    objective = np.zeros(fragments + 1)
    objective[-1] = -1.0
    solved = linprog(
        objective,
        A_ub=np.vstack((at_least, room)),
        b_ub=np.concatenate((needed, problem.room)),
        bounds=(0.0, 1.0),
        method="highs",
    )
    if not solved.success or solved.x is None:
        raise PenstockError(f"the central optimum was not found: {solved.message}")
    price = -np.asarray(solved.ineqlin.marginals)[:queries]
    return float(solved.x[-1]), price[rising]

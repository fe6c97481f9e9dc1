"""Places fragments on sites; those of one query go to different sites while there are enough."""

from collections.abc import Callable

import numpy as np

from penstock.core.types import Floats, Ints
from penstock.sim.query_graph import QueryGraph

ZIPF_CLUSTERS = 4
"""How many clusters of sites the thesis' example of Zipf placement has."""


def place(name: str, work: QueryGraph, sites: int, rng: np.random.Generator) -> Ints:
    """Chooses the site of each fragment by the placement of this name."""
    return PLACEMENTS[name](work, sites, rng)


def zipf_weights(sites: int) -> Floats:
    """The thesis, section 6.1: clusters of sites, each with twice the fragments of the one before.

    >>> [round(150 * float(w * 5)) for w in zipf_weights(20)[::5]]
    [10, 20, 40, 80]
    """
    clusters = [c for c in np.array_split(np.arange(sites), ZIPF_CLUSTERS) if c.size]
    weight = np.empty(sites)
    for number, cluster in enumerate(clusters):
        weight[cluster] = 2.0**number / cluster.size
    return np.asarray(weight / weight.sum())


def _zipf(work: QueryGraph, sites: int, rng: np.random.Generator) -> Ints:
    return _drawn(work, zipf_weights(sites), rng)


def _uniform(work: QueryGraph, sites: int, rng: np.random.Generator) -> Ints:
    return _drawn(work, np.full(sites, 1.0 / sites), rng)


def _drawn(work: QueryGraph, weights: Floats, rng: np.random.Generator) -> Ints:
    """Each query draws as many different sites as it has fragments.

    The weights are those of fragments, so a site that a query cannot take twice is not compensated
    for: with many fragments a query the skew is a little less than asked for.
    """
    chosen = np.empty(work.query.size, dtype=np.int64)
    for first, size in zip(work.first.tolist(), work.fragments.tolist(), strict=True):
        for start in range(0, size, weights.size):  # more fragments than sites: go round again
            some = min(size - start, weights.size)
            drawn = rng.choice(weights.size, some, replace=False, p=weights)
            chosen[first + start : first + start + some] = drawn
    return chosen


def _round_robin(work: QueryGraph, sites: int, _: np.random.Generator) -> Ints:
    return np.arange(work.query.size) % sites


def _by_load(work: QueryGraph, sites: int, _: np.random.Generator) -> Ints:
    """Each fragment in turn goes to the site with the fewest sources that its query is not on."""
    load = np.zeros(sites)
    chosen = np.empty(work.query.size, dtype=np.int64)
    for fragment in range(work.query.size):
        mine = chosen[work.first[work.query[fragment]] : fragment]
        free = np.setdiff1d(np.arange(sites), mine[mine.size // sites * sites :])
        site = int(free[np.argmin(load[free])])
        chosen[fragment] = site
        load[site] += work.sources[fragment]
    return chosen


PLACEMENTS: dict[str, Callable[[QueryGraph, int, np.random.Generator], Ints]] = {
    "zipf": _zipf,
    "uniform": _uniform,
    "round-robin": _round_robin,
    "by-load": _by_load,
}

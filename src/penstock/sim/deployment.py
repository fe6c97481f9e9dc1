"""Who waits where: the strata of all sites in columns, those of one site next to each other.

A fragment has one stratum for its own sources, which are alike, and one for each fragment that
sends it partial results.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.core.types import Bools, Floats, Ints, Stratum
from penstock.sim.placement import place
from penstock.sim.query_graph import QueryGraph, RequestedQueries, lay_out_queries
from penstock.sim.scenario import Costs, Scenario


@dataclass(frozen=True)
class Deployment:
    work: QueryGraph
    site_of: Ints
    """Of each fragment."""
    capacity: Floats
    """Of each site, in tuples a second."""
    strata: tuple[Stratum, ...]
    site: Ints
    """Of each stratum, and so on; in ascending order."""
    fragment: Ints
    """That takes its tuples."""
    origin: Ints
    """The fragment that sends them, or whose sources do."""
    partial: Bools
    """Partial results; else source tuples."""
    cost: Floats
    """Of one tuple."""
    sending: Floats
    """What sending a tuple of a partial result costs each fragment's site; 0 at a root."""
    idle_cost: Floats
    """What its fragments cost each site a second, whatever arrives."""

    @property
    def sites(self) -> int:
        return self.capacity.size

    def slices(self) -> list[slice]:
        """The strata of each site."""
        edges = np.searchsorted(self.site, np.arange(self.sites + 1))
        return [slice(int(a), int(b)) for a, b in pairwise(edges)]

    def source_stratum(self) -> Ints:
        """Of each fragment, the stratum of its own sources."""
        return _places(self.origin, ~self.partial, self.work.query.size)

    def partial_stratum(self) -> Ints:
        """Of each fragment, the stratum of its partial results; -1 for a root."""
        return _places(self.origin, self.partial, self.work.query.size)


def deploy(scenario: Scenario) -> Deployment:
    """Lays the queries of a scenario out over its sites."""
    rng = np.random.default_rng([scenario.seed, 1])
    groups = [
        RequestedQueries(
            group.kind,
            group.fragments,
            group.count,
            group.start,
            np.inf if group.until is None else group.until,
            group.weight,
        )
        for group in scenario.queries
    ]
    work = lay_out_queries(groups, rng)
    sites = place(scenario.placement, work, scenario.sites.count, rng)
    capacity = np.array(scenario.sites.capacities(), dtype=np.float64)
    return lay_out(work, sites, capacity, scenario.costs)


def lay_out(work: QueryGraph, site_of: Ints, capacity: Floats, costs: Costs) -> Deployment:
    fragments = np.arange(work.query.size)
    inner = fragments[~work.root]
    origin = np.concatenate((fragments, inner))
    fragment = np.concatenate((fragments, work.down[inner]))
    partial = np.arange(origin.size) >= fragments.size
    order = np.lexsort((origin, partial, site_of[fragment]))
    origin, fragment, partial = origin[order], fragment[order], partial[order]
    number = fragments - work.first[work.query]
    names = [
        Stratum(work.ids[work.query[f]], f"{'partial' if p else 'sources'}-{number[f]}")
        for f, p in zip(origin.tolist(), partial.tolist(), strict=True)
    ]
    passing = costs.of_path(work.path)[fragment]
    one_operator = costs.of_path(np.ones(work.query.size, dtype=np.int64))
    return Deployment(
        work,
        site_of,
        capacity,
        tuple(names),
        site_of[fragment],
        fragment,
        origin,
        partial,
        cost=np.where(partial, passing + costs.message, passing),
        sending=np.where(work.root, 0.0, one_operator + costs.message),
        idle_cost=np.asarray(np.bincount(site_of, minlength=capacity.size) * costs.fragment),
    )


def _places(values: Ints, where: Bools, size: int) -> Ints:
    found = np.full(size, -1, dtype=np.int64)
    found[values[where]] = np.flatnonzero(where)
    return found

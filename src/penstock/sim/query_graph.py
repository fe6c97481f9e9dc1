"""Cuts queries of THEMIS, table 1, into fragments and lays these out as a graph.

Each fragment connects to sources of its own and does what the whole query does, on its part, once
a second. AVG-all is a *tree*: a root fragment takes the partial results of all others. TOP-5 and
COV are *chains*: each fragment hands its partial result to the next, and the last one has the
result (THEMIS, section 7, "Experimental set-up").
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from penstock.core.types import Bools, Floats, Ints

WINDOW_SECONDS = 1.0
"""Over how long every kind of query aggregates."""


@dataclass(frozen=True)
class QueryKind:
    """Is a query of table 1: the sources of a fragment, its operators, and the tuples it emits."""

    sources: int
    operators: int
    emits: int
    """Tuples a window, at most."""
    shape: Literal["tree", "chain"] = "chain"
    divisible: bool = True

    @property
    def path(self) -> int:
        """How many operators a tuple passes: its own receiver, and all that are no receivers."""
        return self.operators - self.sources + 1


KINDS = {
    "avg": QueryKind(1, 3, 1, divisible=False),
    "max": QueryKind(1, 3, 1, divisible=False),
    "count": QueryKind(1, 4, 1, divisible=False),
    "avg-all": QueryKind(10, 13, 1, "tree"),
    "top-5": QueryKind(20, 29, 5),
    "cov": QueryKind(2, 5, 1),
}
"""The paper does not count the operators of the aggregate kinds: receiver, window, aggregate, and
a filter for COUNT."""


@dataclass(frozen=True)
class RequestedQueries:
    """Asks for some queries of one kind that come and go together."""

    kind: str
    fragments: tuple[int, int]
    count: int = 1
    start: float = 0.0
    until: float = np.inf
    weight: float = 1.0


@dataclass(frozen=True)
class QueryGraph:
    """Holds queries and their fragments in columns; fragments of a query stand side by side."""

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    weight: Floats
    start: Floats
    until: Floats
    first: Ints
    """The first fragment of each query; its root is the first one, too."""
    query: Ints
    """The query of each fragment; the columns below are by fragment, too."""
    down: Ints
    """The fragment that takes its partial results; -1 for the root."""
    sources: Ints
    emits: Ints
    path: Ints
    """How many operators a tuple passes."""

    @property
    def root(self) -> Bools:
        return self.down < 0

    @property
    def fragments(self) -> Ints:
        """How many fragments each query has."""
        return np.diff(self.first, append=self.query.size)

    @property
    def share(self) -> Floats:
        """The part of its query's SIC that each fragment's own sources carry."""
        all_sources = np.bincount(self.query, self.sources)
        return self.sources / all_sources[self.query]

    @property
    def depth(self) -> Ints:
        """How many hops each fragment is from its root."""
        depth = np.zeros(self.query.size, dtype=np.int64)
        for fragment in np.flatnonzero(~self.root):  # a fragment comes after the one it feeds
            depth[fragment] = depth[self.down[fragment]] + 1
        return depth


def lay_out_queries(groups: list[RequestedQueries], rng: np.random.Generator) -> QueryGraph:
    """Draws each query's number of fragments and lays the fragments out."""
    ids: list[str] = []
    kinds: list[str] = []
    terms: list[tuple[float, float, float]] = []
    sizes: list[int] = []
    down: list[int] = []
    named: Counter[str] = Counter()
    for group in groups:
        drawn = rng.integers(group.fragments[0], group.fragments[1] + 1, group.count).tolist()
        for size in drawn:
            ids.append(f"{group.kind}-{named[group.kind]}")
            named[group.kind] += 1
            kinds.append(group.kind)
            terms.append((group.weight, group.start, group.until))
            sizes.append(size)
            down += _edges(KINDS[group.kind].shape, len(down), size)
    query = np.repeat(np.arange(len(ids)), sizes)
    by_query = [KINDS[kind] for kind in kinds]
    weight, start, until = np.array(terms).T
    return QueryGraph(
        ids=tuple(ids),
        kinds=tuple(kinds),
        weight=weight,
        start=start,
        until=until,
        first=np.cumsum([0, *sizes[:-1]]),
        query=query,
        down=np.array(down, dtype=np.int64),
        sources=np.array([kind.sources for kind in by_query], dtype=np.int64)[query],
        emits=np.array([kind.emits for kind in by_query], dtype=np.int64)[query],
        path=np.array([kind.path for kind in by_query], dtype=np.int64)[query],
    )


def _edges(shape: str, first: int, size: int) -> list[int]:
    if shape == "tree":
        return [-1] + [first] * (size - 1)
    return [-1, *range(first, first + size - 1)]

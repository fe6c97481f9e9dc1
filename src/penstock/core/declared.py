"""The sources that a query says it has, and how many of them are silent.

THEMIS (section 6) has queries with fixed sources, and the thesis (assumptions 1 and 2 of its
section 3.2) wants a failed source to show in the result's quality. So |S| is what the query
declares. A source is silent when nothing of it came for a whole STW in which the query has
had tuples of others; a query that is younger than an STW has no silent source yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.core.types import Bools, Floats, Grouping, Strata

ANY_QUERY = ""
"""Stands for all queries that are not declared by name, where queries come in a column."""
NOT_TOLD_APART = ""
"""The name of the source of tuples whose own source nobody counted."""


@dataclass(frozen=True, slots=True)
class DeclaredSources:
    """Names sources, and says how many there are whose names are not known beforehand.

    >>> DeclaredSources(frozenset({"a"})) + DeclaredSources(unnamed=2)
    DeclaredSources(names=frozenset({'a'}), unnamed=2)
    """

    names: frozenset[str] = frozenset()
    unnamed: int = 0

    def __add__(self, other: "DeclaredSources") -> "DeclaredSources":
        return DeclaredSources(self.names | other.names, self.unnamed + other.unnamed)

    def __len__(self) -> int:
        return len(self.names) + self.unnamed


Declared = Mapping[str, DeclaredSources]
"""By query; a query that is missing has the sources that are seen."""


def silent(strata: Strata, active: Bools, whole: Bools, declared: Declared) -> Floats:
    """Answers how many of its declared sources each query lacks.

    ``active`` marks sources that sent something in the STW, ``whole`` queries of which there were
    tuples for an STW or longer. Where sources were not told apart, none is taken for silent.
    """
    grouping = strata.grouping
    lacks = np.zeros(len(grouping.queries))
    if not declared or not whole.any():
        return lacks
    seen = np.bincount(grouping.query_of_source, active, len(grouping.queries))
    for place, query in enumerate(grouping.queries):
        mine = declared.get(query) or declared.get(ANY_QUERY)
        if mine is None or not whole[place] or _is_here(strata, active, query, NOT_TOLD_APART):
            continue
        named = sum(_is_here(strata, active, query, name) for name in mine.names)
        unnamed = max(mine.unnamed - (float(seen[place]) - named), 0.0)
        lacks[place] = len(mine.names) - named + unnamed
    return lacks


def _is_here(strata: Strata, active: Bools, query: str, source: str) -> bool:
    place = strata.place_of_source(query, source)
    return place >= 0 and bool(active[place])


def whole_queries(grouping: Grouping, began: Mapping[str, int], newest: int) -> Bools:
    """Marks the queries that began in the slot ``newest`` or before it."""
    return np.array([began.get(query, newest + 1) <= newest for query in grouping.queries], bool)

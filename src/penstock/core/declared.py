"""The sources that a query says it has, and how many of them are silent.

THEMIS (section 6) has queries with fixed sources, and the thesis (assumptions 1 and 2 of its
section 3.2) wants a failed source to show in the result's quality. So |S| is what the query
declares. A source is silent when nothing of it came for four fifths of an STW in which the query
has had tuples of others; a query that is younger than an STW has no silent source yet. The last
fifth is for what a batch takes to begin and to be counted, so that the SIC shows the silence within
an STW of the source's last tuple.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from penstock.core.types import Bools, Floats, Grouping, Strata

ANY_QUERY = ""
"""Stands for all queries that are not declared by name, where queries come in a column."""
NOT_TOLD_APART = ""
"""The name of the source of tuples whose own source nobody counted."""
SILENT_AFTER_STWS = 0.8
"""A source of which nothing came for this part of an STW is silent, if others sent."""


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


def slots_until_silent(slots: int) -> int:
    """Answers how many slots without a tuple make a source silent, where an STW has so many."""
    return ceil(SILENT_AFTER_STWS * slots)


@dataclass(frozen=True, slots=True)
class Silence:
    """Says which sources are silent, of those that the account has and of those it has not."""

    lacks: Floats
    """How many of its declared sources each query lacks."""
    fallen: Bools
    """Marks the sources that are silent and of which the STW still has tuples."""

    @classmethod
    def of(
        cls, strata: Strata, active: Bools, late: Bools, whole: Bools, declared: Declared
    ) -> "Silence":
        """Judges sources by when they sent something.

        ``active`` marks sources that did in the STW, ``late`` those that did at its end, and
        ``whole`` queries of which there were tuples for an STW or longer. A query of which nothing
        came of late has a batch that takes long, and no source that fell silent. Where sources were
        not told apart, none is taken for silent.
        """
        grouping = strata.grouping
        queries = len(grouping.queries)
        silence = cls(np.zeros(queries), np.zeros(len(grouping.sources), dtype=np.bool_))
        if not declared or not whole.any():
            return silence
        goes_on = np.bincount(grouping.query_of_source, late, queries) > 0
        sends = active & (late | ~goes_on[grouping.query_of_source])
        seen = np.bincount(grouping.query_of_source, sends, queries)
        for place, query in enumerate(grouping.queries):
            mine = declared.get(query) or declared.get(ANY_QUERY)
            if mine is None or not whole[place] or _is_here(strata, active, query, NOT_TOLD_APART):
                continue
            named = sum(_is_here(strata, sends, query, name) for name in mine.names)
            unnamed = max(mine.unnamed - (float(seen[place]) - named), 0.0)
            silence.lacks[place] = len(mine.names) - named + unnamed
            silence.fallen[(grouping.query_of_source == place) & active & ~sends] = True
        return silence


def _is_here(strata: Strata, active: Bools, query: str, source: str) -> bool:
    place = strata.place_of_source(query, source)
    return place >= 0 and bool(active[place])


def whole_queries(grouping: Grouping, began: Mapping[str, int], newest: int) -> Bools:
    """Marks the queries that began in the slot ``newest`` or before it."""
    return np.array([began.get(query, newest + 1) <= newest for query in grouping.queries], bool)

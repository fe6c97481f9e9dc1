"""Where each query stands over the past STW, by the account.

A query's SIC is the mean over its sources of admitted over arrived: the sum of equation 2 of
THEMIS with the n_s that turned out, hence never above 1, and 1 exactly when nothing was shed
(law 3). The sources are those that the query declares: one that has fallen silent lowers the SIC
by its share (see ``declared``). Of a query that declares none, a source that sent nothing in the
STW has nothing to lose and does not count. Where a query has sources elsewhere, or is fed with
partial results, the report says which share of its SIC each of the sources that are seen here
carries.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from penstock.core.declared import Silence
from penstock.core.types import Floats, Ints, Strata

Shares = Mapping[tuple[str, str], float]
"""By query and source: the SIC that a whole STW of it carries."""
Sources = frozenset[tuple[str, str]]
"""Names sources by query and source."""


@dataclass(frozen=True, slots=True)
class Standing:
    """An account summed up by query, and what a tuple of each stratum is worth."""

    queries: tuple[str, ...]
    query: Ints
    """Of each stratum, an index into ``queries``."""
    sic: Floats
    """Of each query, over the STW."""
    tuple_sic: Floats
    """Of one tuple of each stratum: ``1 / (n_s · |S|)`` with n_s for a whole STW."""
    gained: Floats
    """By each stratum for its query, over the STW."""
    attainable: Floats
    """The SIC that each query would have if nothing were shed: what its silent sources leave."""

    @classmethod
    def of(
        cls,
        strata: Strata,
        arrived: Floats,
        admitted: Floats,
        seen: Floats,
        shares: Shares,
        silence: Silence | None = None,
        passing: Sources = frozenset(),
    ) -> "Standing":
        """Sums an account up; ``silence`` says which sources of its queries are silent.

        What a source sent before it fell silent counts for nothing. What comes from the sources in
        ``passing`` is worth something and no merit of this site's: it counts for nothing that the
        site itself gives its queries.
        """
        grouping = strata.grouping
        source, query = grouping.source, grouping.query_of_source
        sources, queries = len(grouping.sources), len(grouping.queries)
        tuples = np.bincount(source, arrived, sources)
        passed = np.bincount(source, admitted, sources)
        sends = tuples > 0
        if silence is not None:
            sends &= ~silence.fallen
        active = np.bincount(query, sends, queries)
        declared = np.maximum(active if silence is None else active + silence.lacks, 1.0)
        share = (1.0 / declared)[query]
        if shares:
            known = map(shares.get, grouping.sources, repeat(np.nan))
            told = np.fromiter(known, np.float64, sources)
            share = np.where(np.isnan(told), share, told)
        part = np.divide(passed, tuples, out=np.zeros(sources), where=sends)
        own = share
        if passing:
            through = map(passing.__contains__, grouping.sources)
            own = np.where(np.fromiter(through, np.bool_, sources), 0.0, share)
        sic = np.bincount(query, own * part, queries)
        age = np.zeros(sources)
        np.maximum.at(age, source, seen)  # a source is as old as its oldest stratum
        worth = age * share / np.maximum(tuples, 1.0)
        gained = (own * sends / np.maximum(tuples, 1.0))[source] * admitted
        return cls(
            queries=grouping.queries,
            query=grouping.query,
            sic=np.minimum(sic, 1.0),
            tuple_sic=worth[source],
            gained=gained,
            attainable=np.ones(queries) if silence is None else 1.0 - silence.lacks / declared,
        )

    def by_name(self) -> dict[str, float]:
        """Answers the SIC of each query by its name."""
        return dict(zip(self.queries, self.sic.tolist(), strict=True))

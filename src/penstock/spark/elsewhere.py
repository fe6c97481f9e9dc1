"""What a site knows of its queries' life at other sites: news, sources, and partial results.

A query of a federation has sources elsewhere. So each of its sources here carries its share of all
of them (``of_sources``), and a coordinator tells what the query's result has come to (THEMIS,
section 5.2).

Partial results come with the SIC of what went into them. The gate puts them into classes by that,
four to the octave, and the controller sees each class of a link as a source of its own. So of
derived tuples, too, the most valuable are kept first.
"""

import threading
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as sf

from penstock.core.account import Account
from penstock.core.types import CoordinatorNews, Plan

CLASSES_PER_OCTAVE = 4
"""The SIC of tuples of one class differs by a fifth at most."""
CLASS_MARK = "~"
"""Stands between the name of a link and the number of a class."""
WORTHLESS = "none"
"""The class of tuples that carry nothing."""


class News(NamedTuple):
    """Holds what the controller is told of other sites; see ``penstock.core.types.Report``."""

    told: Mapping[str, CoordinatorNews]
    shares: Mapping[tuple[str, str], float]
    partial: frozenset[tuple[str, str]]


def with_class(link: str | Column, carried: Column) -> Column:
    """Names the class of each tuple of a link, by the SIC that it carries."""
    number = sf.floor(sf.log2(carried) * sf.lit(-CLASSES_PER_OCTAVE))
    name = sf.when(carried > 0, number.cast("string")).otherwise(sf.lit(WORTHLESS))
    prefix = sf.lit(link) if isinstance(link, str) else link
    return sf.concat(prefix, sf.lit(CLASS_MARK), name)


def worth_of(source: str) -> float:
    """Returns the SIC of one tuple of a class: the middle of what the class holds.

    >>> worth_of("rome~4"), worth_of("rome~none")
    (0.4585020216023356, 0.0)
    """
    number = source.rpartition(CLASS_MARK)[2]
    if number == WORTHLESS:
        return 0.0
    return float(2.0 ** (-(int(number) + 0.5) / CLASSES_PER_OCTAVE))


def rate_of_new_class(plan: Plan, query: str) -> float:
    """Returns the rate for partial results of a class that is not in the plan: that of the others.

    There is often one more class, since batches vary. Other tuples that are not in the plan have
    the rate that the site's tuples have on average; at that one, what other sites have paid for
    would be shed with source tuples that are worth a thousandth.
    """
    links = [
        place
        for place, stratum in enumerate(plan.strata)
        if stratum.query == query and CLASS_MARK in stratum.source
    ]
    return float(plan.rates[links].mean()) if links else plan.default_of(query)


class Elsewhere:
    """Collects what is told, until the controller asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: dict[str, CoordinatorNews] = {}
        self._shares: dict[tuple[str, str], float] = {}
        self._links: set[str] = set()

    def tell(self, query: str, sic: float, at: float) -> None:
        """Takes in what a query's coordinator says; older news than what is known is dropped."""
        with self._lock:
            known = self._told.get(query)
            if known is None or known.at <= at:
                self._told[query] = CoordinatorNews(sic, at)

    def has_sources(self, query: str, source: str, of_sources: int) -> None:
        """Notes that a source here is one of so many of its query."""
        with self._lock:
            self._shares[query, source] = 1.0 / of_sources

    def has_link(self, query: str) -> None:
        """Notes that partial results of other sites come in for a query."""
        with self._lock:
            self._links.add(query)

    def own_shares(self, account: Account) -> Mapping[tuple[str, str], float]:
        """Returns what each source here carries of its query; links carry nothing of this site."""
        sources = account.strata.grouping.sources if self._links else ()
        with self._lock:
            return self._shares | {source: 0.0 for source in sources if not self.owned(source)}

    def owned(self, source: tuple[str, str]) -> bool:
        """Says whether a source is one of this site's own, and not a link's."""
        return source[0] not in self._links or CLASS_MARK not in source[1]

    def news(self, account: Account | None) -> News:
        """Returns what the controller has to hear, and forgets what coordinators said."""
        with self._lock:
            told, self._told = self._told, {}
            shares = dict(self._shares)
        carried = {} if account is None or not self._links else self._carried(account)
        return News(told, shares | carried, frozenset(carried))

    def _carried(self, account: Account) -> dict[tuple[str, str], float]:
        """Returns the SIC that each class of partial results has brought along in the STW."""
        grouping = account.strata.grouping
        found: dict[tuple[str, str], float] = {}
        for place, arrived in zip(
            grouping.source.tolist(), account.arrived().tolist(), strict=True
        ):
            source = grouping.sources[place]
            if not self.owned(source):
                found[source] = found.get(source, 0.0) + arrived * worth_of(source[1])
        return found

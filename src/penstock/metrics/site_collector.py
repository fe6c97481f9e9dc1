"""Collects the figures of one site: those of its report, as they stand when somebody asks."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from penstock import __version__
from penstock.metrics.distributions import Distributions
from penstock.metrics.families import Row, families, histogram
from penstock.metrics.figures import (
    ASKED_FIGURES,
    GUARD_FIGURES,
    QUERY_FIGURES,
    SITE_FIGURES,
    STATISTICS_FIGURES,
    TERM_FIGURES,
    Figure,
)
from penstock.metrics.known_names import KnownNames
from penstock.metrics.told import SiteTold

MOST_QUERIES = 200
MOST_GUARDS = 50
REFUSED_FIGURES = (
    Figure(
        "penstock_refused_requests",
        "counter",
        "count",
        "Messages and queries that were not accepted, by reason.",
    ),
)
PREFIX = "penstock_site_"
_OWN = {figure.name for figure in (*SITE_FIGURES, *ASKED_FIGURES)}
OF_STATISTICS = tuple(each for each in STATISTICS_FIGURES if PREFIX + each.name not in _OWN)
"""What the statistics manager tells of a site beside what its report has."""


class SiteCollector:
    """Asks a site how it stands, and answers that as metrics."""

    def __init__(
        self, ask: Callable[[], SiteTold], distributions: Distributions | None = None
    ) -> None:
        self._ask, self._distributions = ask, distributions
        self._queries, self._guards = KnownNames(MOST_QUERIES), KnownNames(MOST_GUARDS)

    def collect(self) -> Iterator[Metric]:
        """Answers all families."""
        told = self._ask()
        yield _build()
        yield from families(SITE_FIGURES, [Row({}, told.report)])
        yield from families(ASKED_FIGURES, [Row({}, told.asked)])
        yield from families(QUERY_FIGURES, [self._query(q) for q in told.report["queries"]])
        terms = [Row({"query": self._queries.label(q)}, t) for q, t in told.terms.items()]
        yield from families(TERM_FIGURES, terms)
        yield from families(GUARD_FIGURES, [self._guard(g) for g in told.report.get("guards", ())])
        if told.statistics is not None:
            yield from families(OF_STATISTICS, [Row({}, told.statistics)], PREFIX)
            yield from refused(told.statistics)
        if self._distributions is not None:
            yield from map(histogram, self._distributions.histograms.values())

    def _query(self, told: Mapping[str, Any]) -> Row:
        return Row({"query": self._queries.label(told["id"])}, told)

    def _guard(self, told: Mapping[str, Any]) -> Row:
        return Row({"guard": self._guards.label(told["guard"])}, told)


def refused(statistics: Mapping[str, Any]) -> Iterator[Metric]:
    """Answers how often something was not accepted; the reasons are few."""
    rows = [Row({"reason": r}, {"count": n}) for r, n in statistics["refused"].items()]
    yield from families(REFUSED_FIGURES, rows)


def _build() -> Metric:
    family = GaugeMetricFamily(
        "penstock_build_info", "The version of Penstock; always 1.", labels=["version"]
    )
    family.add_metric([__version__], 1.0)
    return family

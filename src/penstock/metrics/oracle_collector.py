"""Collects what an oracle knows of the sites and queries of a federation."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from penstock.metrics.families import Row, families
from penstock.metrics.figures import (
    FEDERATION_FIGURES,
    ORACLE_QUERY_FIGURES,
    ORACLE_SITE_FIGURES,
    STATISTICS_FIGURES,
)
from penstock.metrics.known_names import KnownNames
from penstock.metrics.told import OracleTold

MOST_SITES = 200
MOST_QUERIES = 500


class OracleCollector:
    """Asks the oracle what it knows, and answers that as metrics."""

    def __init__(self, ask: Callable[[], OracleTold]) -> None:
        self._ask = ask
        self._sites, self._queries = KnownNames(MOST_SITES), KnownNames(MOST_QUERIES)

    def collect(self) -> Iterator[Metric]:
        """Answers all families."""
        told = self._ask()
        sites = [({"site": self._sites.label(site["site"])}, site) for site in told.sites]
        prefix = "penstock_oracle_site_"
        yield from families(ORACLE_SITE_FIGURES, [Row(*each) for each in sites], prefix)
        figures = [Row(labels, site["statistics"]) for labels, site in sites]
        yield from families(STATISTICS_FIGURES, figures, prefix)
        queries = [
            Row({"query": self._queries.label(query["query"])}, query)
            for query in told.queries["queries"]
        ]
        yield from families(ORACLE_QUERY_FIGURES, queries, "penstock_oracle_query_")
        yield from families(FEDERATION_FIGURES, [Row({}, told.queries)])

"""Collects what an oracle knows of the sites and queries of a federation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import Metric

from penstock.metrics.families import Row, families
from penstock.metrics.figures import (
    FEDERATION_FIGURES,
    LINK_FIGURES,
    ORACLE_QUERY_FIGURES,
    ORACLE_SITE_FIGURES,
    STATISTICS_FIGURES,
)
from penstock.metrics.known_names import OTHERS, KnownNames
from penstock.metrics.told import OracleTold

MOST_SITES = 200
MOST_QUERIES = 500
MOST_LINKS = 500
"""Pairs of sites; those that come later share the label ``_others``."""


class OracleCollector:
    """Asks the oracle what it knows, and answers that as metrics."""

    def __init__(self, ask: Callable[[], OracleTold]) -> None:
        self._ask = ask
        self._sites, self._queries = KnownNames(MOST_SITES), KnownNames(MOST_QUERIES)
        self._links = KnownNames(MOST_LINKS)

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
        yield from families(LINK_FIGURES, [self._link(*link) for link in _links(told.sites)])

    def _link(self, sender: str, receiver: str, rows: float) -> Row:
        known = self._links.label(f"{sender} {receiver}") != OTHERS
        names = (sender, receiver) if known else (OTHERS, OTHERS)
        return Row(dict(zip(("sender", "receiver"), names, strict=True)), {"rows": rows})


def _links(sites: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, float]]:
    """Answers what flows from site to site, fragment by fragment, as the page draws it.

    A fragment with several receivers sends each of them its share.
    """
    home = {part["id"]: site["site"] for site in sites for part in site["fragments"]}
    for site in sites:
        for part in site["fragments"]:
            receivers = {home[other] for other in part["sends_to"] if other in home}
            for receiver in sorted(receivers - {site["site"]}):
                yield site["site"], receiver, part["rows_per_second"] / len(part["sends_to"])

"""Finds the sites of a federation: by its oracle, or by their addresses."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.errors import PenstockError
from penstock.federation.client import CallError, SiteClient
from penstock.federation.messages import (
    FragmentStatus,
    LentSource,
    Place,
    RankedSite,
    RankingAnswer,
)
from penstock.federation.oracle import ranked
from penstock.federation.oracle_client import OracleClient
from penstock.federation.oracle_messages import QueriesAnswer
from penstock.federation.query_file import Ranking
from penstock.federation.site_file import CertificateEntry

log = logging.getLogger("penstock")


@dataclass
class KnownSites:
    """Calls the sites of a federation; an oracle's address, or those of all sites, is needed."""

    oracle: str | None = None
    addresses: Sequence[str] = ()
    token: str | None = field(default=None, repr=False)
    tls: CertificateEntry | None = None

    def __post_init__(self) -> None:
        if self.oracle is None and not self.addresses:
            raise PenstockError(
                "the address of an oracle or of sites must be given, such as http://127.0.0.1:7100"
            )

    def ranking(self, by: Ranking = "least-loaded") -> RankingAnswer:
        """Answers the sites that live, the best place for a fragment first."""
        if self.oracle is None:
            return RankingAnswer(by=by, sites=ranked(self._asked(), by))
        with self._oracle() as oracle:
            return oracle.ranking(by)

    def queries(self) -> QueriesAnswer | None:
        """Answers what the oracle knows of queries; None without an oracle."""
        if self.oracle is None:
            return None
        with self._oracle() as oracle:
            return oracle.queries()

    @contextmanager
    def calling(self, address: str) -> Iterator[SiteClient]:
        """Makes a client for a site."""
        client = SiteClient(address, self.token, self.tls)
        try:
            yield client
        finally:
            client.close()

    def running(self, query: str | None = None) -> dict[Place, list[FragmentStatus]]:
        """Answers what runs at each site that answers; of one query, if one is named."""
        found = {}
        for site in self.ranking().sites:
            try:
                with self.calling(site.address) as client:
                    runs = client.fragments()
            except CallError as error:
                log.warning("what runs at %s is not known: %s", site.site, error)
                continue
            found[Place(site=site.site, address=site.address)] = [
                status for status in runs if query in (None, status.query)
            ]
        return found

    @contextmanager
    def _oracle(self) -> Iterator[OracleClient]:
        assert self.oracle is not None
        client = OracleClient(self.oracle, self.token, self.tls)
        try:
            yield client
        finally:
            client.close()

    def _asked(self) -> list[RankedSite]:
        """Asks the sites themselves; those that do not answer are left out."""
        found, errors = [], []
        for address in self.addresses:
            with self.calling(address) as client:
                try:
                    about, statistics = client.sources(), client.statistics()
                except CallError as error:
                    errors.append(error)
                    continue
            found.append(
                RankedSite(
                    site=about.site,
                    address=address.rstrip("/"),
                    statistics=statistics,
                    sources=about.sources,
                )
            )
        if errors and not found:
            raise errors[0]
        return found


def catalog_of(ranking: RankingAnswer) -> dict[str, LentSource]:
    """Answers the sources that sites lend, as ``site.source``."""
    return {
        f"{site.site}.{name}": source
        for site in ranking.sites
        for name, source in site.sources.items()
    }

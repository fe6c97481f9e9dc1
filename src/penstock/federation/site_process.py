"""Runs a site as a process: Spark, the site's server, its heartbeats and its coordinators."""

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from penstock.errors import PenstockError
from penstock.federation.access import Access
from penstock.federation.client import SiteClient
from penstock.federation.coordination import Missing
from penstock.federation.coordinator import SiteCoordinators
from penstock.federation.count_spread import counted_by_query
from penstock.federation.messages import Heartbeat, QueryStatus, SiteSources
from penstock.federation.moving import deploy_anew
from penstock.federation.oracle_client import OracleClient
from penstock.federation.repeating import Repeating
from penstock.federation.sequences import Numbering
from penstock.federation.serving import ServedApp
from penstock.federation.site_file import SiteFile, load_site
from penstock.federation.site_host import SiteHost
from penstock.federation.site_server import site_app
from penstock.federation.trusted_addresses import TrustedAddresses
from penstock.metrics.told import SiteTold
from penstock.spark.record.totals import MeanSic
from penstock.spark.session import check_java, session, workspace

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

log = logging.getLogger("penstock")
USUAL_SPARK = {"spark.sql.shuffle.partitions": "1"}
"""A site of a federation has fragments that are small, and many of them."""


class Pausing(Protocol):
    """Lets time pass, and raises ``KeyboardInterrupt`` when the process is to end."""

    def pause(self, seconds: float) -> None: ...

    def spark_started(self) -> None: ...


def run_site(path: Path, interrupt: Pausing, ready: Callable[[str], None]) -> None:
    """Runs the site of a file until it is interrupted; ``ready`` is told where it listens."""
    file, document = load_site(path)
    check_java()
    access = Access(callers_of(file), file.host, readers=file.readers)
    settings = {**USUAL_SPARK, **file.spark}
    with (
        workspace("site", warns=True) as directory,
        session(directory, f"site-{file.site}", settings) as spark,
    ):
        interrupt.spark_started()
        host = SiteHost(spark, file, document)
        try:
            lent = SiteSources(site=file.site, sources=host.lent)
            app = site_app(host, access, lambda: lent, measured(host, access))
            with ServedApp(app, access.refusals, file.host, file.port, file.tls) as served:
                address = file.address or served.address
                host.begin()
                ready(address)
                _live(host, address, access, interrupt)
        except KeyboardInterrupt:
            log.info("the site %s stops", file.site)
        finally:
            host.end()


def measured(host: SiteHost, access: Access) -> Callable[[], "Collector"]:
    """Makes what collects the metrics of a site."""

    def told() -> SiteTold:
        told = host.told()
        statistics = {**(told.statistics or {}), "refused": access.refusals.counts()}
        return replace(told, statistics=statistics)

    def collector() -> "Collector":
        from penstock.metrics.site_collector import SiteCollector

        return SiteCollector(told, host.distributions)

    return collector


def callers_of(file: SiteFile) -> dict[str, str]:
    """Returns who may call a site, with their tokens; its own coordinators may where others may."""
    known = file.accepts
    if not known or file.token is None or file.site in known or file.token in known.values():
        return known
    return {**known, file.site: file.token}


def _live(host: SiteHost, address: str, access: Access, interrupt: Pausing) -> None:
    """Does once an interval what a site does beside its queries."""
    with (
        _coordinators(host) as coordinators,
        Heartbeats(host, address, access, coordinators),
        Repeating("penstock-revives", host.file.interval, host.revive),
    ):
        while True:
            host.sample()
            coordinators.tell()
            interrupt.pause(host.file.interval)


def _coordinators(host: SiteHost) -> SiteCoordinators:
    """Returns those of all queries whose root is here."""
    file = host.file

    trusted = TrustedAddresses(file)

    def connect(address: str) -> SiteClient:
        trusted.check(address)
        return SiteClient(address, file.token, file.tls)

    def bring_back(missing: Missing) -> None:
        deploy_anew(missing, lambda address: closing(connect(address)))

    return SiteCoordinators(
        file.site,
        file.interval,
        roots=host.speaking_roots,
        result_sic=host.result_sic,
        result_age=host.result_age,
        tell_own=lambda update: host.update_sic(update, file.site),
        connect=connect,
        deploy_anew=bring_back,
    )


class Heartbeats:
    """Tells the oracle, if there is one, how the site is doing; the site goes on without it.

    A thread of its own sends them, so that a site that is busy is not taken for one that is dead.
    """

    def __init__(
        self, host: SiteHost, address: str, access: Access, coordinators: SiteCoordinators
    ) -> None:
        self._host, self._address, self._access = host, address, access
        self._coordinators = coordinators
        file = host.file
        self._client = OracleClient(file.oracle, file.token, file.tls) if file.oracle else None
        self._numbers = Numbering()
        self._mean = MeanSic()
        self._heard = True
        self._beating = Repeating("penstock-heart", file.interval, self._send)

    def __enter__(self) -> Self:
        if self._client is not None:
            self._beating.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._beating.__exit__()
            self._client.close()

    def _send(self) -> None:
        assert self._client is not None
        try:
            self._client.heartbeat(self._beat(time.time()))
        except PenstockError as error:
            if self._heard:
                log.warning("the oracle does not hear this site, which goes on: %s", error)
            self._heard = False
        else:
            self._heard = True

    def _beat(self, now: float) -> Heartbeat:
        refused = self._access.refusals.counts()
        return Heartbeat(
            site=self._host.file.site,
            address=self._address,
            seq=self._numbers.next(now),
            interval=self._host.file.interval,
            statistics=self._host.statistics().model_copy(update={"refused": refused}),
            sources=self._host.lent,
            fragments=self._host.fragments(),
            queries=[self._query(query) for query in self._host.roots()],
            counted=counted_by_query(self._host.site.state),
        )

    def _query(self, query: str) -> QueryStatus:
        sent = self._coordinators.sent(query)
        status = self._host.query_status(query)
        if status.sic_now is not None:
            self._mean.add({query: status.sic_now})
        return status.model_copy(
            update={
                "sic": None if status.sic_now is None else self._mean.of(query),
                "updates_sent": sent.messages,
                "update_bytes_max": sent.bytes_max,
            }
        )

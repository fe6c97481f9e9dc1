"""A site of a federation: takes fragments at run time, and decides for itself (law 9).

It is what its server asks (``SiteControl``). It runs the site's own queries and everybody else's
fragments on one Spark, behind gates of one ``Site``, and refuses what its file refuses.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock import policy as policies
from penstock.core.settings import QueryTerms
from penstock.documents import Document
from penstock.errors import PenstockError
from penstock.federation.autonomy import (
    owned_by,
    refuse_news,
    refuse_order,
    refuse_others,
    refuse_submitter,
)
from penstock.federation.fragment_inputs import columns_of
from penstock.federation.fragment_runner import FragmentRunner, RunningFragment
from penstock.federation.fragment_store import FragmentStore
from penstock.federation.ids import fragment_id
from penstock.federation.inside_messages import (
    LatencyAnswer,
    LatencyChange,
    SiteInside,
    TermsAnswer,
    TermsChange,
)
from penstock.federation.kafka_link import KafkaLinks
from penstock.federation.known_splits import KnownSplits
from penstock.federation.lending import Lending
from penstock.federation.link import DirectoryLinks, LinkError, Links
from penstock.federation.messages import (
    FAILED,
    LONGEST_TROUBLE_CHARACTERS,
    FragmentAnswer,
    FragmentOrder,
    FragmentStatus,
    LentSource,
    QueryStatus,
    SicUpdate,
    SiteStatistics,
)
from penstock.federation.query_file import ROOT
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.result_sic import age_of_results, rows_of_results, sic_of_results
from penstock.federation.revival import Revival
from penstock.federation.sequences import FARTHEST_AHEAD_SECONDS
from penstock.federation.site_changes import change_latency, change_terms
from penstock.federation.site_file import SiteFile
from penstock.federation.site_inside import site_inside
from penstock.federation.site_statistics import StatisticsManager
from penstock.jobs.check import check
from penstock.jobs.inputs import behind, located, read
from penstock.jobs.load import prepared
from penstock.jobs.model import JobFile
from penstock.jobs.start import start
from penstock.metrics.distributions import Distributions
from penstock.metrics.told import SiteTold
from penstock.spark import spark_errors
from penstock.spark.engine import Engine
from penstock.spark.query import SparkQuery
from penstock.spark.shared_places import check_shared
from penstock.spark.site import Site
from penstock.spark.site_metrics import told_by
from penstock.spark.site_report import LatencyReport

log = logging.getLogger("penstock")
QUIET_INTERVALS = 3.0
"""So long may a root with replicas say nothing before the next one speaks."""


class SiteHost:
    """Runs one site of a federation, in a process with one Spark."""

    def __init__(self, spark: SparkSession, file: SiteFile, document: Document) -> None:
        self.file = file
        self._document = document
        self._base = Path(document.name).parent
        self._home = Path(located(file.directory, self._base))
        shared = Path(located(file.links or f"{file.directory}/links", self._base))
        check_shared(Engine(spark), "links", shared.absolute().as_uri())
        if file.queries:
            check_shared(Engine(spark), "directory", self._home.absolute().as_uri())
        self.distributions = Distributions()
        """How long its batches took, and the like, for metrics."""
        self.site = Site(
            spark,
            interval=file.interval,
            latency=file.latency,
            stw=file.stw,
            policy=Lending(policies.get(file.policy), file.lends.capacity),
            headroom=file.headroom,
            terms=_own_terms(file),
            directory=self._home / "site",
            rehearse=False,
            metrics=self.distributions,
        )
        self._splits = KnownSplits()
        self._runner = FragmentRunner(
            self.site, file, self._base, shared, _links(file, shared), self._splits
        )
        self._store = FragmentStore(self._home / "fragments")
        self._manager = StatisticsManager(self.site.settings.stw_seconds)
        self._noted = self.site.report()
        self._running: dict[str, RunningFragment] = {}
        self._not_started: dict[str, tuple[FragmentOrder, str]] = {}
        """Orders from before a restart that could not be started yet, and why."""
        self._revival = Revival(self.site.settings.interval)
        self._told: dict[str, float] = {}
        """What coordinators said last, by query."""
        self._heard: dict[str, float] = {}
        """When a coordinator of another site last said something of a query."""
        self._deploying, self._lock = RLock(), RLock()
        self.lent = self._lent_sources()
        """The sources that others may read."""

    # --- the life of the site --------------------------------------------------------------------

    def begin(self) -> None:
        """Starts the site's own queries, and the fragments that it ran when it was last stopped."""
        if self.file.queries:
            self._start_own()
        for order in self._store.all():
            try:
                self._check(order, order.submitter)  # the file may have changed since
            except PenstockError as error:
                log.error("a fragment of %s is not run again: %s", order.query.query, error)
            except Exception:  # one fragment must not keep the site from its own queries
                log.exception("a fragment of %s is not run again", order.query.query)
            else:
                with self._deploying:
                    self._try_to_start(order)

    def end(self) -> None:
        """Stops all that runs here; the orders stay, for the next start."""
        with self._deploying, self._lock:
            running = list(self._running.values())
        for fragment in running:
            try:
                fragment.stop()
            except Exception:  # the others have to be stopped all the same
                log.exception("%s did not stop well", fragment.id)
        self.site.stop()

    def sample(self) -> None:
        """Notes where the site stands; the process calls it once an interval.

        What the oracle and others are told is from the last note, so that nobody who asks has to
        wait for a batch that is being planned.
        """
        self._noted = self.site.report()
        self._manager.sample(time.time(), self._noted)

    def revive(self) -> None:
        """Starts fragments again that have failed; the process calls it once an interval."""
        with self._deploying:
            found = self._revival.look(self._failed(), time.time())
            for identity, wait in found.failed:
                why = self._trouble_of(identity)
                log.error("%s has failed and is started again in %.0f s: %s", identity, wait, why)
            for identity in found.due:
                try:
                    if identity in self._running:
                        self._running[identity].check_links()
                except LinkError:  # to start it would be in vain
                    self._revival.wait(identity, time.time())
                else:
                    log.warning("%s is started again", identity)
                    self._try_to_start(self._order_of(identity))

    # --- what the server asks --------------------------------------------------------------------

    def deploy(self, order: FragmentOrder, caller: str) -> FragmentAnswer:
        """Runs a fragment; see ``SiteControl``."""
        identity = fragment_id(order.fragment, order.query.query, order.replica)
        order = owned_by(order, caller)
        with self._deploying:
            known = self._running.get(identity)
            if known is not None:
                refuse_others(known.order, caller)
            if known is not None and _conflict(known.order, order):
                raise RefusedError(
                    Reason.CONFLICT,
                    f"{identity} runs here already, and is another query or a newer one",
                )
            if known is not None and _same(known.order, order) and known.stream.isActive:
                return self._told_again(known, order)
            self._check(order, caller)
            if known is not None:
                known.stop()
            self._not_started.pop(identity, None)
            try:
                running = self._start(order)
            except (PySparkException, ValueError) as error:
                if isinstance(error, PenstockError):
                    raise
                said = spark_errors.told(error) if isinstance(error, PySparkException) else error
                raise RefusedError(Reason.BAD_SQL, f"{identity}: {said}") from None
            except OSError as error:  # of a checkpoint, say, whose disk is full
                raise RefusedError(Reason.NOT_POSSIBLE, f"{identity}: {error}") from None
            self._store.keep(order)
            return FragmentAnswer(id=identity, columns=running.columns)

    def remove(self, fragment_id: str, caller: str) -> None:
        """Stops a fragment, and waits until its last batch is through."""
        with self._deploying:
            running = self._running.get(fragment_id)
            refuse_submitter(self.file, caller)
            if running is None:
                self._store.forget(fragment_id)  # one that could not be run again after a restart
                self._not_started.pop(fragment_id, None)
                raise RefusedError(Reason.UNKNOWN_FRAGMENT, f"{fragment_id} does not run here")
            refuse_others(running.order, caller)
            running.stop()
            self._store.forget(fragment_id)
            with self._lock:
                del self._running[fragment_id]

    def fragments(self) -> list[FragmentStatus]:
        """Answers the fragments that it was asked to run, and how they are."""
        with self._lock:
            running, waiting = dict(self._running), dict(self._not_started)
        return [
            *(self._status(identity, fragment) for identity, fragment in running.items()),
            *(_status_of_waiting(identity, *told) for identity, told in waiting.items()),
        ]

    def statistics(self) -> SiteStatistics:
        """Answers the statistics that the thesis asks of every node."""
        with self._lock:
            orders = [fragment.order for fragment in self._running.values()]
            told = dict(self._told)
        connected = {name for order in orders for name in self._neighbours(order)}
        statistics = self._manager.statistics(self._noted, told, len(orders), len(connected))
        return statistics.model_copy(
            update={"latency_target_ms": self.site.settings.target_seconds * 1000}
        )

    def update_sic(self, update: SicUpdate, caller: str) -> None:
        """Hears what a query's result is worth."""
        if update.at > time.time() + FARTHEST_AHEAD_SECONDS:
            raise RefusedError(Reason.BAD_MESSAGE, "'at' is more than a minute ahead")
        with self._lock:
            orders = [fragment.order for fragment in self._running.values()]
            refuse_news(self.file, orders, update.query, caller)
            self._told[update.query] = update.sic
            if caller != self.file.site:
                self._heard[update.query] = time.time()
        self.site.tell(update.query, update.sic, update.at)

    def inside(self) -> SiteInside:
        """Answers the gates and guards from inside."""
        return site_inside(self.site)

    def set_terms(self, change: TermsChange, caller: str) -> TermsAnswer:
        """Gives a query other terms, from its next batch on."""
        with self._lock:
            orders = [fragment.order for fragment in self._running.values()]
        return change_terms(self.site, self.file, orders, change, caller)

    def set_latency(self, change: LatencyChange, caller: str) -> LatencyAnswer:
        """Holds another latency, from the next batch on."""
        return change_latency(self.site, self.file, change, caller)

    def report(self) -> dict[str, Any]:
        """Answers the whole report of the site."""
        told = self._noted.to_dict()
        fragments = [status.model_dump() for status in self.fragments()]
        return {**told, "name": self.file.site, "fragments": fragments}

    def told(self) -> SiteTold:
        """Answers what its metrics are made of: what its report has, and its statistics."""
        return told_by(self._noted, self.site.settings, self.statistics().model_dump())

    # --- what coordinators and the oracle are told -----------------------------------------------

    def roots(self) -> Mapping[str, FragmentOrder]:
        """Answers the orders of the roots that run here, by query."""
        with self._lock:
            return {
                fragment.order.query.query: fragment.order
                for fragment in self._running.values()
                if fragment.order.fragment == ROOT
            }

    def speaking_roots(self) -> Mapping[str, FragmentOrder]:
        """Answers those for which this site tells the others what the result is worth.

        Where a root has replicas, the later ones keep quiet as long as they hear an earlier one.
        """
        if not self.file.tells:
            return {}
        now, patience = time.time(), QUIET_INTERVALS * self.file.interval
        with self._lock:
            heard = dict(self._heard)
        return {
            query: order
            for query, order in self.roots().items()
            if order.replica == 0 or now - heard.get(query, 0.0) > patience
        }

    def result_sic(self, query: str) -> float | None:
        """Answers what a query's result has come to; None where nothing is known yet."""
        stream = self._root_stream(query)
        if stream is None:
            return None
        return sic_of_results(list(stream.results), time.time(), self.site.settings.stw_seconds)

    def result_age(self, query: str) -> float:
        """Answers how many seconds ago the sources sent what a query's result is made of."""
        stream, order = self._root_stream(query), self.roots().get(query)
        if stream is None or order is None:
            return 0.0
        stw = self.site.settings.stw_seconds
        return age_of_results(list(stream.latencies), order.query.watermark, stw)

    def query_status(self, query: str) -> QueryStatus:
        """Answers how a query is whose root runs here."""
        order, stream = self.roots()[query], self._root_stream(query)
        sites = {place.site for places in order.places.values() for place in places}
        terms = self.site.settings.terms.get(query, QueryTerms())
        late = None if stream is None else LatencyReport.of(list(stream.latencies))
        return QueryStatus(
            query=query,
            sic_now=self.result_sic(query),
            rows=0 if stream is None else rows_of_results(list(stream.results)),
            latency_ms={} if late is None else {"p50": late.p50, "p95": late.p95, "p99": late.p99},
            latency_measured=None if late is None else late.measured,
            fragments=sum(len(places) for places in order.places.values()),
            sites=sorted(sites),
            weight=terms.weight,
            floor=terms.floor,
            ceiling=None if terms.ceiling == float("inf") else terms.ceiling,
        )

    # --- inside ----------------------------------------------------------------------------------

    def _start(self, order: FragmentOrder) -> RunningFragment:
        terms = QueryTerms(weight=order.query.weight, guest=True)
        self.site.set_terms(order.query.query, terms)
        running = self._runner.start(order)
        with self._lock:
            self._running[running.id] = running
        return running

    def _try_to_start(self, order: FragmentOrder) -> None:
        """Starts a fragment again, or notes why it could not be started; never raises."""
        identity = fragment_id(order.fragment, order.query.query, order.replica)
        try:
            if (before := self._running.get(identity)) is not None:
                before.stop()
            self._start(order)
            self._not_started.pop(identity, None)
        except Exception as error:  # one fragment must not keep the others from running
            log.debug("%s was not started", identity, exc_info=True)
            with self._lock:
                self._running.pop(identity, None)
                self._not_started[identity] = order, spark_errors.why_failed(error)

    def _failed(self) -> list[str]:
        """Lists the fragments that should run and do not."""
        failed = [name for name, each in self._running.items() if each.state == FAILED]
        return failed + list(self._not_started)

    def _trouble_of(self, identity: str) -> str:
        if identity in self._not_started:
            return self._not_started[identity][1]
        return self._running[identity].trouble

    def _order_of(self, identity: str) -> FragmentOrder:
        if identity in self._not_started:
            return self._not_started[identity][0]
        return self._running[identity].order

    def _start_own(self) -> None:
        """Starts the queries of the site's own file, as a job file's."""
        job = JobFile(
            site=self.file.site,
            interval=self.file.interval,
            latency=self.file.latency,
            stw=self.file.stw,
            checkpoint=str(self._home / "own"),
            sources=self.file.sources,
            queries=self.file.queries,
        )
        loaded = prepared(job, self._document)
        spark = self.site.spark
        start(spark, loaded, self.site, check(spark, loaded), self._home / "own")

    def _check(self, order: FragmentOrder, caller: str) -> None:
        """Refuses what this site's file refuses, and SQL that reads what it does not lend."""
        with self._lock:
            running = [fragment.order for fragment in self._running.values()]
        refuse_order(self.file, self.lent, running, self._splits, order, caller)

    def _told_again(self, known: RunningFragment, order: FragmentOrder) -> FragmentAnswer:
        """The places of an order that comes again are in force from now on."""
        self._store.keep(order)
        again = replace(known, order=order)
        with self._lock:
            self._running[known.id] = again
        return FragmentAnswer(id=known.id, columns=known.columns)

    def _status(self, identity: str, fragment: RunningFragment) -> FragmentStatus:
        stream = self.site.streams.get(identity)
        return FragmentStatus(
            id=identity,
            query=fragment.order.query.query,
            fragment=fragment.order.fragment,
            state=fragment.state,
            trouble=fragment.trouble[:LONGEST_TROUBLE_CHARACTERS],
            incarnation=fragment.order.incarnation,
            arrived=0 if stream is None else stream.arrived,
            admitted=0 if stream is None else stream.admitted,
            rows=fragment.sent or (0 if stream is None else rows_of_results(list(stream.results))),
            sends_to=self._receivers(fragment.order),
        )

    def _receivers(self, order: FragmentOrder) -> list[str]:
        """Answers the fragments, replicas among them, that read what one of this site sends."""
        return [
            fragment_id(name, order.query.query, replica)
            for name in self._splits.of(order).receivers(order.fragment)
            for replica in range(len(order.places.get(name, ())))
        ]

    def _root_stream(self, query: str) -> SparkQuery | None:
        for replica in range(3):
            stream = self.site.streams.get(fragment_id(ROOT, query, replica))
            if stream is not None and stream.runs:
                return stream
        return None

    def _neighbours(self, order: FragmentOrder) -> set[str]:
        """Answers the fragments at other sites that one of this site's sends to or hears from."""
        cut = self._splits.of(order)
        heard = {s for senders in cut.fragment(order.fragment).inputs.values() for s in senders}
        near = heard | set(cut.receivers(order.fragment))
        return {
            fragment_id(name, order.query.query)
            for name in near
            if any(place.site != self.file.site for place in order.places.get(name, []))
        }

    def _lent_sources(self) -> dict[str, LentSource]:
        wanted = self.file.lends.sources
        names = self.file.sources if wanted is None else wanted
        found = {}
        for name in names:
            if name not in self.file.sources:
                raise self._document.error(("lends", "sources"), f"there is no source {name!r}")
            entry = self.file.sources[name]
            if not entry.static:
                frame = behind(read(self.site.spark, entry, self._base), entry)
                found[name] = LentSource(columns=columns_of(frame.schema), time=entry.event_time)
        return found


def _status_of_waiting(identity: str, order: FragmentOrder, why: str) -> FragmentStatus:
    return FragmentStatus(
        id=identity,
        query=order.query.query,
        fragment=order.fragment,
        state=FAILED,
        trouble=why[:LONGEST_TROUBLE_CHARACTERS],
        incarnation=order.incarnation,
    )


def _links(file: SiteFile, shared: Path) -> Links:
    return DirectoryLinks(shared) if file.brokers is None else KafkaLinks(file.brokers)


def _own_terms(file: SiteFile) -> dict[str, QueryTerms]:
    return {
        name: QueryTerms(
            query.weight, query.floor, float("inf") if query.ceiling is None else query.ceiling
        )
        for name, query in file.queries.items()
    }


def _same(known: FragmentOrder, order: FragmentOrder) -> bool:
    return known.query == order.query and known.incarnation == order.incarnation


def _conflict(known: FragmentOrder, order: FragmentOrder) -> bool:
    return known.query != order.query or order.incarnation < known.incarnation

"""A site: one Spark application, its gates, and the loop that keeps it fresh.

    site = ps.Site(spark, interval="1s", latency="2s")
    rides = site.gate(raw, query="fares", strata="route", id=["partition", "offset"])
    site.start(rides.select(...).groupBy(...).agg(ps.mean("fare"), ps.sic()).writeStream...)

The loop has no thread of its own. Whenever Spark plans a micro-batch, the gate's wire asks here
for a plan: the site tells the controller what finished and what is about to start, and ships the
answer.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock import policy as policies
from penstock.core.controller import Controller
from penstock.core.settings import QueryTerms, Settings, check_timing
from penstock.core.state import State
from penstock.core.types import Batch, Plan, Report
from penstock.errors import PenstockError
from penstock.guard.admission import Function
from penstock.spark import arguments
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys
from penstock.spark.gate.wire import Shipment, Wire
from penstock.spark.guard import OnError
from penstock.spark.guards import Guards
from penstock.spark.listener import Listener
from penstock.spark.query import SparkJob
from penstock.spark.record.ledger import Ledger
from penstock.spark.record.recovery import Recovery
from penstock.spark.record.saved_state import Memory
from penstock.spark.record.totals import Books
from penstock.windows.concept import Concept
from penstock.windows.in_force import ConceptWindows

log = logging.getLogger("penstock")
_gate_numbers = count()
START_SECONDS = 10.0
"""How long a first batch waits for its query to be known; Spark tells within milliseconds."""
RECENT = 32
"""Batches that are kept to look at; with thousands of strata one has a megabyte."""


class Site:
    """Shares one Spark application between its queries.

    ``interval`` is the trigger of the queries that it starts, ``latency`` the time from a tuple's
    arrival to its result that it holds (two intervals unless told). ``policy`` is a name or an
    object of your own (see ``penstock.policy``). ``terms`` gives queries a weight, a floor or a
    ceiling. With a ``directory`` the ledger and what was learnt survive a crash.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        interval: float | str = 1.0,
        latency: float | str | None = None,
        stw: float | str | None = None,
        policy: str | policies.Policy = "balance-sic",
        terms: Mapping[str, QueryTerms] | None = None,
        headroom: float = 0.9,
        directory: str | Path | None = None,
    ) -> None:
        self.spark = spark
        self.settings = Settings(
            interval=arguments.duration("interval", interval),
            latency=None if latency is None else arguments.duration("latency", latency),
            stw=None if stw is None else arguments.duration("stw", stw),
            policy=arguments.policy(policy),
            headroom=arguments.headroom(headroom),
            cores=float(arguments.cores(spark)),
            terms=arguments.terms(terms),
        )
        self._memory = Memory(arguments.directory(directory))
        self.ledger = Ledger(self._memory.directory and self._memory.directory / "ledger.jsonl")
        self.plan = Plan()
        self._state = self._memory.recall("state", State) or State()
        self._controller = Controller(self.settings, windows=ConceptWindows())
        self._recovery = Recovery(spark, self._memory, self.ledger)
        self._lock = threading.RLock()
        self._gates: dict[str, Gate] = {}
        self._streams: dict[str, DataFrame] = {}
        self._jobs: dict[str, SparkJob] = {}
        self._gone: list[str] = []
        self._heard: list[Batch] = []
        self.recent: deque[Batch] = deque(maxlen=RECENT)
        """The last batches of all queries, as they were counted."""
        self._books = Books()
        self._guards = Guards(spark)
        self._listener = Listener(self._hear, self._ended)
        spark.streams.addListener(self._listener)

    # --- what a job calls ------------------------------------------------------------------

    def gate(
        self,
        stream: DataFrame,
        *,
        query: str | Column,
        source: str | Column = "source",
        strata: str | Column | Sequence[str | Column] = (),
        id: str | Column | Sequence[str | Column] | None = None,
        max_strata: int = 10_000,
        concept: Concept | None = None,
    ) -> DataFrame:
        """The stream with tuples shed as the plan says, and the rest stamped.

        ``query`` and ``source`` are a name, or a column of names. ``strata`` are columns by whose
        values tuples are counted and decided apart. ``id`` are columns that tell tuples apart
        (partition and offset, say); without them all columns do. With a ``concept`` the strata
        are the groups of the query's windows, of which none may disappear.
        """
        columns = arguments.names_of(stream)
        keys = Keys(
            query=arguments.named("query", query),
            source=arguments.named("source", source),
            strata=arguments.columns("strata", strata, columns),
            identity=arguments.columns("id", columns if id is None else id, columns),
        )
        name = f"penstock_gate_{next(_gate_numbers)}"
        agreed = concept or self.settings.concepts.get(keys.rest.query)
        most = arguments.strata_limit(max_strata)
        windows = None if agreed is None else arguments.concept(agreed, stream)
        gate = Gate(name, keys, most, windows)
        if concept is not None:
            self.settings = self.settings.with_concept(arguments.name(query), concept)
        self._gates[gate.name] = gate
        wire = Wire(self.spark, lambda: self._next_shipment(gate))
        wire.publish(gate.shipment(self.plan, counting=True))
        self._streams[gate.name] = gate.admit(stream, wire)
        return self._streams[gate.name]

    def guard(
        self,
        stream: DataFrame,
        function: Function,
        *,
        key: str | Column | Sequence[str | Column],
        latency: float | str,
        output: str = "result double",
        arrival: str | Column | None = None,
        inputs: Sequence[str] = (),
        on_error: OnError = "fail",
    ) -> DataFrame:
        """The stream with ``function`` applied to each tuple, shed in front of it where tuples
        would otherwise wait for longer than ``latency`` on average.

        The function gets a dictionary of the columns ``inputs`` (all, unless told) and answers the
        value of the column ``output``. What it costs is learnt by ``key``. A tuple waits from its
        ``arrival``, a timestamp, or else from when its task began. Where the function raises, the
        query fails, or, with ``on_error="skip"``, the tuple is left out and counted.
        """
        return self._guards.add(
            stream,
            function,
            arguments.gates_before(stream, self._gates.values()),
            key=key,
            latency=latency,
            output=output,
            arrival=arrival,
            inputs=inputs,
            on_error=on_error,
        )

    def start(
        self,
        writer: DataStreamWriter,
        *,
        query: str | None = None,
        interval: float | str | None = None,
        checkpoint: str | Path | None = None,
    ) -> StreamingQuery:
        """Starts a query whose stream went through a gate of this site.

        ``checkpoint`` sets the option "checkpointLocation". Given here, and with a site that has
        a directory, a batch that Spark committed just before a crash, and whose ledger entry was
        lost, is counted again, so that the ledger is whole (see ``recount``).
        """
        name = query or f"query-{len(self._jobs)}"
        with self._lock:
            old = self._jobs.get(name)
            if old is not None and old.runs:
                raise PenstockError(
                    f"a query of the name {name!r} is running: give start(query=...) another name"
                )
            self._jobs.pop(name, None)
            taken = [gate for job in self._jobs.values() if job.runs for gate in job.gates]
            gates = arguments.gates_of(writer, self._gates.values(), taken)
            period = self.settings.interval
            if interval is not None:
                period = arguments.duration("interval", interval)
                if wrong := check_timing(period, self.settings.latency, None):
                    raise PenstockError(f"{name}: {wrong[0]}: {wrong[1]}")
                intervals = {**self.settings.intervals, name: period}
                self.settings = replace(self.settings, intervals=intervals)
            guards = self._guards.of(arguments.frame_of(writer))
            self._jobs[name] = job = SparkJob(name, gates, guards)
        try:
            if checkpoint is not None:
                writer = writer.option("checkpointLocation", str(checkpoint))
                self._recovery.catch_up(job, writer, str(checkpoint), self._streams)
            trigger = f"{round(period * 1000)} milliseconds"
            job.query = writer.queryName(name).trigger(processingTime=trigger).start()
        except Exception:
            del self._jobs[name]
            raise
        finally:
            job.started.set()
        return job.query

    def stop(self) -> None:
        """Stops the queries that this site started, and closes the books."""
        for job in list(self._jobs.values()):
            if job.query is not None and job.query.isActive:
                job.query.stop()
        self._hear()
        self.spark.streams.removeListener(self._listener)
        self._guards.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- what people read ------------------------------------------------------------------

    def sic(self) -> dict[str, float]:
        """Each query's SIC over the last STW."""
        with self._lock:
            account = self._state.account
            return {} if account is None else account.slide(time.time()).sic()

    def report(self) -> dict[str, Any]:
        """Arrivals, sheds, SIC and latency of every query; see the design for the format."""
        self._hear()
        with self._lock:
            report = self._books.report(self._jobs, self.ledger, self.settings, self._state)
            guards = [guard.report() for guard in self._guards]
            return {**report, "guards": guards} if guards else report

    # --- the loop ----------------------------------------------------------------------------

    def _next_shipment(self, gate: Gate) -> Shipment:
        """Called while a micro-batch is being planned; must answer whatever happens."""
        if (again := self._recovery.recounting(gate)) is not None:
            return again
        job = next((job for job in list(self._jobs.values()) if gate in job.gates), None)
        if job is None:  # started without us: nothing to compare it with
            return gate.shipment(Plan(), counting=True)
        job.started.wait(START_SECONDS)
        with self._lock:
            try:
                self._step(job)
                return self._recovery.decided_before(job, gate) or self._shipped(job, gate)
            except PenstockError:
                raise  # the user's policy is wrong, and must hear of it
            except Exception:
                log.exception("no new plan for %s; the old one stays in force", job.name)
                return gate.shipment(self.plan, counting=True)

    def _step(self, job: SparkJob) -> None:
        """A new plan, once for each batch."""
        fresh = job.planned < 0
        outlook = job.outlook(self.settings.interval_of(job.name))
        if outlook is None:
            return
        self._hear()
        if fresh and job.query is not None:
            self._begin(job, str(job.query.id))
        report = Report(
            now=time.time(),
            finished=tuple(self._heard),
            starting=outlook,
            gone=tuple(self._gone),
        )
        controller = self._controller.with_settings(self.settings)
        self._state, self.plan = controller.step(self._state, report)
        self._heard.clear()
        self._gone.clear()
        if self._state.account is not None:
            self._books.sample(self._state.account.sic())
        self._memory.remember("state", self._state)

    def _begin(self, job: SparkJob, query: str) -> None:
        """A query's first batch since it was started."""
        self.ledger.open(job.name, query, job.planned)
        known = self._state.streams.get(job.name)
        if known is not None and known.batch >= job.planned:  # of another checkpoint
            streams = {**self._state.streams, job.name: replace(known, batch=job.planned - 1)}
            self._state = replace(self._state, streams=streams)
        self._recovery.begin(job, query)

    def _shipped(self, job: SparkJob, gate: Gate) -> Shipment:
        """The plan in this gate's terms; written down before the batch runs."""
        shipment = gate.shipment(self.plan, job.counted)
        self._recovery.write_down(job, gate, shipment)
        return shipment

    def _hear(self) -> None:
        """Collects what finished since it was last asked."""
        with self._lock:
            alone = sum(job.runs for job in self._jobs.values()) <= 1
            for job in self._jobs.values():
                try:
                    told = job.finished(alone)
                except Exception:
                    log.exception("cannot read the progress of %s", job.name)
                    continue
                if told is None:
                    continue
                progress, batch = told[0], self._guards.corrected(told[1], job.guards)
                self._heard.append(batch)
                self.recent.append(batch)
                for number, gate in enumerate(job.gates):
                    metrics = progress.observed[gate.name]
                    self.ledger.note(job.name, progress.query, progress.batch, number, metrics)
                self._books.note(batch)

    def _ended(self, run: str) -> None:
        """A query stopped or failed: its share goes to the others."""
        with self._lock:
            for name, job in list(self._jobs.items()):
                if job.query is not None and str(job.query.runId) == run:
                    self._hear()
                    self._gone.append(name)

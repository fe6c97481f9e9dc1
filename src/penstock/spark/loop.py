"""The loop of a site: observe, estimate and allocate, publish; once for each micro-batch.

It has no thread of its own. Whenever Spark plans a micro-batch, the gate's part in the query asks
here for a plan (``Loop.plan``): the loop tells the controller what finished and what is about to
start, and answers the plan in the gate's terms. A query behind a gate is taken in when it begins,
however it was started.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.core.controller import Controller
from penstock.core.declared import DeclaredSources
from penstock.core.settings import USUAL_SETTLE_SECONDS, QueryTerms, Settings, check_timing
from penstock.core.state import State
from penstock.core.types import Batch, Plan, Report
from penstock.errors import PenstockError
from penstock.metrics.site_meter import Meter, NoMeter
from penstock.spark.elsewhere import Elsewhere
from penstock.spark.fan_out import ResultNames
from penstock.spark.free_gates import check_free
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.wire import Shipment, refusal
from penstock.spark.guards import Guards
from penstock.spark.losses import Losses, gates_in_front
from penstock.spark.progress import Progress
from penstock.spark.query import SparkQuery
from penstock.spark.record.ledger import Ledger
from penstock.spark.record.past_batches import PastBatch, PastBatches, those_that_shed
from penstock.spark.record.recovery import Recovery
from penstock.spark.record.saved_state import SavedState
from penstock.spark.record.sic_accounts import SicAccounts
from penstock.spark.record.totals import Totals
from penstock.spark.rehearsal import PLAN as REHEARSED
from penstock.spark.rehearsal import Rehearsal
from penstock.spark.site_engine import SiteEngine
from penstock.spark.site_report import SiteReport
from penstock.spark.stream_state import Trigger
from penstock.spark.watching import Watching
from penstock.windows.concept import Concept

log = logging.getLogger("penstock")
RECENT_BATCHES = 32
"""Batches that are kept to look at; with thousands of strata one has a megabyte."""
REFUSED_TRIGGERS = {
    "continuous": "a continuous trigger has no micro-batches, and a gate is told once for each of "
    "them what to admit; use trigger(processingTime='1 second')",
    "real-time": "in real-time mode a batch lasts for minutes, and a gate is told once for each "
    "batch what to admit; use trigger(processingTime='1 second')",
}
"""Kinds of triggers that no gate can work with, and why."""


class Loop:
    """Runs one site: its gates ask here, and what their queries did is counted here."""

    def __init__(
        self,
        engine: SiteEngine,
        settings: Settings,
        saved: SavedState,
        guards: Guards,
        controller: Callable[[Settings], Controller],
        watching: Watching | None = None,
        rehearsal: Rehearsal | None = None,
        meter: Meter | None = None,
        settle_within: float = USUAL_SETTLE_SECONDS,
    ) -> None:
        self.settings = settings
        self.ledger = Ledger(saved.directory and saved.directory / "ledger.jsonl")
        self.plan_in_force = Plan()
        self.recent: deque[Batch] = deque(maxlen=RECENT_BATCHES)
        self.gates: dict[str, Gate] = {}
        self.streams: dict[str, SparkQuery] = {}
        """By name; those that have stopped stay, for the report."""
        self._engine, self._saved, self._guards = engine, saved, guards
        self._controller, self._watching = controller, watching
        self.state = saved.recall("state", State) or State()
        self._frames: dict[str, DataFrame] = {}
        self._finished: list[Batch] = []
        self._gone: list[str] = []
        self._totals = Totals()
        self.elsewhere = Elsewhere()
        """What it knows of its queries at other sites."""
        self._sic = SicAccounts(self.elsewhere)
        self._past = PastBatches(saved.directory, 0.0 if watching else settle_within)
        self._recovery = Recovery(engine, saved, self.ledger, self._past)
        self._rehearsal = rehearsal or Rehearsal(engine)
        self._meter = meter or NoMeter()
        self._lock = threading.RLock()
        self._closed = False
        self._on_one_machine = engine.on_one_machine
        self._may_count_twice = not self._on_one_machine and not engine.counts_once()
        self._close = engine.listen(self)

    # --- what a site asks ---------------------------------------------------------------------

    def add(self, gate: Gate, frame: DataFrame) -> None:
        """A gate, and the stream behind it."""
        with self._lock:
            if self._closed:
                raise PenstockError("this site was stopped: make another site, and gate with that")
            self.gates[gate.name], self._frames[gate.name] = gate, frame
        self._engine.answer_for(gate.name, self)

    def gates_in(self, thing: DataFrame | StreamingQuery) -> list[Gate]:
        """The gates of this site that a stream or a query goes through."""
        names = self._engine.names_in(thing)
        return [gate for gate in self.gates.values() if gate.name in names]

    def running(self) -> list[SparkQuery]:
        return [stream for stream in list(self.streams.values()) if stream.runs]

    def sic(self) -> dict[str, float]:
        """Each query's SIC at its result, over the STW that ends now."""
        self._engine.catch_up()
        return self._sic_now()

    def _sic_now(self) -> dict[str, float]:
        with self._lock:
            known = self._sic.at_results(time.time(), self.settings.sources)
            return self._sic.silent(self.streams.values()) | known

    def report(self) -> SiteReport:
        self._engine.catch_up()
        self.hear()
        with self._lock:
            guards = [guard.report() for guard in self._guards]
            return self._totals.report(
                self.streams,
                self.ledger,
                self.settings,
                self.state,
                guards,
                self._sic_now(),
                self._watching,
            )

    def close(self) -> None:
        """Counts what finished last, and answers no gate any more."""
        with self._lock:
            self._closed = True
        for gate in self.gates:
            self._engine.forget(gate)
        self.hear()
        self._close()
        self._saved.close()

    # --- what the JVM asks and tells -------------------------------------------------------------

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        """The gate's plan for a batch; the JVM asks while it plans the batch."""
        mine = self.gates[gate]
        try:
            return mine.wire.encode(self._shipment(mine, query, run, batch), run)
        except PenstockError as error:  # the user must hear of it: the query fails with it
            return refusal(str(error))
        except Exception as error:
            log.exception("no plan for the gate %s", gate)
            return refusal(f"Penstock has no plan for this query: {error!r}")

    def started(self, query: str) -> None:
        """A query begins: if it is behind a gate of this site, it is taken in."""
        if self._recovery.is_recounting:
            return
        try:
            found = self._engine.find(query)
            if self._rehearsal.is_one(found) or not self.gates_in(found):
                return
            if not self.running() and not self._guards.of(found):
                self._rehearsal.run(found)  # without the lock: it asks for plans, too
            with self._lock:
                self._take_in(found)
        except PenstockError as error:
            log.debug("%s: %s", query, error)  # its first batch fails with it

    def progressed(self) -> None:
        """A batch has finished: it is counted."""
        self.hear()

    def ended(self, run: str) -> None:
        """A query stopped or failed: its share goes to the others."""
        with self._lock:
            for gate in self.gates.values():
                gate.wire.forget(run)
            for stream in self.streams.values():
                if stream.run == run:
                    self.hear()
                    self._gone.append(stream.name)
                    self._declare_sources()

    # --- a batch that is about to run -------------------------------------------------------------

    def _shipment(self, gate: Gate, query: str, run: str, batch: int) -> Shipment:
        again = self._recovery.recounting(gate)
        if again is not None and self._stream(run, query) is None:
            return again
        with self._lock:
            if not query and batch < 0:  # a user asks Spark to explain a plan, say
                return gate.codec.encode(self.plan_in_force, counting=True)
            stream = self._stream(run, query)
            if stream is None:
                found = self._engine.find(query)
                if self._rehearsal.is_one(found):
                    return gate.codec.encode(REHEARSED, counting=True)
                stream = self._take_in(found)
            began = time.perf_counter()
            try:
                self._step(stream, batch)
                decided = self._recovery.decided_before(stream, gate)
                shipment = decided or self._written_down(stream, gate)
                self._measure_plan(stream, time.perf_counter() - began)
                return shipment
            except PenstockError:
                raise  # the user's policy is wrong, say, and the user must hear of it
            except Exception:
                log.exception("no new plan for %s; the old one stays in force", stream.name)
                return self._written_down(stream, gate)

    def _stream(self, run: str, query: str) -> SparkQuery | None:
        """The query by its run, or by its id: Spark names the run by a job group, which a program
        may set to something else in ``foreachBatch``.
        """
        streams = self.streams.values()
        by_run = next((stream for stream in streams if stream.run == run), None)
        return by_run or next((s for s in streams if s.id == query and s.runs), None)

    def _take_in(self, query: StreamingQuery) -> SparkQuery:
        """A run of a query that is new here; refused where it cannot be controlled."""
        self.hear()  # the last batch of a run that this one may replace
        gates = self.gates_in(query)
        self.check_free(gates)
        name = self._name_of(query, gates)
        trigger = self.check_trigger(query)
        if trigger.seconds and trigger.seconds != self.settings.interval_of(name):
            self.set_interval(name, trigger.seconds)
        guards = self._guards.of(query)
        if any(guard in other.guards for guard in guards for other in self.running()):
            raise PenstockError(
                "this guard belongs to another query already; call site.guard(...) for each result"
            )
        stream = SparkQuery(name, query, gates, guards, self._engine, trigger.seconds)
        stream.names = self._names_for(name, gates)
        below = self._engine.names_below(query) if len(gates) > 1 else {}
        stream.losses = Losses(self._engine.copies_in(query), gates_in_front(below, gates))
        try:
            stream.whole_rows.span = self._engine.row_seconds(query)
        except PenstockError as error:  # rows then have no end that is known
            log.warning("%s: once something was shed, no row says to be whole: %s", name, error)
        self._engine.put_behind((gate.name for gate in gates), stream.id)
        self.streams[name] = stream
        self._declare_sources()
        self._gone = [gone for gone in self._gone if gone != name]  # what it learnt stays
        self._recovery.begin(stream, self._frames)
        if len(self.running()) > 1:
            self._engine.time_tasks()
        return stream

    def check_free(self, gates: list[Gate]) -> None:
        """Refuses gates, or names of queries, that another running query has."""
        check_free(gates, self.running())

    def _names_for(self, stream: str, gates: list[Gate]) -> ResultNames:
        """Says how a result's sources are told from those of other results behind its gates."""
        others = [each for each in self.running() if each.name != stream]
        shared = any(gate in other.gates for gate in gates for other in others)
        return ResultNames(stream if shared else "")

    def check_trigger(self, thing: StreamingQuery | DataStreamWriter) -> Trigger:
        """The trigger of a query, or of what a writer will start, if a gate can work with it."""
        trigger = self._engine.trigger(thing)
        if trigger.kind in REFUSED_TRIGGERS:
            raise PenstockError(f"trigger: {REFUSED_TRIGGERS[trigger.kind]}")
        return trigger

    def set_interval(self, stream: str, seconds: float) -> None:
        """From now on this Spark query starts a batch every so many seconds."""
        if wrong := check_timing(seconds, self.settings.latency, None):
            raise PenstockError(f"{stream}: {wrong[0]}: {wrong[1]}")
        with self._lock:
            intervals = {**self.settings.intervals, stream: seconds}
            self.settings = replace(self.settings, intervals=intervals)

    def set_latency(self, seconds: float) -> None:
        """From now on this is the latency that is held."""
        for stream in (None, *self.streams):
            interval = (
                self.settings.interval if stream is None else self.settings.interval_of(stream)
            )
            if wrong := check_timing(interval, seconds, None):
                raise PenstockError(": ".join(wrong))
        with self._lock:
            self.settings = replace(self.settings, latency=seconds)

    def set_terms(self, query: str, terms: QueryTerms) -> None:
        """From now on this query has these terms."""
        with self._lock:
            self.settings = replace(self.settings, terms={**self.settings.terms, query: terms})

    def set_concept(self, query: str, concept: Concept) -> None:
        """From now on the groups of this query's windows are promised a share."""
        with self._lock:
            self.settings = self.settings.with_concept(query, concept)

    def _name_of(self, query: StreamingQuery, gates: list[Gate]) -> str:
        """Its own, or that of its THEMIS query, or its id: the same after a restart."""
        own = {gate.keys.query for gate in gates if isinstance(gate.keys.query, str)}
        if not query.name and (known := self._known_as(str(query.id))):
            return known
        name = query.name or (own.pop() if len(own) == 1 else str(query.id))
        taken = self.streams.get(name)
        return f"{name}-{query.id}" if taken is not None and taken.runs else name

    def _known_as(self, query: str) -> str | None:
        """What a query without a name was called when it ran before, if it did."""
        here = (stream.name for stream in self.streams.values() if stream.id == query)
        return next(here, None) or self._recovery.name_of(query)

    def _step(self, stream: SparkQuery, batch: int) -> None:
        """A new plan, once for each batch, whichever of its gates asks first."""
        fresh = stream.planned < 0
        upcoming = stream.upcoming(batch, self.settings.interval_of(stream.name))
        if upcoming is None:
            return
        self.hear()
        if not self._on_one_machine:
            self._count_cores()
            stream.executors = self._executors()
        if fresh:
            self._begin(stream)
        finished, self._finished = tuple(self._finished), []
        gone, self._gone = tuple(self._gone), []
        report = Report(
            time.time(), finished, upcoming, *self.elsewhere.news(self.state.account), gone
        )
        controller = self._controller(self.settings)
        step = controller.step if self._watching is None else self._watching.steps(controller)
        self.state, self.plan_in_force = step(self.state, report)
        self._saved.remember_soon("state", self.state)
        self._totals.sample(  # a query of which nothing comes has no results to be judged
            self._sic.at_results(report.now, self.settings.sources),
            self._sic.at_gates(report.now, self.settings.sources),
        )

    def _executors(self) -> frozenset[str]:
        """Those that are there now, where Spark counts twice what a lost one had done."""
        return self._engine.executors() if self._may_count_twice else frozenset()

    def _count_cores(self) -> None:
        """Executors come after the driver has begun, and go when a machine dies."""
        cores = self._engine.cores
        if cores != self.settings.cores:
            self.settings = replace(self.settings, cores=float(cores))
            self._guards.run_on(cores)

    def _declare_sources(self) -> None:
        """Tells the controller which sources queries have.

        Of a query with a single one there is nothing to tell: where that is silent, the query has
        nothing that waits. A result that has had no batch yet, or that has one less often than
        twice an STW, is not silent.
        """
        found: dict[str, DeclaredSources] = {}
        for stream, gate in ((s, gate) for s in self.running() for gate in s.gates):
            seldom = self.settings.interval_of(stream.name) > self.settings.stw_seconds / 2
            if stream.last_batch < 0 or seldom:
                continue
            query, declared = gate.keys.others.query, stream.names.declared(gate.declared)
            found[query] = found.get(query, DeclaredSources()) + declared
        sources = {query: declared for query, declared in found.items() if len(declared) > 1}
        self.settings = replace(self.settings, sources=sources)

    def _begin(self, stream: SparkQuery) -> None:
        """A query's first batch since it was started."""
        self.ledger.open(stream.name, stream.id, stream.planned, len(stream.gates))
        self._recovery.tell_of_gap(stream)
        known = self.state.streams.get(stream.name)
        if known is not None and known.batch >= stream.planned:  # of another checkpoint
            streams = {**self.state.streams, stream.name: replace(known, batch=stream.planned - 1)}
            self.state = replace(self.state, streams=streams)

    def _written_down(self, stream: SparkQuery, gate: Gate) -> Shipment:
        """The plan in this gate's terms, written down before the batch runs."""
        plan = stream.names.plan(self.plan_in_force)
        sheds = any(each.codec.sheds(plan) for each in stream.gates)
        stream.whole_rows.plan(stream.planned, sheds=sheds)
        shipment = replace(
            gate.codec.encode(plan, counting=stream.counted),
            whole_rows=stream.whole_rows.may_be_whole,
        )
        self._recovery.write_down(stream, gate, shipment)
        return shipment

    # --- batches that have finished ---------------------------------------------------------------

    def hear(self) -> None:
        """Counts what finished since it was last asked: the ledger first, then what is learnt."""
        with self._lock:
            alone = len(self.running()) <= 1
            for stream in self.streams.values():
                try:
                    self._count(stream, alone)
                except Exception:
                    log.exception("cannot read the progress of %s", stream.name)

    def _measure_batch(self, stream: SparkQuery, gated: Batch) -> None:
        """Tells whoever measures the site of a batch; what goes wrong there harms nothing here."""
        latency = stream.latencies[-1]
        ages = () if latency.ages is None else latency.ages.tolist()
        try:
            self._meter.counted(gated, ages, latency.measured)
        except Exception:
            log.exception("batch %d of %s is not in the metrics", gated.number, stream.name)

    def _measure_plan(self, stream: SparkQuery, seconds: float) -> None:
        """Tells how long a batch waited for its plan."""
        try:
            self._meter.planned(stream.name, seconds)
        except Exception:
            log.exception("a plan of %s is not in the metrics", stream.name)

    def _note_past(self, stream: SparkQuery, progress: Progress, *, timed: bool) -> None:
        """Writes down what it takes to settle a batch, before the ledger has it.

        Of one that was passed over Spark saw no tuple, so that its times are not known.
        """
        if any(gate.of_fragment for gate in stream.gates):
            return  # what came over a link is not there for long
        try:
            counted = {i: progress.observed[gate.name] for i, gate in enumerate(stream.gates)}
            past = PastBatch(
                batch=progress.batch,
                began=progress.started,
                offsets=tuple((source.start, source.end) for source in progress.sources),
                timed=timed,
                oldest=progress.oldest if timed else None,
                newest=progress.newest if timed else None,
                watermark=progress.watermark if timed else None,
                plans=those_that_shed(self._recovery.plans_of(stream, progress.batch), counted),
            )
            self._past.note(progress.query, past)
        except Exception:  # the ledger must have it all the same
            log.exception("batch %d of %s cannot be settled later", progress.batch, stream.name)

    def _count(self, stream: SparkQuery, alone: bool) -> None:
        progress = stream.unread()
        if progress is None:
            return
        passed_over = self._recovery.was_passed_over(stream, progress)
        if passed_over or stream.executors - self._executors():
            progress = self._recovery.counted_once(stream, progress, self._frames)
        self._note_past(stream, progress, timed=not passed_over)
        for number, gate in enumerate(stream.gates):
            metrics = progress.observed[gate.name]
            self.ledger.note(stream.name, progress.query, progress.batch, number, metrics)
        is_first = stream.last_batch < 0
        gated = stream.take(progress, alone)
        if is_first:
            self._declare_sources()
        guarded = self._guards.corrected(gated, stream.guards)
        reached, in_time, lost = stream.losses.after(gated, guarded, progress)
        gated = stream.names.batch(gated)
        guarded = stream.names.batch(replace(guarded, in_time=in_time))
        reached = stream.names.tally(reached)
        came = max(progress.started, time.time() - self.settings.stw_seconds / 2)
        self._sic.record(came, gated.counts, reached, self.settings)
        stream.whole_rows.tell(progress, shed=lost.guards > 0 or gated.admitted < gated.arrived)
        if any(lost):
            self.ledger.note_losses(stream.name, progress.query, progress.batch, lost._asdict())
        self._totals.add(gated, lost)
        self._measure_batch(stream, gated)
        self.recent.append(guarded)
        if self._watching is None:
            self._finished.append(guarded)
        else:  # at once: a job that is far behind plans its next batch late
            controller = self._controller(self.settings)
            self.state = self._watching.replay(controller, self.state, guarded, time.time())

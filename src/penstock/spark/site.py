"""A site: one Spark application, its gates, and the loop that keeps it fresh."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock import policy as policies
from penstock.core.controller import Controller
from penstock.core.settings import USUAL_SETTLE_SECONDS, QueryTerms, Settings
from penstock.core.state import State
from penstock.core.types import Batch, Plan
from penstock.errors import PenstockError
from penstock.guard.admission import Function
from penstock.guard.checked_admission import WaitCheck, holding
from penstock.metrics.site_meter import Meter
from penstock.spark import arguments, guard_arguments
from penstock.spark.elsewhere import with_class
from penstock.spark.engines import engine_of
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys
from penstock.spark.guarded_stream import OnError
from penstock.spark.guards import Guards
from penstock.spark.loop import Loop
from penstock.spark.query import SparkQuery
from penstock.spark.record.ledger import Ledger
from penstock.spark.record.saved_state import SavedState
from penstock.spark.rehearsal import Rehearsal
from penstock.spark.site_metrics import SiteMetrics
from penstock.spark.site_page import opened
from penstock.spark.site_report import SiteReport
from penstock.spark.stream_state import Trigger
from penstock.spark.watching import Watching
from penstock.units import seconds
from penstock.windows.concept import Concept
from penstock.windows.in_force import ConceptWindows

_gate_numbers = count()
NO_TRIGGER = Trigger("processing", 0.0)
"""What a writer has that was told nothing: one batch follows the other."""
FOR_EVER_SECONDS = 1e9
"""A wait for which no guard sheds."""


def concept_controller(settings: Settings) -> Controller:
    """The controller of a site: the core's, with windows whose groups are promised a share."""
    return Controller(settings, windows=ConceptWindows())


class Site:
    """Shares one Spark application between its queries, and keeps their results fresh.

    A site makes gates and guards. A query whose stream went through one of its gates is the site's,
    however it was started: the site finds it when it begins.

    Parameters
    ----------
    spark
        A classic session on any master, or one of Spark Connect, where
        some things are refused with the reason.
    interval
        The time between the starts of two micro-batches, for queries that ``start`` starts and for
        those that have no trigger of their own: seconds, ``"1 second"`` or ``"500ms"``.
    latency
        The time from a tuple's arrival to its result that the site holds; two intervals unless
        told.
    stw
        The source time window over which SIC is accounted; ten intervals, or ten seconds if that is
        more, unless told.
    policy
        Which policy divides the site between queries: a name, or an object of your own with a
        method ``rates``; see ``penstock.policy``.
    terms
        For each query that is not like all others, its weight, floor or ceiling.
    headroom
        The share of a batch's time that is planned; the rest absorbs noise.
    directory
        Where the ledger and what was learnt survive a crash. Without one, nothing is written.
    watch
        Whether to shed nothing, and only to tell what would be shed: see ``would_shed`` and
        ``would_latency_ms`` in the report.
    rehearse
        Whether the first query of a Spark that has just started is tried for a moment before its
        stream begins, so that the stream does not wait for a cold JVM; ``start`` takes some
        seconds longer.
    controller
        What makes the controller of some settings, for experiments with another one.
    metrics
        A port of this machine, or an address and a port such as ``"0.0.0.0:9464"``, at which
        Prometheus finds the figures of the report; or an object that hears of every batch, see
        ``penstock.metrics.site_meter.Meter``.
    settle_within
        How long is kept what ``penstock settle`` needs of a batch, its offsets and its plan, where
        there is a ``directory``; 0 keeps nothing.
    dashboard
        A port of this machine, or an address and a port, at which a browser finds a page about the
        site; port 0 takes a free one, see ``dashboard_address``. Changes from the page need the
        token that the environment has as ``PENSTOCK_TOKEN``.

    Examples
    --------
    >>> import time
    >>> from penstock import Site, functions as sf
    >>> site = Site(spark, interval="100 milliseconds", latency="60 seconds")
    >>> source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    >>> counted = source.transform(site.gate, query="all", id="value").agg(sf.count("*").alias("n"))
    >>> query = counted.writeStream.format("noop").outputMode("complete").start()
    >>> while site.report().queries == ():
    ...     time.sleep(0.1)
    >>> site.report()["all"].shed
    0
    >>> site.stop()
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
        watch: bool = False,
        rehearse: bool = True,
        controller: Callable[[Settings], Controller] = concept_controller,
        metrics: int | str | Meter | None = None,
        dashboard: int | str | None = None,
        settle_within: float | str = USUAL_SETTLE_SECONDS,
    ) -> None:
        self.spark = spark
        self._engine = engine_of(spark)
        self._metrics = SiteMetrics(metrics)
        settings = Settings(
            interval=arguments.duration("interval", interval),
            latency=None if latency is None else arguments.duration("latency", latency),
            stw=None if stw is None else arguments.duration("stw", stw),
            policy=arguments.policy(policy),
            headroom=arguments.headroom(headroom),
            terms=arguments.terms(terms),
        )
        self._engine.install()
        self._engine.open()
        settings = replace(settings, cores=float(self._engine.cores))
        self.guards = Guards(self._engine)
        """The guards that it has made."""
        saved = SavedState(arguments.directory(directory))
        self._watching = Watching() if arguments.switch("watch", watch) else None
        self._loop = Loop(
            self._engine,
            settings,
            saved,
            self.guards,
            controller,
            self._watching,
            Rehearsal(self._engine, arguments.switch("rehearse", rehearse)),
            self._metrics.meter,
            seconds(settle_within, "settle_within"),
        )
        try:
            self._metrics.serve(self.report, lambda: self.settings)
            self._page = opened(self, dashboard)
        except PenstockError:
            self._metrics.close()
            self._loop.close()
            raise

    # --- what a program calls -----------------------------------------------------------------

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
        arrival: str | Column | None = None,
        sources: int | None = None,
        comes_and_goes: bool = False,
        of_sources: int | None = None,
        carries: str | Column | None = None,
    ) -> DataFrame:
        """The stream with tuples shed as the plan says, and the rest stamped.

        It fits ``DataFrame.transform``: ``raw.transform(site.gate, query="fares")``. Admitted
        tuples carry ``_weight`` and ``_sic``; keep these two columns up to the aggregates.

        Several Spark queries may be started from it: they are results of one query, which has one
        SIC, the mean over them, however many they are. The report counts what each of them reads.

        Parameters
        ----------
        stream
            A streaming DataFrame as it comes from its source, before it is parsed.
        query
            The name of the query that the tuples are for, or a column of names.
        source
            The name of the source, or a column of names. Sources of a query count alike.
        strata
            Columns by whose values tuples are counted and decided apart.
        id
            Columns that tell tuples apart, so that a retry decides alike. They are known for Kafka
            (topic, partition and offset) and for ``replay``; elsewhere all columns are taken unless
            told.
        max_strata
            How many strata are told apart at most; the others share one rate.
        concept
            Says that the strata are the groups of the query's windows, of which none may disappear.
        arrival
            The timestamp at which a tuple arrived, from which its latency is measured. It is known
            for Kafka (``timestamp``), for ``replay`` (``_arrival``) and for files (when they were
            written); elsewhere the latency is modelled unless told.
        sources
            How many sources there are, where ``source`` is a column. One that sends nothing for
            four fifths of an STW lowers the SIC by its share. Unless told, those count that send.
        comes_and_goes
            Says that a source with nothing to send is no loss: its silence leaves the SIC alone.
        of_sources
            How many sources the query has in all, where others are at other sites. The query's SIC
            at this site is then what the site gives to it.
        carries
            The column with the SIC that each tuple brings along, where they are partial results of
            other sites, and ``source`` names the link that they come by.
        """
        columns = arguments.names_of(stream)
        named = arguments.named("source", source)
        if carries is not None:
            (carried,) = arguments.columns("carries", carries, columns)
            named = with_class(named, carried)
        keys = Keys(
            query=arguments.named("query", query),
            source=named,
            strata=arguments.columns("strata", strata, columns),
            identity=arguments.identity(id, columns),
        )
        of_fragment = of_sources is not None or carries is not None
        declared = None if of_fragment else arguments.declared(source, sources, comes_and_goes)
        terms = concept or self.settings.concepts.get(keys.others.query)
        most = arguments.whole_number("max_strata", max_strata, "10_000")
        gate = Gate(
            self._engine.gate_name(next(_gate_numbers)),
            keys,
            most,
            None if terms is None else arguments.concept(terms, stream),
            arguments.arrival(stream, arrival, columns),
            declared,
            of_fragment,
        )
        self._learn_of_elsewhere(gate, of_sources, carries is not None)
        if concept is not None:
            self._loop.set_concept(arguments.name(query), concept)
        gated = gate.admit(stream)
        self._loop.add(gate, gated)
        return gated

    def _learn_of_elsewhere(self, gate: Gate, of_sources: int | None, is_link: bool) -> None:
        """Notes what a gate says of its query's fragments at other sites."""
        query, source = gate.keys.others.query, gate.keys.others.source
        if gate.of_fragment and not query:
            raise PenstockError(
                "query must be a name where of_sources or carries is given, such as 'fares'"
            )
        if is_link:
            self._loop.elsewhere.has_link(query)
        elif of_sources is not None:
            most = arguments.whole_number("of_sources", of_sources, "3")
            self._loop.elsewhere.has_sources(query, source, most)

    def guard(
        self,
        stream: DataFrame,
        function: Function,
        *,
        key: str | Column | Sequence[str | Column],
        wait: float | str,
        output: str = "result double",
        arrival: str | Column | None = None,
        inputs: Sequence[str] = (),
        on_error: OnError = "fail",
        check: WaitCheck = "average",
    ) -> DataFrame:
        """Returns the stream with ``function`` applied to each tuple.

        The guard sheds tuples before the function where they would otherwise wait for longer than
        ``wait`` on average. The function gets a dictionary of the columns ``inputs`` (all, unless
        told) and answers the value of the column ``output``. The guard learns its cost by ``key``.
        A tuple waits from its ``arrival``, a timestamp, or else from when its task began. Where the
        function raises, the query fails, or, with ``on_error="skip"``, the guard leaves the tuple
        out and counts it. The guard of a site that only watches lets tuples wait for however long.
        With ``check="absolute"`` no tuple waits for longer than ``wait``, and with "sliding" the
        last 4,096 that a task admitted do not on average.
        """
        self._engine.check_guards()
        return self.guards.add(
            stream,
            function,
            guard_arguments.gates_before(stream, self._loop.gates_in),
            key=key,
            wait=wait if self._watching is None else FOR_EVER_SECONDS,
            output=output,
            arrival=arrival,
            inputs=inputs,
            on_error=on_error,
            make=holding(check, on_error == "skip"),
        )

    def start(
        self,
        writer: DataStreamWriter,
        *,
        name: str | None = None,
        interval: float | str | None = None,
        checkpoint: str | Path | None = None,
    ) -> StreamingQuery:
        """Starts a query; one whose writer has no trigger gets the site's interval.

        A convenience: ``writer.start()`` does as well. Here mistakes are told before the query
        starts, and not when Spark plans its first batch.

        Parameters
        ----------
        writer
            A writer whose stream went through a gate of this site.
        name
            The name of the Spark query; the query that its gate names unless told.
        interval
            The trigger, where it differs from the site's.
        checkpoint
            Sets the option ``checkpointLocation``.
        """
        gates = arguments.gates_of(self._loop.gates_in(self._engine.frame_of(writer)))
        self._loop.check_free(gates)
        name = name or next((q for gate in gates if (q := gate.keys.others.query)), None)
        if name is not None and any(stream.name == name for stream in self._loop.running()):
            raise PenstockError(
                f"a query of the name {name!r} is running: give start(name=...) another name"
            )
        own = self._loop.check_trigger(writer)
        if interval is not None:
            period = arguments.duration("interval", interval)
            self._loop.set_interval(name or "query", period)
            writer = writer.trigger(processingTime=_milliseconds(period))
        elif own == NO_TRIGGER:
            writer = writer.trigger(processingTime=_milliseconds(self.settings.interval))
        if name is not None:
            writer = writer.queryName(name)
        if checkpoint is not None:
            writer = writer.option("checkpointLocation", str(checkpoint))
        return writer.start()

    def tell(self, query: str, sic: float, at: float) -> None:
        """Takes in what a query's coordinator says: its result SIC, and when that was true."""
        self._loop.elsewhere.tell(query, sic, at)

    def set_terms(self, query: str, terms: QueryTerms) -> None:
        """Gives a query another weight, floor or ceiling, from its next batch on."""
        self._loop.set_terms(query, terms)

    def set_latency(self, latency: float | str) -> None:
        """Holds another latency, from the next batch of each query on."""
        self._loop.set_latency(arguments.duration("latency", latency))

    def stop(self) -> None:
        """Stops the queries behind this site's gates, and closes the ledger."""
        mine = [query for query in self.spark.streams.active if self._loop.gates_in(query)]
        for query in mine:
            query.stop()
        if self._page is not None:
            self._page.close()
        self._metrics.close()
        self._loop.close()
        self.guards.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- what people read ---------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """What the site was asked for."""
        return self._loop.settings

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._loop.plan_in_force

    @property
    def gates(self) -> Mapping[str, Gate]:
        """The gates that it has made, by the names under which Spark observes them."""
        return self._loop.gates

    @property
    def metrics_address(self) -> str | None:
        """Where Prometheus finds the figures of the report, until the site is stopped."""
        return self._metrics.address

    @property
    def dashboard_address(self) -> str | None:
        """Where a browser finds the page about the site, until the site is stopped."""
        return None if self._page is None else self._page.address

    @property
    def state(self) -> State:
        """What the controller has learnt."""
        return self._loop.state

    @property
    def ledger(self) -> Ledger:
        """The account of every batch."""
        self._engine.catch_up()
        return self._loop.ledger

    @property
    def streams(self) -> Mapping[str, SparkQuery]:
        """The Spark queries behind its gates, by name; those that have stopped stay."""
        return self._loop.streams

    @property
    def recent(self) -> deque[Batch]:
        """The last batches of all queries, as they were counted."""
        return self._loop.recent

    def sic(self) -> dict[str, float]:
        """Each query's SIC over the last STW."""
        return self._loop.sic()

    def report(self) -> SiteReport:
        """Arrivals, sheds, SIC and latency of every query."""
        return self._loop.report()


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)} milliseconds"

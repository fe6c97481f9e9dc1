"""The only file that knows Spark's private parts.

Everything that reaches for the JVM or an undocumented module of PySpark is a method here: one for
each question, with a contract test for each in ``tests/spark/test_engine.py``. What breaks with the
next Spark breaks here first, and says so in one sentence. Four more places lean on what Spark does
not promise, and have tests of their own: the local properties that ``jvm/`` reads, what its class
``QueryParts`` asks a query for a client of Spark Connect, the checkpoint's offset log
(``record.recount``), and what the optimizer folds (``gate.wire``, ``gate.columns``).

How a plan reaches a running query is public: the functions of a catalog (``jvm/``, and
``penstock.spark.gate.wire``). What is private is named at each method below.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, cast

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.errors import PenstockError
from penstock.spark.asking import asks
from penstock.spark.callbacks import Callbacks, JavaCallbacks
from penstock.spark.progress import STATEFUL_OPERATORS
from penstock.spark.row_span import nodes, row_seconds
from penstock.spark.spark_files import Files
from penstock.spark.stream_state import (
    FilesRead,
    ReadLimit,
    SourceState,
    Trigger,
    read_limit_of,
    trigger_of,
)

CATALOG = "penstock"
"""The catalog of this name is taken in a session that has a site."""
CATALOG_CLASS = "io.penstock.PlanCatalog"
JAR = Path(__file__).with_name("penstock.jar")
SOURCES = tuple(JAR.parents[3].glob("jvm/io/penstock/*.java"))
"""What the jar is made of, in a checkout; an installation has none."""
LAST_ATTEMPTS = "org.apache.spark.sql.execution.LastAttemptAggregatingAccumulator"
"""The class with which Spark counts a task that ran again once (SPARK-58183)."""
JVM_EXIT_SECONDS = 20.0
"""How long a JVM may take to end before it is killed."""

_installed: dict[str, str] = {}
"""Of each Spark application, the jar that it was given."""


def checked_jar() -> Path:
    """Answers where the jar is; raises where it is missing, or older than what it is made of."""
    if not JAR.exists():
        raise PenstockError(
            f"{JAR.name} is missing from this installation of Penstock: install its wheel, or "
            "build it from a checkout with: make setup"
        )
    if any(source.stat().st_mtime > JAR.stat().st_mtime for source in SOURCES):
        raise PenstockError(
            f"{JAR.name} is older than the sources in jvm/ that it is made of: build it anew "
            "with: make setup"
        )
    return JAR


class Engine:
    """Questions to the Spark of one session."""

    def __init__(self, spark: SparkSession) -> None:
        try:
            context: Any = spark.sparkContext
        except Exception:
            raise PenstockError(
                "spark must be a classic SparkSession, such as SparkSession.builder.master(...) "
                "makes; got a Spark Connect session, whose driver is out of reach"
            ) from None
        self.spark = spark
        self._context = context
        self._jvm: Any = context._jvm
        self._session: Any = cast(Any, spark)._jsparkSession
        self._task_times: Any = None

    # --- where it runs ----------------------------------------------------------------------

    @property
    def on_one_machine(self) -> bool:
        """Whether tasks run in the driver's own process."""
        master = str(self._context.master)
        return master == "local" or master.startswith("local[")

    @property
    def cores(self) -> int:
        """How many tasks run at a time; on a cluster that changes as executors come and go."""
        return int(self._context.defaultParallelism)

    @asks("which executors there are")
    def executors(self) -> frozenset[str]:
        """The addresses of all executors, and that of the driver.

        Private: the context in the JVM, whose public listing is some moments late.
        """
        known = self._context._jsc.sc().getExecutorMemoryStatus()
        return frozenset(str(known.keySet().mkString(" ")).split())

    def counts_once(self) -> bool:
        """Whether what is observed in a task that is run again, since its executor was lost, counts
        once. It does from Spark 4.3 on. Private: how Spark calls that.
        """
        try:
            self._jvm.java.lang.Class.forName(LAST_ATTEMPTS)
        except Exception:  # ClassNotFoundException, as Python sees it
            return False
        return True

    def application(self) -> str:
        """What tells this run of Spark from any other."""
        return str(self._context.applicationId)

    def gate_name(self, number: int) -> str:
        """What a gate is called in the plans of queries."""
        return f"penstock_gate_{number}"

    def check_guards(self) -> None:
        """Guards work in every classic session."""

    # --- plans into queries -----------------------------------------------------------------

    @asks("how to add a jar")
    def install(self) -> None:
        """Makes the plan functions known to the session; quick where they are known already.

        Private: the gateway to the JVM, and its callback server.
        """
        checked_jar()
        start_callbacks: Any = java_gateway.ensure_callback_server_started
        start_callbacks(self._context._gateway)
        if _installed.get(self._context.applicationId) != JAR.as_uri():
            self.spark.sql(f"ADD JAR '{JAR.as_uri()}'")
            _installed[self._context.applicationId] = JAR.as_uri()
        self.spark.conf.set(f"spark.sql.catalog.{CATALOG}", CATALOG_CLASS)
        self._ours()  # whoever asks first loads the catalog, and other threads do not see its class
        self.spark.range(0).select(sf.expr(f"{CATALOG}.longs('', 'keys')"))

    def open(self) -> None:
        """A site begins: there is nothing to do."""

    @asks("who answers for a gate")
    def answer_for(self, gate: str, callbacks: Callbacks) -> None:
        """From now on the callbacks are asked for the plans of this gate."""
        self._ours().Plans.register(gate, JavaCallbacks(callbacks))

    @asks("which gates a query is behind")
    def put_behind(self, gates: Iterable[str], query: str) -> None:
        """From now on rows of the query with this id ask these gates whether they may be whole."""
        for gate in gates:
            self._ours().Plans.putBehind(gate, query)

    @asks("who answers for a gate")
    def forget(self, gate: str) -> None:
        """A query that still runs behind the gate fails at its next batch, and says why."""
        self._ours().Plans.forget(gate)

    def _ours(self) -> Any:
        """Returns the classes of our jar, for whatever thread asks.

        ``ADD JAR`` shows them to its own thread alone, and a site of a federation has others, that
        answer requests. Private: the class loader of the session.
        """
        loader = self._session.sharedState().jarClassLoader()
        self._jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
        return self._jvm.io.penstock

    @asks("what happens to its queries")
    def listen(self, callbacks: Callbacks) -> Callable[[], None]:
        """Has the callbacks told of batches and ends of queries; the answer ends that.

        Private: the session in the JVM.
        """
        listener = self._ours().SessionListener(JavaCallbacks(callbacks))
        streams = self._session.streams()
        streams.addListener(listener)
        return lambda: streams.removeListener(listener)

    def catch_up(self) -> None:
        """Returns at once: whoever asks for the last report gets it."""

    @asks("how long tasks run")
    def time_tasks(self) -> None:
        """Begins to note how long the tasks of each query run.

        Private: the context in the JVM. The listener itself is Spark's developer interface.
        """
        if self._task_times is None:
            self._task_times = self._ours().TaskTimes()
            self._context._jsc.sc().addSparkListener(self._task_times)

    def task_seconds(self, run: str) -> float | None:
        """The time for which a query's tasks ran since the last call; None where none has ended."""
        millis = -1 if self._task_times is None else int(self._task_times.take(run))
        return None if millis < 0 else millis / 1000

    # --- one streaming query ------------------------------------------------------------------

    def find(self, query: str) -> StreamingQuery:
        """The running query with this id."""
        found = self.spark.streams.get(query)
        if found is None:
            raise PenstockError(f"Spark runs no query with the id {query}")
        return found

    @asks("the progress of a query")
    def last_progress(self, query: StreamingQuery) -> tuple[int, Callable[[], str]] | None:
        """The number of the last trigger's batch, and what reads its report as JSON.

        Private: PySpark's own ``lastProgress`` takes the report apart field by field, which takes
        tens of milliseconds where there are thousands of strata.
        """
        told = cast(Any, query)._jsq.lastProgress()
        return None if told is None else (int(told.batchId()), lambda: str(told.json()))

    @asks("the offsets of a batch that is about to run")
    def sources(self, query: StreamingQuery) -> list[SourceState]:
        """How far each source of a query is, in the order in which its checkpoint has them.

        Private: Spark tells offsets in public only when the batch has run, and nothing of files.
        """
        return self.source_reader(query).read()

    @asks("the offsets of a batch that is about to run")
    def source_reader(self, query: StreamingQuery) -> "SourceReader":
        """What answers `sources` for this run, again and again."""
        return SourceReader(self._execution(query))

    @asks("how much a query may read in a batch")
    def read_limits(self, thing: DataFrame | StreamingQuery) -> list[ReadLimit | None]:
        """The read limit of each source, in the order in which the checkpoint has them.

        Private: the analysed plan.
        """
        return [read_limit_of(_options(source)) for source in self.sources_in(thing)]

    @asks("the trigger of a query")
    def trigger(self, thing: StreamingQuery | DataStreamWriter) -> Trigger:
        """When the batches of a query, or of what a writer will start, begin.

        Private: there is no public way. A writer that was told nothing has a trigger of 0 seconds.
        """
        if isinstance(thing, DataStreamWriter):
            trigger = _field(cast(Any, thing)._jwrite, "trigger")
        else:
            trigger = self._execution(thing).trigger()
        kind = str(trigger.getClass().getSimpleName())
        timed = kind == "ProcessingTimeTrigger"
        return trigger_of(kind, trigger.intervalMs() if timed else 0)

    @asks("how to start a query like another")
    def start_like(self, query: StreamingQuery, name: str, checkpoint: str) -> StreamingQuery:
        """Starts the same plan from the same sources once more, into nowhere.

        Private: the analysed plan, a frame of it, and the output mode.
        """
        of_rows = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows
        frame = DataFrame(of_rows(self._session, self._analysed(query)), self.spark)
        mode = str(self._execution(query).outputMode().toString()).lower()
        writer = frame.writeStream.queryName(name).format("noop").outputMode(mode)
        return writer.option("checkpointLocation", checkpoint).start()

    @asks("where a query begins to read")
    def begins_at_latest(self, query: StreamingQuery) -> bool:
        """Whether every source of a query that begins anew has only what comes from now on.

        Private: the analysed plan.
        """
        return all(_begins_at_latest(source) for source in self.sources_in(query))

    @asks("where a query's checkpoint is")
    def checkpoint_of(self, query: StreamingQuery) -> str:
        """Where the checkpoint is. Private: a user may have set it in any of three ways."""
        return str(self._execution(query).resolvedCheckpointRoot())

    def _execution(self, query: StreamingQuery) -> Any:
        return cast(Any, query)._jsq.streamingQuery()

    # --- plans of frames and queries ------------------------------------------------------------

    @asks("what a query is made of")
    def names_in(self, thing: DataFrame | StreamingQuery) -> set[str]:
        """Under which names the thing observes metrics, and which Python functions it calls.

        Private: the analysed plan.
        """
        names: set[str] = set()
        for node in nodes(self._analysed(thing)):
            if (name := _observed(node)) is not None:
                names.add(name)
            elif str(node.nodeName()) == "MapInArrow":
                names.add(str(node.functionExpr().name()))
        return names

    @asks("into how many windows a tuple goes")
    def copies_in(self, thing: DataFrame | StreamingQuery) -> dict[str, int]:
        """Into how many rows sliding windows copy a tuple, by the operator behind them.

        Private: the analysed plan. Where the length is no multiple of the slide, it is the most.
        """
        copies: dict[str, int] = {}
        for node in nodes(self._analysed(thing)):
            operator = STATEFUL_OPERATORS.get(str(node.nodeName()))
            if operator is not None:
                below = [n.projections().size() for n in nodes(node) if n.nodeName() == "Expand"]
                copies[operator] = max([copies.get(operator, 1), *below])
        return copies

    @asks("over which time a row reaches")
    def row_seconds(self, thing: DataFrame | StreamingQuery) -> float:
        """How much event time lies between a row's first tuple and its last, at most.

        0 where no row is made of several tuples, and infinite where nobody can say. Private: the
        analysed plan, and a query's output mode.
        """
        told_once = isinstance(thing, DataFrame) or (
            str(self._execution(thing).outputMode().toString()).lower() != "complete"
        )
        return row_seconds(self._analysed(thing), told_once=told_once)

    @asks("what is in front of its operators")
    def names_below(self, thing: DataFrame | StreamingQuery) -> dict[str, set[str]]:
        """What is observed below each observed metric and each kind of stateful operator."""
        below: dict[str, set[str]] = {}
        for node in nodes(self._analysed(thing)):
            if (
                name := _observed(node) or STATEFUL_OPERATORS.get(str(node.nodeName()))
            ) is not None:
                its = {found for each in nodes(node) if (found := _observed(each))}
                below.setdefault(name, set()).update(its)
        return below

    @asks("what a query reads")
    def sources_in(self, thing: DataFrame | StreamingQuery) -> list[Any]:
        """The streams that the thing reads, in the order in which its checkpoint has them.

        They are only good for being compared with ``equals``. Private: the analysed plan.
        """
        leaves = self._analysed(thing).collectLeaves()
        found: list[Any] = []
        for i in range(leaves.size()):
            leaf = leaves.apply(i)
            if leaf.isStreaming() and not any(leaf.equals(other) for other in found):
                found.append(leaf)
        return found

    @asks("whether a query can be streamed")
    def check_streamable(self, frame: DataFrame, mode: str) -> None:
        """Makes the checks that Spark makes when it starts a query. Private: the checker."""
        modes = self._jvm.org.apache.spark.sql.streaming.OutputMode
        checker = self._jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        checker.checkForStreaming(self._analysed(frame), getattr(modes, mode.capitalize())())

    def knows_format(self, name: str) -> bool:
        """Whether a data source of this name is installed. Private: the look-up."""
        lookup = self._jvm.org.apache.spark.sql.execution.datasources.DataSource
        try:
            lookup.lookupDataSource(name, self._session.sessionState().conf())
        except Exception:
            return False
        return True

    @asks("what is to be written")
    def frame_of(self, writer: DataStreamWriter) -> DataFrame:
        """The frame that a writer writes. Private: the writer keeps it to itself."""
        return cast(DataFrame, cast(Any, writer)._df)

    def _analysed(self, thing: DataFrame | StreamingQuery) -> Any:
        if isinstance(thing, DataFrame):
            return cast(Any, thing)._jdf.queryExecution().analyzed()
        return self._execution(thing).analyzedPlan()

    # --- files ------------------------------------------------------------------------------

    @asks("how to read a checkpoint")
    def files(self, location: str) -> Files:
        """The files below a place, on any file system that Spark can reach."""
        return Files(self._jvm, self._session.sessionState().newHadoopConf(), location)

    def recounts(self) -> bool:
        """Whether a batch can be counted again (``record.recount``)."""
        return True


def _observed(node: Any) -> str | None:
    return str(node.name()) if str(node.nodeName()) == "CollectMetrics" else None


def _field(thing: Any, name: str) -> Any:
    """A field that its class keeps to itself."""
    field = thing.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(thing)


class SourceReader:
    """Reads how far the sources of one run are, while Spark waits with a batch.

    Each question to the JVM takes a part of a millisecond, more where the machine is busy. So a run
    is asked only once for what stays as it is.
    """

    def __init__(self, execution: Any) -> None:
        self._execution = execution
        self._sources: list[tuple[Any, bool]] = []
        """Each once, and whether it reads files: a stream that is read twice is listed twice."""

    @asks("the offsets of a batch that is about to run")
    def read(self) -> list[SourceState]:
        """Returns the state of each source, in the order in which the checkpoint has them."""
        engine = self._execution
        told = engine.committedOffsets(), engine.availableOffsets(), engine.latestOffsets()
        if not self._sources:
            self._sources = _told_apart(engine.sources())
        states = []
        for source, of_files in self._sources:
            before, after, latest = (_offset_of(source, progress) for progress in told)
            files = _files_read(source, before) if of_files else None
            states.append(SourceState(before, after, latest, files))
        return states


def _told_apart(listed: Any) -> list[tuple[Any, bool]]:
    found: list[tuple[Any, bool]] = []
    for i in range(listed.size()):
        source = listed.apply(i)
        if not any(source.equals(other) for other, _ in found):
            found.append((source, source.getClass().getSimpleName() == "FileStreamSource"))
    return found


def _offset_of(source: Any, progress: Any) -> Any:
    """A source's offset in Spark's StreamProgress, read as JSON: an offset is written as that."""
    told = str(progress.get(source).toString())
    try:
        return json.loads(told.removeprefix("Some(").removesuffix(")"))
    except ValueError:
        return None  # also where it is "None"


def _files_read(source: Any, before: Any) -> FilesRead:
    """What a source of files has read, and which it has listed."""
    unread = _field(source, "unreadFiles")
    return FilesRead(
        seen=int(source.seenFiles().size()),
        unread=0 if unread is None else int(unread.size()),
        before=before is not None,
    )


def _options(source: Any) -> dict[str, str]:
    """The options of a streaming relation, by name in lower case."""
    if str(source.nodeName()) == "StreamingRelationV2":
        options = source.extraOptions().asCaseSensitiveMap()
        return {str(name).lower(): str(options[name]) for name in options}
    if not hasattr(source, "dataSource"):
        return {}
    found, options = {}, source.dataSource().options().iterator()
    while options.hasNext():
        pair = options.next()
        found[str(pair._1()).lower()] = str(pair._2())
    return found


def _begins_at_latest(source: Any) -> bool:
    """Known of Kafka, unless it is told where to start or shares a group, and of ``replay``."""
    if str(source.nodeName()) != "StreamingRelationV2":
        return False
    options, kind = _options(source), str(source.sourceName())
    if kind == "kafka":
        start = options.get("startingoffsets", "latest")
        return start == "latest" and "kafka.group.id" not in options
    return kind == "replay"


# --- the JVM of a command -----------------------------------------------------------------------


def launch(settings: Mapping[str, str]) -> SparkSession:
    """Starts Spark with a JVM that signals to this process and its group do not reach.

    The JVM ends when it is told to, or when this process is gone. Private: the gateway.
    """
    configuration = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    untyped: Any = java_gateway
    gateway = untyped.launch_gateway(configuration, popen_kwargs={"start_new_session": True})
    SparkContext(conf=configuration, gateway=gateway)
    return SparkSession.builder.getOrCreate()


def shut_down(exit_seconds: float = JVM_EXIT_SECONDS) -> None:
    """Stops Spark and its JVM, which would live on until Python exits, and write its files."""
    context: Any = SparkContext
    gateway, spark = context._gateway, SparkSession.getActiveSession()
    if gateway is None:  # it did not come up
        return
    with suppress(Exception):  # a JVM that has died already cannot be asked to stop
        if spark is not None:
            spark.stop()
    with suppress(Exception):
        gateway.shutdown()
    gateway.proc.stdin.close()  # it exits when it reads the end of its input
    try:
        gateway.proc.wait(timeout=exit_seconds)
    except TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    context._gateway = context._jvm = None

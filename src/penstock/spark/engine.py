"""The only file that knows Spark's private parts.

Everything that touches the JVM or an undocumented module of PySpark is a method here: one for each
question, with a contract test for each in ``tests/spark/test_engine.py``. What breaks with the next
Spark breaks here first, and says so in one sentence. Three more places lean on what Spark does not
promise, and have tests of their own: the local properties that ``jvm/`` reads, the checkpoint's
offset log (``record.recount``), and what the optimizer folds (``gate.wire``, ``gate.columns``).

How a plan reaches a running query is public: the functions of a catalog (``jvm/``, and
``penstock.spark.gate.wire``). What is private is named at each method below.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, ClassVar, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.errors import PenstockError

KNOWN_SPARKS = ("4.2", "4.3")
"""What the contract tests pass on; see ``make test`` and ``make oldest``."""
CATALOG = "penstock"
"""The catalog of this name is taken in a session that has a site."""
JAR = Path(__file__).with_name("penstock.jar")
TRIGGER_KINDS = {
    "OneTime": "once",
    "AvailableNow": "once",
    "Continuous": "continuous",
    "RealTime": "real-time",
}
"""Kinds of triggers by how the names of Spark's classes begin."""
ROW_LIMITS = ("maxOffsetsPerTrigger", "maxRowsPerTrigger")
READ_LIMITS = (*ROW_LIMITS, "maxFilesPerTrigger", "maxBytesPerTrigger")
"""Options of sources that bound what a batch reads; their names are not case-sensitive."""
JVM_EXIT_SECONDS = 20.0
"""How long a JVM may take to end before it is killed."""

_installed: dict[str, str] = {}
"""Of each Spark application, the jar that it was given."""

P = ParamSpec("P")
T = TypeVar("T")
Self_ = TypeVar("Self_")


class Trigger(NamedTuple):
    """When Spark starts the batches of a query."""

    kind: str
    """``"processing"``, ``"once"``, ``"continuous"`` or ``"real-time"``."""
    seconds: float = 0.0
    """Between the starts of two batches; 0 where one follows the other."""


class ReadLimit(NamedTuple):
    """How much a source may read in one batch, as the user has set it."""

    option: str
    """As Spark's documents spell it."""
    value: float

    @property
    def of_rows(self) -> bool:
        return self.option in ROW_LIMITS

    @property
    def of_files(self) -> bool:
        return self.option == "maxFilesPerTrigger"


class FilesRead(NamedTuple):
    """What Spark knows of a folder that a query reads."""

    seen: int
    """Files that it has read, or reads in the batch that is planned."""
    unread: int
    """Those that it has listed and not read."""
    before: bool
    """Whether some were read by an earlier batch."""


class SourceState(NamedTuple):
    """One source of a query while a batch is planned; offsets are the source's own."""

    before: Any
    """Up to where batches are committed; None before the first."""
    after: Any
    """Up to where this batch goes."""
    latest: Any
    """Up to where there is something to read; None where the source does not tell."""
    files: FilesRead | None = None
    """Where it reads a folder."""


class Callbacks(Protocol):
    """What the JVM calls in the driver's Python process."""

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        """The gate's plan for a micro-batch, encoded; ``batch`` is -1 outside of one."""

    def started(self, query: str) -> None:
        """A query of the session, with this id, is about to begin; Spark waits for the answer."""

    def progressed(self) -> None:
        """A query of the session has finished a micro-batch."""

    def ended(self, run: str) -> None:
        """A run of a query was stopped, or has failed."""


class _Driver:
    """The callbacks as a Java object."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        return self._callbacks.plan(gate, query, run, batch)

    def started(self, query: str) -> None:
        self._callbacks.started(query)

    def progressed(self) -> None:
        self._callbacks.progressed()

    def ended(self, run: str) -> None:
        self._callbacks.ended(run)

    class Java:
        implements: ClassVar[list[str]] = ["io.penstock.PlanDriver"]


def _asks(
    question: str,
) -> Callable[[Callable[Concatenate[Self_, P], T]], Callable[Concatenate[Self_, P], T]]:
    """Marks a method that asks Spark in private; a failure names the question and the Spark."""

    def marked(
        method: Callable[Concatenate[Self_, P], T],
    ) -> Callable[Concatenate[Self_, P], T]:
        @wraps(method)
        def asked(self: Self_, /, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return method(self, *args, **kwargs)
            except (PenstockError, PySparkException):
                raise
            except Exception as error:
                raise PenstockError(_unanswered(question, error)) from error

        return asked

    return marked


def _unanswered(question: str, error: Exception) -> str:
    from pyspark import __version__ as version

    known = " and ".join(KNOWN_SPARKS)
    reason = str(error).strip().partition("\n")[0]
    return (
        f"Penstock knows Spark {known}; this is {version}, which does not tell {question}: {reason}"
    )


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

    # --- plans into queries -----------------------------------------------------------------

    @_asks("how to add a jar")
    def install(self) -> None:
        """Makes the plan functions known to the session; quick where they are known already.

        Private: the gateway to the JVM, and its callback server.
        """
        if not JAR.exists():
            raise PenstockError(
                f"{JAR.name} is missing from this installation of Penstock: install its wheel, or "
                "build it from a checkout with: make setup"
            )
        start_callbacks: Any = java_gateway.ensure_callback_server_started
        start_callbacks(self._context._gateway)
        if _installed.get(self._context.applicationId) != JAR.as_uri():
            self.spark.sql(f"ADD JAR '{JAR.as_uri()}'")
            _installed[self._context.applicationId] = JAR.as_uri()
        self.spark.conf.set(f"spark.sql.catalog.{CATALOG}", "io.penstock.PlanCatalog")

    @_asks("who answers for a gate")
    def answer_for(self, gate: str, callbacks: Callbacks) -> None:
        """From now on the callbacks are asked for the plans of this gate."""
        self._jvm.io.penstock.Plans.register(gate, _Driver(callbacks))

    @_asks("who answers for a gate")
    def forget(self, gate: str) -> None:
        """A query that still runs behind the gate fails at its next batch, and says why."""
        self._jvm.io.penstock.Plans.forget(gate)

    @_asks("what happens to its queries")
    def listen(self, callbacks: Callbacks) -> Callable[[], None]:
        """Has the callbacks told of batches and ends of queries; the answer ends that.

        Private: the session in the JVM.
        """
        listener = self._jvm.io.penstock.SessionListener(_Driver(callbacks))
        streams = self._session.streams()
        streams.addListener(listener)
        return lambda: streams.removeListener(listener)

    @_asks("how long tasks run")
    def time_tasks(self) -> None:
        """Begins to note how long the tasks of each query run.

        Private: the context in the JVM. The listener itself is Spark's developer interface.
        """
        if self._task_times is None:
            self._task_times = self._jvm.io.penstock.TaskTimes()
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

    @_asks("the progress of a query")
    def last_progress(self, query: StreamingQuery) -> tuple[int, Callable[[], str]] | None:
        """The number of the last trigger's batch, and what reads its report as JSON.

        Private: PySpark's own ``lastProgress`` takes the report apart field by field, which takes
        tens of milliseconds where there are thousands of strata.
        """
        told = cast(Any, query)._jsq.lastProgress()
        return None if told is None else (int(told.batchId()), lambda: str(told.json()))

    @_asks("the offsets of a batch that is about to run")
    def sources(self, query: StreamingQuery) -> list[SourceState]:
        """How far each source of a query is, in the order in which its checkpoint has them.

        Private: Spark tells offsets in public only when the batch has run, and nothing of files.
        """
        engine = self._execution(query)
        progress = engine.committedOffsets(), engine.availableOffsets(), engine.latestOffsets()
        listed = engine.sources()
        found: list[tuple[Any, SourceState]] = []
        for i in range(listed.size()):
            source = listed.apply(i)
            if not any(source.equals(other) for other, _ in found):
                before, after, latest = (_offset_of(source, told) for told in progress)
                files = _files_read(source, before)
                found.append((source, SourceState(before, after, latest, files)))
        return [state for _, state in found]

    @_asks("how much a query may read in a batch")
    def read_limits(self, thing: DataFrame | StreamingQuery) -> list[ReadLimit | None]:
        """The read limit of each source, in the order in which the checkpoint has them.

        Private: the analysed plan.
        """
        return [_read_limit(_options(source)) for source in self.sources_in(thing)]

    @_asks("the trigger of a query")
    def trigger(self, thing: StreamingQuery | DataStreamWriter) -> Trigger:
        """When the batches of a query, or of what a writer will start, begin.

        Private: there is no public way. A writer that was told nothing has a trigger of 0 seconds.
        """
        if isinstance(thing, DataStreamWriter):
            trigger = _field(cast(Any, thing)._jwrite, "trigger")
        else:
            trigger = self._execution(thing).trigger()
        kind = str(trigger.getClass().getSimpleName())
        if kind == "ProcessingTimeTrigger":
            return Trigger("processing", trigger.intervalMs() / 1000)
        for word, name in TRIGGER_KINDS.items():
            if kind.startswith(word):
                return Trigger(name)
        raise TypeError(f"a trigger of the class {kind}")

    @_asks("how to start a query like another")
    def start_like(self, query: StreamingQuery, name: str, checkpoint: str) -> StreamingQuery:
        """Starts the same plan from the same sources once more, into nowhere.

        Private: the analysed plan, a frame of it, and the output mode.
        """
        of_rows = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows
        frame = DataFrame(of_rows(self._session, self._analysed(query)), self.spark)
        mode = str(self._execution(query).outputMode().toString()).lower()
        writer = frame.writeStream.queryName(name).format("noop").outputMode(mode)
        return writer.option("checkpointLocation", checkpoint).start()

    @_asks("where a query begins to read")
    def begins_at_latest(self, query: StreamingQuery) -> bool:
        """Whether every source of a query that begins anew has only what comes from now on.

        Private: the analysed plan.
        """
        return all(_begins_at_latest(source) for source in self.sources_in(query))

    @_asks("where a query's checkpoint is")
    def checkpoint_of(self, query: StreamingQuery) -> str:
        """Where the checkpoint is. Private: a user may have set it in any of three ways."""
        return str(self._execution(query).resolvedCheckpointRoot())

    def _execution(self, query: StreamingQuery) -> Any:
        return cast(Any, query)._jsq.streamingQuery()

    # --- plans of frames and queries ------------------------------------------------------------

    @_asks("what a query is made of")
    def names_in(self, thing: DataFrame | StreamingQuery) -> set[str]:
        """Under which names the thing observes metrics, and which Python functions it calls.

        Private: the analysed plan.
        """
        names: set[str] = set()
        for node in _nodes(self._analysed(thing)):
            kind = str(node.nodeName())
            if kind == "CollectMetrics":
                names.add(str(node.name()))
            elif kind == "MapInArrow":
                names.add(str(node.functionExpr().name()))
        return names

    @_asks("what a query reads")
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

    @_asks("whether a query can be streamed")
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

    @_asks("what is to be written")
    def frame_of(self, writer: DataStreamWriter) -> DataFrame:
        """The frame that a writer writes. Private: the writer keeps it to itself."""
        return cast(DataFrame, cast(Any, writer)._df)

    def _analysed(self, thing: DataFrame | StreamingQuery) -> Any:
        if isinstance(thing, DataFrame):
            return cast(Any, thing)._jdf.queryExecution().analyzed()
        return self._execution(thing).analyzedPlan()

    # --- files ------------------------------------------------------------------------------

    @_asks("how to read a checkpoint")
    def files(self, location: str) -> "Files":
        """The files below a place, on any file system that Spark can reach."""
        return Files(self._jvm, self._session.sessionState().newHadoopConf(), location)


def _nodes(plan: Any) -> Iterator[Any]:
    """A plan and all that is below it."""
    yield plan
    children = plan.children()
    for i in range(children.size()):
        yield from _nodes(children.apply(i))


def _field(thing: Any, name: str) -> Any:
    """A field that its class keeps to itself."""
    field = thing.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(thing)


def _offset_of(source: Any, progress: Any) -> Any:
    """A source's offset in Spark's StreamProgress, read as JSON."""
    found = progress.get(source)
    if not found.isDefined():
        return None
    try:
        return json.loads(found.get().json())
    except ValueError:
        return None


def _files_read(source: Any, before: Any) -> FilesRead | None:
    """What a source of files has read, and which it has listed; None for other sources."""
    if source.getClass().getSimpleName() != "FileStreamSource":
        return None
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


def _read_limit(options: Mapping[str, str]) -> ReadLimit | None:
    for name in READ_LIMITS:
        with suppress(ValueError):  # Spark refuses it as well, or takes it for something else
            if name.lower() in options:
                return ReadLimit(name, float(options[name.lower()]))
    return None


class Files:
    """The files below a place, through Hadoop's interface, as Spark itself reads them."""

    def __init__(self, jvm: Any, settings: Any, location: str) -> None:
        self._jvm, self._settings = jvm, settings
        self._root = jvm.org.apache.hadoop.fs.Path(location)
        self._files: Any = self._root.getFileSystem(settings)

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none where there is no such folder."""
        if not self.exists(folder):
            return []
        listed = self._files.listStatus(self._path(folder))
        return [str(status.getPath().getName()) for status in listed]

    def read(self, name: str) -> str:
        stream = self._files.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        stream = self._files.create(self._path(name))
        try:
            self._jvm.org.apache.commons.io.IOUtils.write(text, stream, "UTF-8")
        finally:
            stream.close()

    def copy(self, name: str, to: "Files", new_name: str) -> None:
        """Copies a file or a folder, where there is one."""
        if self.exists(name):
            source, target = self._path(name), to._path(new_name)
            to._files.mkdirs(target.getParent())
            copy = self._jvm.org.apache.hadoop.fs.FileUtil.copy
            copy(self._files, source, to._files, target, False, self._settings)

    def delete(self) -> None:
        """Deletes the place and all that is below it."""
        self._files.delete(self._root, True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)


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


def shut_down() -> None:
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
        gateway.proc.wait(timeout=JVM_EXIT_SECONDS)
    except TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    context._gateway = context._jvm = None

"""What a site asks of Spark, through Spark Connect and without any private part of PySpark.

Plans take the same way into a query as in a classic session: functions of a catalog. Only the way
between these functions and the site differs (``connect_calls``). What happens in Spark, and how far
a query's sources are, comes along it. Of a query's plan a client learns which gates it has and
which trigger; what else a classic session reads in it is taken for unknown, or refused with the
reason (docs/where_it_runs.md has the table).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from secrets import token_hex
from typing import Any, NoReturn, cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.errors import PenstockError
from penstock.spark.callbacks import Callbacks
from penstock.spark.connect_calls import Calls, Listening
from penstock.spark.engine import CATALOG, CATALOG_CLASS, checked_jar
from penstock.spark.progress import offset
from penstock.spark.site_engine import Report
from penstock.spark.spark_files import Files
from penstock.spark.stream_state import ReadLimit, SourceState, Trigger, trigger_of

LATEST_SECONDS = 10.0
"""How long a report waits for news of the last batches."""


@dataclass(frozen=True)
class ConnectQuery:
    """A run of a query, as far as a site wants to know; no question here goes to the server."""

    engine: "ConnectEngine"
    id: str
    runId: str
    name: str | None
    trigger: Trigger
    observed: frozenset[str]

    @property
    def isActive(self) -> bool:
        return self.runId in self.engine.runs


class ConnectEngine:
    """Questions to the Spark of one session of Spark Connect."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        self._site = f"penstock_gate_{token_hex(8)}_"
        """What the names of its gates begin with: no other session can guess them."""
        self._callbacks: Callbacks | None = None
        self._listening: Listening | None = None
        self._cores, self._application = 1, ""
        self._reports: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self._task_millis: dict[str, int] = {}
        self._sources: dict[str, list[SourceState]] = {}
        self._met: set[str] = set()
        """Runs that the site has been asked about."""
        self.runs: frozenset[str] = frozenset()
        """The runs that go on."""

    # --- the application ------------------------------------------------------------------------

    def application(self) -> str:
        return self._application

    @property
    def on_one_machine(self) -> bool:
        """Nobody knows; the cores are counted again and again, as on a cluster."""
        return False

    def executors(self) -> frozenset[str]:
        """Nobody knows."""
        return frozenset()

    def counts_once(self) -> bool:
        """Nobody could count anew what Spark before 4.3 counts twice: it is taken as it is."""
        return True

    @property
    def cores(self) -> int:
        return self._cores

    def gate_name(self, number: int) -> str:
        return f"{self._site}{number}"

    def check_guards(self) -> None:
        """Refuses guards."""
        _refuse(
            "site.guard",
            "a guard tells its costs by accumulators, and connects to the driver's process",
        )

    # --- plans into queries -----------------------------------------------------------------------

    def install(self) -> None:
        """Hands the plan functions to the session, if nobody has done so."""
        name = f"spark.sql.catalog.{CATALOG}"
        try:
            if self.spark.conf.get(name, "") != CATALOG_CLASS:
                self.spark.addArtifacts(str(checked_jar()))
                self.spark.conf.set(name, CATALOG_CLASS)
        except PySparkException as error:
            reason = str(error).strip().partition("\n")[0]
            raise PenstockError(
                f"this Spark Connect server takes no jar and no catalog: {reason}"
            ) from error

    def open(self) -> None:
        """Opens the site's part at the server."""
        try:
            self._calls = Calls(self.spark, self._site)
            told = json.loads(self._calls.tell("open"))
            self._cores, self._application = int(told["cores"]), str(told["application"])
        except PySparkException as error:
            reason = str(error).strip().partition("\n")[0]
            raise PenstockError(
                f"this Spark Connect server cannot run Penstock's functions: {reason}"
            ) from error

    def answer_for(self, gate: str, callbacks: Callbacks) -> None:
        """The names of the gates say it all: the server knows by them whom to ask."""

    def put_behind(self, gates: Iterable[str], query: str) -> None:
        """The server finds the gates of a query in its plan."""

    def forget(self, gate: str) -> None:
        """All gates are forgotten when the site closes."""

    def listen(self, callbacks: Callbacks) -> Callable[[], None]:
        """Has the callbacks asked for plans, and told of batches and ends of queries."""
        self._callbacks = callbacks
        self._listening = Listening(self._calls, self, lambda: bool(self.spark.is_stopped))
        return self._listening.close

    def catch_up(self) -> None:
        """Returns when the callbacks know of all batches that have finished by now."""
        if self._listening is not None and not self.spark.is_stopped:
            self._listening.catch_up(LATEST_SECONDS)

    def time_tasks(self) -> None:
        """From now on reports say how long the tasks of their batch ran."""
        self._calls.tell("time tasks")

    def task_seconds(self, run: str) -> float | None:
        """How long the tasks of the batch ran that a run has reported last."""
        millis = self._task_millis.pop(run, -1)
        return None if millis < 0 else millis / 1000

    # --- what is heard ----------------------------------------------------------------------------

    def stands(self, runs: frozenset[str], cores: int) -> None:
        """These runs of queries go on, on so many cores."""
        self.runs, self._cores = runs, cores

    def hear(self, news: dict[str, Any]) -> None:
        """A batch has finished, or a run has ended."""
        assert self._callbacks is not None
        if news["kind"] == "ended":
            run = news["run"]
            self._callbacks.ended(run)
            for kept in (self._reports, self._task_millis, self._sources):
                kept.pop(run, None)
            self._met.discard(run)
            return
        report = news["report"]
        run = report["runId"]
        if run not in self._met:  # nobody here has been asked yet, as we were silent
            self._met.add(run)
            self._callbacks.started(report["id"])
        self._reports[run] = report["batchId"], report
        self._task_millis[run] = news["task_millis"]
        self._callbacks.progressed()

    def answer(self, question: dict[str, Any]) -> bytes:
        """A gate's plan for a batch, encoded."""
        assert self._callbacks is not None
        run = question["run"]
        self._met.add(run)
        self._sources[run] = [
            SourceState(*(offset(each) for each in source)) for source in question["sources"]
        ]
        return self._callbacks.plan(question["gate"], question["query"], run, question["batch"])

    # --- queries ----------------------------------------------------------------------------------

    def find(self, query: str) -> StreamingQuery:
        """The running query with this id."""
        told = json.loads(self._calls.tell("query", query))
        if not told:
            raise PenstockError(f"Spark runs no query with the id {query}")
        self.runs |= {told["run"]}
        found = ConnectQuery(
            self,
            query,
            told["run"],
            told["name"],
            trigger_of(told["trigger"], told["millis"]),
            frozenset(told["observed"]),
        )
        return cast(StreamingQuery, found)

    def last_progress(self, query: StreamingQuery) -> tuple[int, Callable[[], Report]] | None:
        """The number of the batch that was reported last, and what reads its report."""
        told = self._reports.get(str(query.runId))
        return None if told is None else (told[0], lambda: told[1])

    def source_reader(self, query: StreamingQuery) -> "AskedSources":
        """How far each source is, as the question for the batch's plan said."""
        return AskedSources(self._sources, str(query.runId))

    def read_limits(self, thing: DataFrame | StreamingQuery) -> list[ReadLimit | None]:
        """Nobody knows."""
        del thing
        return []

    def trigger(self, thing: StreamingQuery | DataStreamWriter) -> Trigger:
        """When the batches of a query begin."""
        return self._known(thing).trigger

    def names_in(self, thing: DataFrame | StreamingQuery) -> set[str]:
        """Under which names a query observes metrics."""
        return set(self._known(thing).observed)

    def _known(self, thing: Any) -> ConnectQuery:
        if isinstance(thing, ConnectQuery):
            return thing
        if not hasattr(thing, "runId"):
            _refuse("this", "a frame or a writer is known to the server alone")
        return cast(ConnectQuery, self.find(str(thing.id)))

    def begins_at_latest(self, query: StreamingQuery) -> bool:
        """Nobody knows where a query begins: its first batch may have any number of rows."""
        del query
        return True

    def copies_in(self, thing: DataFrame | StreamingQuery) -> dict[str, int]:
        """Nobody knows: each late row counts as a tuple."""
        del thing
        return {}

    def names_below(self, thing: DataFrame | StreamingQuery) -> dict[str, set[str]]:
        """Nobody knows: what is lost behind the gates is taken off all of them."""
        del thing
        return {}

    def row_seconds(self, thing: DataFrame | StreamingQuery) -> float:
        """Nobody knows: once something was shed, no row says to be whole."""
        del thing
        return inf

    # --- what needs a classic session -------------------------------------------------------------

    def frame_of(self, writer: DataStreamWriter) -> DataFrame:
        """Refused."""
        del writer
        _refuse(
            "site.start",
            "a writer does not tell its stream and its trigger; call its own "
            "trigger(processingTime='1 second') and start()",
        )

    def start_like(self, query: StreamingQuery, name: str, checkpoint: str) -> StreamingQuery:
        """Refused."""
        del query, name, checkpoint
        _refuse("a rehearsal", "the plan of a query is known to the server alone")

    def checkpoint_of(self, query: StreamingQuery) -> str:
        """Refused."""
        del query
        _refuse("the checkpoint of a query", "it is known to the server alone")

    def sources_in(self, thing: DataFrame | StreamingQuery) -> list[Any]:
        """Refused."""
        del thing
        _refuse("counting a batch again", "the plan of a query is known to the server alone")

    def files(self, location: str) -> Files:
        """Refused."""
        del location
        _refuse("reading a checkpoint", "its files are known to the server alone")

    def recounts(self) -> bool:
        """Whether a batch can be counted again."""
        return False


class AskedSources:
    """How far the sources of a run were when it asked last."""

    def __init__(self, told: Mapping[str, list[SourceState]], run: str) -> None:
        self._told, self._run = told, run

    def read(self) -> list[SourceState]:
        return self._told.get(self._run, [])


def _refuse(what: str, reason: str) -> NoReturn:
    raise PenstockError(f"{what} needs a classic session, and got one of Spark Connect: {reason}")

"""The guard: a user's Python function on each tuple of a stream, kept from building up a queue.

    scored = site.guard(rides, score, key="model", latency="500ms", arrival="_arrival")

Inside a task (``penstock.guard.task``) an ``Admission`` times the function, learns what each key
costs and sheds in front of it. Tasks begin with the ``GuardPlan`` in force, which they fetch from
the driver's ``PlanServer``, and end with a ``TaskReport``, which reaches the driver through an
accumulator: sketches are linear, so those of all partitions and batches add up. Executors may be
processes or machines of their own; they need this package and NumPy.

What a tuple waits depends on the clock, so a batch that is run again may shed other tuples.
"""

import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal, NamedTuple

from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.guard.admission import Function, GuardPlan, TaskReport
from penstock.guard.plan_server import PlanServer
from penstock.guard.sketch import Sketch
from penstock.guard.task import ARRIVED, KEY, STRATUM, MakeAdmission, Task, Told, encoded
from penstock.spark import arguments

ERROR = 0.01
"""Of the sketches: 272 columns, some 9 kB a task."""
OUTLIVED = 8
"""A task is taken for dead when so many times as many have begun after it as can run at once."""
RECENT_SECONDS = 30.0
"""What a report calls recent."""
OnError = Literal["fail", "skip"]


class Recent(NamedTuple):
    """What a task told, and when."""

    told: float
    kept: int
    shed: int
    waited: float


class _ToldParam(AccumulatorParam[list[Told]]):
    def zero(self, value: list[Told]) -> list[Told]:
        del value
        return []

    def addInPlace(self, value1: list[Told], value2: list[Told]) -> list[Told]:
        value1.extend(value2)
        return value1


class Guard:
    """The driver's half: merges what tasks tell, and says what is in force."""

    def __init__(
        self, spark: SparkSession, name: str, latency: float, tasks: int, function: str = ""
    ) -> None:
        self.name, self.latency, self.function = name, latency, function
        self.orders = GuardPlan(latency, sketch=Sketch(ERROR))
        self._most_tasks = max(tasks, 1)
        self._tickets = itertools.count()
        self._running: set[int] = set()
        """Tickets of tasks that have asked and not told."""
        self._beside = 0
        """The most that ran beside each other since none did."""
        self._last_trial = -inf
        self._lock = threading.Lock()
        self._told: Accumulator[list[Told]] = spark.sparkContext.accumulator([], _ToldParam())
        self._total = TaskReport(Sketch())
        self._since = News()
        self._recent: deque[Recent] = deque()

    @property
    def told(self) -> Accumulator[list[Told]]:
        return self._told

    def answer(self) -> bytes:
        """What a task that starts now is told."""
        self._hear()
        with self._lock:
            ticket = next(self._tickets)
            # a task that died never tells
            outlived = ticket - OUTLIVED * self._most_tasks
            self._running = {other for other in self._running if other > outlived}
            self._beside = max(self._beside, len(self._running) + 1) if self._running else 1
            self._running.add(ticket)
            orders = replace(self.orders, trial=self._tries(time.monotonic()))
            return encoded(ticket, orders)

    def _tries(self, now: float) -> float:
        """Trials take a tenth of the time at most, so that waits stay what they are to be."""
        every = max(self.latency, 10 * self.orders.sketch.mean)
        if now - self._last_trial < every:
            return -1.0
        self._last_trial = now
        return random.random()

    def news(self) -> "News":
        """What happened since last asked."""
        self._hear()
        with self._lock:
            news, self._since = self._since, News()
        return news

    def report(self) -> dict[str, Any]:
        self._hear()
        total = self._total
        served = max(total.kept, 1)
        with self._lock:
            self._forget_before(time.monotonic() - RECENT_SECONDS)
            recent = list(self._recent)
        kept, shed = (sum(getattr(task, name) for task in recent) for name in ("kept", "shed"))
        return {
            "guard": self.name,
            "function": self.function,
            "arrived": total.arrived,
            "kept": total.kept,
            "shed": total.shed,
            "failed": total.failed,
            "shed_share": total.shed / max(total.arrived, 1),
            "mean_wait_ms": 1000 * total.waited / served,
            "mean_cost_ms": 1000 * total.busy / max(total.kept + total.failed, 1),
            "latency_ms": 1000 * self.latency,
            "recent_wait_ms": 1000 * sum(task.waited for task in recent) / max(kept, 1),
            "recent_shed_share": shed / max(kept + shed, 1),
            "last_error": total.error or None,
        }

    def cost_of(self, fingerprint: int) -> float:
        """Seconds that a tuple with this ``xxhash64`` of its key is expected to take."""
        self._hear()
        return self.orders.sketch.cost(fingerprint % 2**64)

    def _hear(self) -> None:
        with self._lock:
            told = self._told.value
            size = len(told)
            fresh, told[:size] = told[:size], []  # Spark's thread may append meanwhile
            beside = max(min(self._beside, self._most_tasks), 1)
            for ticket, tally in fresh:
                self._count(tally, beside)
                self._running.discard(ticket)

    def _count(self, tally: TaskReport, beside: int = 1) -> None:
        """Of one of so many tasks that ran beside each other."""
        self.orders = self.orders.after(tally, beside)
        total = self._total
        total.kept += tally.kept
        total.shed += tally.shed
        total.failed += tally.failed
        total.waited += tally.waited
        total.busy += tally.busy
        total.error = tally.error or total.error
        self._since.count(tally)
        now = time.monotonic()
        self._recent.append(Recent(now, tally.kept, tally.shed, tally.waited))
        self._forget_before(now - RECENT_SECONDS)

    def _forget_before(self, moment: float) -> None:
        """Also where nobody ever asks for a report."""
        while self._recent and self._recent[0].told < moment:
            self._recent.popleft()


@dataclass
class News:
    """What a guard has to tell of strata, by their fingerprints, and of all tuples."""

    timed: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Tuples that were timed, and seconds in sum."""
    seen: dict[int, int] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)
    arrived: int = 0
    gone: int = 0
    """Shed or failed, of whatever stratum."""

    def count(self, tally: TaskReport) -> None:
        self.arrived += tally.arrived
        self.gone += tally.shed + tally.failed
        for name, (count, seconds) in tally.strata.items():
            known, before = self.timed.get(name, (0, 0.0))
            self.timed[name] = known + count, before + seconds
        for mine, told in ((self.seen, tally.seen), (self.lost, tally.lost)):
            for name, count in told.items():
                mine[name] = mine.get(name, 0) + count

    @property
    def costs(self) -> dict[int, float]:
        """Seconds a tuple."""
        return {name: seconds / count for name, (count, seconds) in self.timed.items()}


def guarded(
    guard: Guard,
    desk: PlanServer,
    stream: DataFrame,
    function: Function,
    key: tuple[Column, ...],
    *,
    output: str,
    arrival: Column | None,
    stratum: Column | None,
    inputs: Sequence[str],
    on_error: OnError,
    make: MakeAdmission | None = None,
) -> DataFrame:
    """The stream of the tuples that are kept, with what the function made of them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    field = arguments.struct("output", output, "'score double'")
    if len(field) != 1:
        raise PenstockError(
            f"output: one column such as 'score double' is needed, not {output!r}; several values "
            "fit into 'result struct<...>'"
        )
    if '":false' in field.json():  # nullable, or that of something inside
        raise PenstockError(
            f"output: an answer can be missing, so leave NOT NULL out of {output!r}"
        )
    columns = tuple(stream.columns)
    names = {name.lower() for name in columns}
    if field.names[0].lower() in names:
        raise PenstockError(
            f"output: the stream has a column {field.names[0]!r} already; say output='other double'"
        )
    if names & {KEY, ARRIVED, STRATUM}:
        raise PenstockError(
            f"guard: the names {KEY}, {ARRIVED} and {STRATUM} are its own; rename your column"
        )
    extra: Mapping[str, Column | None] = {
        KEY: arguments.hashed(key, stream),
        ARRIVED: None if arrival is None else arrival.cast("timestamp").cast("double"),
        STRATUM: stratum,
    }
    try:
        arrow_field = to_arrow_schema(field).field(0)
    except AssertionError:  # Spark wants to know a zone
        raise PenstockError(
            "output: answer a time as a double or a text, not a timestamp"
        ) from None
    task = Task(
        function=function,
        address=desk.serve(guard.name, guard.answer),
        told=guard.told,
        columns=columns,
        inputs=tuple(inputs) or columns,
        output=arrow_field,
        arrival=arrival is not None,
        strata=stratum is not None,
        skip_errors=on_error == "skip",
        make=make,
    )

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        yield from task(batches)

    run.__name__ = guard.name  # what Spark shows in plans, and what the site finds it by
    schema = StructType([*stream.schema.fields, *field.fields])
    marked = [column.alias(name) for name, column in extra.items() if column is not None]
    return stream.select("*", *marked).mapInArrow(run, schema)

"""Runs the job once for a given time, and watches it from outside."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.cli.demo.meter import Commit, Reading, marginal_rate, oldest
from penstock.cli.demo.workload import Workload, job, ungated
from penstock.cli.interrupt import Interrupt
from penstock.errors import PenstockError
from penstock.sources.schedule import SECOND, Schedule
from penstock.spark.site import Site

POLL_SECONDS = 0.2
FIRST_BATCH_SECONDS = 60.0
"""How long the first batch may take."""
QUERY = "readings"
_attempts = count()

Watch = Callable[[Reading], None]


@dataclass(frozen=True)
class DemoRun:
    """Holds what a run left behind; times are microseconds."""

    schedule: Schedule
    end: int
    commits: list[Commit]
    results: Mapping[str, Any]
    kept: dict[int, int] = field(default_factory=dict)
    """By batch, how many were admitted, where a gate decided."""
    site_sic: float | None = None
    """The query's, mean over time."""
    ledger: tuple[int, int, int] | None = None
    """Arrived, admitted, shed."""
    ledger_balanced: bool | None = None

    @property
    def arrived(self) -> int:
        """Returns how many tuples arrived."""
        return self.schedule.offset_at(self.end)

    @property
    def done(self) -> int:
        """Returns how many tuples batches have covered."""
        return max((commit.stop for commit in self.commits), default=0)

    @property
    def admitted(self) -> int:
        """Returns how many tuples were admitted; without a gate, all that batches covered."""
        return self.ledger[1] if self.ledger else self.done

    @property
    def accounted(self) -> bool:
        """Says whether every tuple of a batch was admitted or shed, and none twice."""
        covered = sum(commit.rows for commit in self.commits)
        return covered == self.done and (
            self.ledger is None or (bool(self.ledger_balanced) and self.ledger[0] == self.done)
        )


class TooEasy(Exception):
    """Says that the machine copes with what was meant to be too much, and how much it can do."""

    def __init__(self, capacity: float) -> None:
        super().__init__(f"this machine can process {capacity:,.0f} tuples/s and more")
        self.capacity = capacity


@dataclass(frozen=True)
class Runner:
    """Runs the job without a gate and behind one."""

    spark: SparkSession
    directory: Path
    interrupt: Interrupt

    def plain(self, load: Workload, watch: Watch, *, final: bool) -> DemoRun:
        """Runs the job as it is; raises `TooEasy` if the first burst is none, unless ``final``."""
        name, worst = f"without_penstock_{next(_attempts)}", 0.0

        def judge(reading: Reading) -> None:
            nonlocal worst
            watch(reading)
            worst = max(worst, reading.latency)
            if not final and load.copes(reading.elapsed, worst):
                raise TooEasy(max(marginal_rate(commits(query)), 2 * load.capacity))

        frame = job(ungated(load.stream(self.spark)), load.window)
        writer = into_memory(frame, self.directory / name).queryName(name)
        query = writer.trigger(processingTime="1 second").start()
        try:
            schedule = self._watched(query, load, judge, None)
        finally:
            query.stop()  # however far behind it is
        return _outcome(self.spark, query, load, schedule)

    def gated(self, load: Workload, watch: Watch) -> DemoRun:
        """Runs the same job behind a gate."""
        name = f"with_penstock_{next(_attempts)}"
        with Site(self.spark, interval="1s", latency=load.latency) as site:
            stream = site.gate(load.stream(self.spark), query=QUERY, id="_offset")
            writer = into_memory(job(stream, load.window), self.directory / name)
            query = site.start(writer, name=name)
            schedule = self._watched(query, load, watch, site)
        report = site.report()
        return replace(
            _outcome(self.spark, query, load, schedule),
            kept={entry.batch: entry.admitted for entry in site.ledger},
            site_sic=report.queries[0].sic if report.queries else None,
            ledger=site.ledger.total(),
            ledger_balanced=report.ledger_balanced,
        )

    def warm_gate(self, load: Workload, seconds: float) -> None:
        """Has Spark compile the gate's code, as measuring has had it compile the job's."""
        self.gated(replace(load, seconds=seconds), lambda _: None)

    def _watched(
        self, query: StreamingQuery, load: Workload, watch: Watch, site: Site | None
    ) -> Schedule:
        """Watches the query until the run is over."""
        deadline = time.monotonic() + FIRST_BATCH_SECONDS
        while (last := last_commit(query)) is None:
            if time.monotonic() > deadline:
                raise PenstockError(f"no batch has ended in {FIRST_BATCH_SECONDS:.0f} s")
            self.interrupt.pause(POLL_SECONDS)
        schedule = load.schedule(last.stream_start)
        end = schedule.start + round(load.seconds * SECOND)
        while (now := time.time_ns() // 1000) < end:
            last = last_commit(query) or last
            watch(_reading(load, schedule, last, now, site))
            self.interrupt.pause(POLL_SECONDS)
        return schedule


def into_memory(frame: DataFrame, checkpoint: Path) -> DataStreamWriter:
    """Writes results into a table in memory."""
    writer = frame.writeStream.format("memory").outputMode("append")
    return writer.option("checkpointLocation", str(checkpoint))


def commits(query: StreamingQuery) -> list[Commit]:
    """Returns every batch that has ended."""
    told = [Commit.of(progress.json) for progress in query.recentProgress]
    return [commit for commit in told if commit is not None]


def last_commit(query: StreamingQuery) -> Commit | None:
    """Returns the newest batch, if any; raises an error where the query failed."""
    failure = query.exception()
    if failure is not None:
        raise PenstockError(f"the job failed: {failure}")
    progress = query.lastProgress
    return None if progress is None else Commit.of(progress.json)


def _reading(
    load: Workload, schedule: Schedule, last: Commit, now: int, site: Site | None
) -> Reading:
    elapsed = (now - schedule.start) / SECOND
    arrived = schedule.offset_at(now)
    factor = load.factor_at(elapsed)
    reported = site.report().queries if site else ()
    return Reading(
        elapsed=elapsed,
        through=elapsed / load.seconds,
        load=factor,
        rate=factor * load.capacity,
        arrived=arrived,
        admitted=reported[0].admitted if reported else last.stop,
        shed=reported[0].shed if reported else 0,
        waiting=arrived - last.stop,
        sic=site.sic().get(QUERY, 1.0) if site else 1.0,
        batch_seconds=last.seconds,
        latency=oldest(schedule, last.stop, now),
    )


def _outcome(
    spark: SparkSession, query: StreamingQuery, load: Workload, schedule: Schedule
) -> DemoRun:
    ended = commits(query)
    end = max(schedule.start + round(load.seconds * SECOND), ended[-1].ended)
    return DemoRun(schedule, end, ended, _results(spark, str(query.name)))


def _results(spark: SparkSession, name: str) -> dict[str, Any]:
    """Returns the rows of the sink as arrays."""
    flat = spark.table(name).select(
        sf.unix_micros("window.start").alias("start"),
        "key",
        "sic",
        "tuples",
        *(
            sf.col(f"{estimate}.{part}").alias(alias)
            for estimate in ("count", "mean")
            for part, alias in (
                ("value", estimate),
                ("low", f"{estimate}_low"),
                ("high", f"{estimate}_high"),
            )
        ),
    )
    table = flat.toArrow()
    return {column: table.column(column).to_numpy() for column in table.column_names}

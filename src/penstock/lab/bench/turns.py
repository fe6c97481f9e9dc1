"""Runs jobs side by side in turns: one has tuples while the others have none.

A query is slow when it is new, how fast the JVM makes it in the end differs from run to run, and a
shared machine is faster now and slower then. So what two jobs cost is compared in turns of seconds.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.lab.bench import harness as h
from penstock.spark.progress import Progress

Start = Callable[[DataFrame, str], StreamingQuery]
"""Starts a job on a stream, with a directory of its own."""


@dataclass(frozen=True)
class TurnPlan:
    """Says how many turns each job has, and how long they are in seconds."""

    count: int
    warm: int = 0
    """Turns of each before those that count."""
    seconds: float = 10.0
    pause: float = 2.0
    """From one job's last tuples until the next one has some."""
    interval: float = h.INTERVAL_SECONDS
    """Of the jobs' triggers."""


def in_turns(
    spark: SparkSession, jobs: Mapping[str, Start], size: int, turns: TurnPlan, **readings: Any
) -> dict[str, list[float]]:
    """Returns microseconds a tuple in each full batch of ``size`` tuples, of each job."""
    each, begin = turns.seconds + turns.pause, time.time()
    cycle, rounds = len(jobs) * each, turns.warm + turns.count

    def stream(place: int) -> DataFrame:
        """Returns a stream with an interval's tuples in each interval of the job's turns."""
        first = turns.pause + place * each - (time.time() - begin)
        starts = [max(first, 0.0) + number * cycle for number in range(rounds)]
        steps = [(at + on, 1.0 - on / turns.seconds) for at in starts for on in (0, turns.seconds)]
        profile = [{"at": at, "factor": factor} for at, factor in [(0.0, 0.0), *steps]]
        return h.readings(spark, size / turns.interval, profile=profile, **readings)

    with TemporaryDirectory(ignore_cleanup_errors=True) as directory:  # Spark may still write
        queries = {
            name: start(stream(place), f"{directory}/{name}")
            for place, (name, start) in enumerate(jobs.items())
        }
        h.wait(turns.pause + rounds * cycle, f"{' and '.join(jobs)} in {rounds} turns")
        told = {name: h.batches_of(query) for name, query in queries.items()}
        for query in queries.values():
            query.stop()
    since = begin + turns.pause + turns.warm * cycle
    return {
        name: [
            1e6 * batch.seconds / batch.rows
            for batch in told[name]
            if abs(batch.rows / size - 1) < 0.15
            and batch.started > since
            and not any(_overlap(batch, other) for other in _others(told, name))
        ]
        for name in jobs
    }


def _others(told: Mapping[str, list[Progress]], name: str) -> list[Progress]:
    return [batch for other, batches in told.items() if other != name for batch in batches]


def _overlap(one: Progress, other: Progress) -> bool:
    """Says whether two batches ran at the same time."""
    return one.started < other.ended and other.started < one.ended

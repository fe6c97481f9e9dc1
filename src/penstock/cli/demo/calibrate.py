"""Measures how much this machine can process, which also warms Spark up.

A JVM takes many seconds until it is as fast as it gets, and batches must be long to make up for
what every batch costs. So a long round of small batches comes first; then each takes batches of a
size that should last a good while at the best rate before.
"""

import math
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.demo.meter import Commit, best_rate
from penstock.cli.demo.runner import FIRST_BATCH_SECONDS, POLL_SECONDS, into_memory, last_commit
from penstock.cli.demo.workload import flood, job, ungated
from penstock.cli.interrupt import Interrupt
from penstock.errors import PenstockError

FIRST_BATCH_ROWS = 2_000
GOOD_BATCH_SECONDS = 2.5
FIRST_ROUND_SHARE, ROUND_SHARE = 0.4, 0.15
"""The shares of the time for measuring that the first round and each later one take."""
WARM_BATCHES_PER_SECOND = 0.25
"""The batches, for each second of measuring, after which the JVM is warm."""
WINDOW_SECONDS = 5
LEAST_LATENCY_SECONDS = 3
LATENCY_IN_OVERHEADS = 4
"""The latency to ask for, in times of what a batch of hardly any tuples takes."""
_names = count()


@dataclass(frozen=True)
class Machine:
    """Says how many tuples a second the machine processes, and what a nearly empty batch takes."""

    capacity: float
    overhead: float

    @property
    def latency(self) -> int:
        """Returns the seconds to ask of it: half is for a batch, and most of that for tuples."""
        return max(LEAST_LATENCY_SECONDS, math.ceil(LATENCY_IN_OVERHEADS * self.overhead))


@dataclass(frozen=True)
class Bench:
    """Runs rounds of the job to measure the machine."""

    spark: SparkSession
    partitions: int
    directory: Path
    interrupt: Interrupt

    def measure(self, seconds: float) -> Machine:
        """Measures the machine; after so many seconds no new round begins."""
        end = time.monotonic() + seconds
        small = self._batches(
            FIRST_BATCH_ROWS,
            FIRST_ROUND_SHARE * seconds,
            least=max(1, round(WARM_BATCHES_PER_SECOND * seconds)),
        )
        best, overhead = best_rate(small), min(commit.seconds for commit in small)
        while time.monotonic() < end:
            rows = max(FIRST_BATCH_ROWS, round(best * GOOD_BATCH_SECONDS))
            best = max(best, best_rate(self._batches(rows, ROUND_SHARE * seconds, least=1)))
        return Machine(best, overhead)

    def _batches(self, rows: int, seconds: float, least: int) -> list[Commit]:
        """Returns the full batches of a round of so many seconds, ``least`` of them or more."""
        name = f"calibration_{next(_names)}"
        frame = job(ungated(flood(self.spark, rows, self.partitions)), WINDOW_SECONDS)
        query = into_memory(frame, self.directory / name).queryName(name).start()
        began = time.monotonic()
        full: dict[int, Commit] = {}
        try:
            while len(full) < least or time.monotonic() < began + seconds:
                if time.monotonic() > began + FIRST_BATCH_SECONDS:
                    break
                self.interrupt.pause(POLL_SECONDS)
                last = last_commit(query)
                if last is not None and last.rows == rows:
                    full[last.batch] = last
        finally:
            query.stop()
        if not full:
            raise PenstockError("this machine is too slow for the demo, or too busy")
        return list(full.values())

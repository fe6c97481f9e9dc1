"""How much this machine can process, which also warms Spark up.

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
from penstock.cli.demo.runner import PATIENCE, POLL, into_memory, last_commit
from penstock.cli.demo.workload import flood, job, ungated
from penstock.cli.interrupt import Interrupt
from penstock.errors import PenstockError

FIRST_ROWS = 2_000
GOOD_BATCH = 2.5
"""Seconds."""
FIRST_ROUND, ROUND = 0.4, 0.15
"""Shares of the time for it all."""
WARM = 0.25
"""Batches a second of the time given, at least, until a JVM is worth measuring."""
WINDOW = 5
LEAST_LATENCY, OVERHEADS = 3, 4
_names = count()


@dataclass(frozen=True)
class Machine:
    """How many tuples a second it can process, and how long a batch of hardly any takes."""

    capacity: float
    overhead: float

    @property
    def latency(self) -> int:
        """Seconds that can be asked of it: half of that is for a batch, most of it for tuples."""
        return max(LEAST_LATENCY, math.ceil(OVERHEADS * self.overhead))


@dataclass(frozen=True)
class Bench:
    """Where rounds are run."""

    spark: SparkSession
    partitions: int
    directory: Path
    interrupt: Interrupt

    def measure(self, seconds: float) -> Machine:
        """After so many seconds no new round begins."""
        end = time.monotonic() + seconds
        small = self._batches(
            FIRST_ROWS, FIRST_ROUND * seconds, least=max(1, round(WARM * seconds))
        )
        best, overhead = best_rate(small), min(commit.seconds for commit in small)
        while time.monotonic() < end:
            rows = max(FIRST_ROWS, round(best * GOOD_BATCH))
            best = max(best, best_rate(self._batches(rows, ROUND * seconds, least=1)))
        return Machine(best, overhead)

    def _batches(self, rows: int, seconds: float, least: int) -> list[Commit]:
        """The full batches of a round of so many seconds, or until there are enough of them."""
        name = f"calibration_{next(_names)}"
        frame = job(ungated(flood(self.spark, rows, self.partitions)), WINDOW)
        query = into_memory(frame, self.directory / name).queryName(name).start()
        began = time.monotonic()
        full: dict[int, Commit] = {}
        try:
            while len(full) < least or time.monotonic() < began + seconds:
                if time.monotonic() > began + PATIENCE:
                    break
                self.interrupt.pause(POLL)
                last = last_commit(query)
                if last is not None and last.rows == rows:
                    full[last.batch] = last
        finally:
            query.stop()
        if not full:
            raise PenstockError("this machine is too slow for the demo, or too busy")
        return list(full.values())

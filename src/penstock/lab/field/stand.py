"""The stand on which the field's benchmarks measure: a broker, a folder, and what they share."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from penstock.errors import PenstockError
from penstock.lab.field.broker import Broker
from penstock.lab.field.field_truth import FieldRun, progress_of, run_of
from penstock.lab.field.job import FieldJob, RunningJob
from penstock.lab.field.producer import Feed, Traffic

TARGET_SECONDS = 3.0
"""The latency that is asked for."""
CALIBRATION_LOADS = (50, 500)
CALIBRATION_BATCH = 10_000
CALIBRATION_BATCHES = 10
HEAVIEST_LOAD = 20_000
SHORT_SECONDS = 30.0
"""A run that is asked to be shorter only shows that it runs, and with work that is made up."""


@dataclass(frozen=True)
class FieldOptions:
    """Says how often a benchmark measures, for how long, and which of its cases."""

    runs: int = 3
    seconds: float | None = None
    case: str | None = None

    def one_of(self, cases: Sequence[str]) -> list[str]:
        """Returns the cases that are asked for: all, unless one is named."""
        if self.case is None:
            return list(cases)
        if self.case not in cases:
            raise PenstockError(f"--case must be one of {', '.join(cases)}; got {self.case!r}")
        return [self.case]

    @property
    def short(self) -> bool:
        """Says whether only the way is tried, and not the promise."""
        return self.seconds is not None and self.seconds < SHORT_SECONDS


@dataclass
class Stand:
    """Has a broker for as long as it stands, and makes topics, producers and jobs on it."""

    broker: Broker
    folder: Path
    _numbers: Iterator[int] = field(default_factory=count)
    _cost: tuple[float, float] | None = None

    def topic(self, partitions: int = 2) -> str:
        """Makes a topic that nobody else writes to."""
        name = f"messages-{uuid4().hex[:12]}"
        self.broker.create(name, partitions)
        return name

    def feed(self, topic: str, *rates: tuple[float, float], **more: Any) -> Feed:
        """Starts a producer; ``rates`` are seconds since its start and messages a second."""
        traffic = Traffic(self.broker.address, topic, rates, **more)
        return Feed(traffic, self.folder, f"producer-{next(self._numbers)}")

    def job(self, topic: str, variant: str = "gated", **more: Any) -> RunningJob:
        """Starts a job on a topic, in a process with a cold JVM."""
        jars = self.broker.jars.connector
        told = {"latency": TARGET_SECONDS, **more}
        job = FieldJob(variant, self.broker.address, topic, jars, **told)
        return RunningJob(job, self.folder, f"{variant}-{next(self._numbers)}")

    def run_of(self, job: RunningJob) -> FieldRun:
        """Returns what really happened to a job."""
        return run_of(job, self.broker if job.job.topic else None, job.job.topic)

    def place(self) -> str:
        """Returns a path in the stand's folder that nothing uses."""
        return str(self.folder / f"place-{next(self._numbers)}")

    def load_for(self, per_second: float) -> int:
        """Returns the work a tuple at which the plain job processes so many tuples a second.

        A tuple costs something by itself and something for each repetition of its note; both are
        measured once, with a plain job over a topic that is full.
        """
        if self._cost is None:
            say("what can the plain job process?")
            topic = self.topic()
            needed = CALIBRATION_BATCH * (CALIBRATION_BATCHES + 5)
            with self.feed(topic, (0.0, 60_000.0)) as feed:
                feed.wait_for(
                    lambda: sum(self.broker.ends(topic).values()) >= needed, 60, "a full topic"
                )
            low, high = (self._seconds_a_tuple(topic, load) for load in CALIBRATION_LOADS)
            each = max(high - low, 1e-9) / (CALIBRATION_LOADS[1] - CALIBRATION_LOADS[0])
            self._cost = low - each * CALIBRATION_LOADS[0], each
        fixed, each = self._cost
        load = (1 / per_second - fixed) / each
        return round(min(max(load, 1.0), HEAVIEST_LOAD))

    def _seconds_a_tuple(self, topic: str, load: int) -> float:
        options = {"starting": "earliest", "limit": CALIBRATION_BATCH, "interval": 0.05}
        with self.job(topic, "plain", load=load, **options) as job:
            job.wait_for(
                lambda: len(progress_of(job)) >= CALIBRATION_BATCHES, 180, "enough batches"
            )
            late = progress_of(job)[CALIBRATION_BATCHES // 2 : CALIBRATION_BATCHES]
        return sum(row.seconds for row in late) / sum(row.rows for row in late)


@contextmanager
def stand() -> Iterator[Stand]:
    """Starts a broker with a folder beside it, and removes both afterwards."""
    with (
        TemporaryDirectory(prefix="penstock-field-", ignore_cleanup_errors=True) as folder,
        Broker() as broker,
    ):
        yield Stand(broker, Path(folder))


def say(what: str) -> None:
    """Says on standard error what is being done."""
    print(f"  {time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)

"""What really happened in a run, by Spark's progress and Kafka's own timestamps.

Nothing here comes from Penstock. When the tuples of a batch had arrived is looked up in the topic:
the message at a batch's first offset is its oldest tuple, and a few between it and the last tell
how the others are spread.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from penstock.errors import PenstockError
from penstock.lab.bench.harness import BatchRecord, p95
from penstock.lab.field.broker import Broker
from penstock.lab.field.child import Child
from penstock.spark.progress import Progress, whole_numbers
from penstock.spark.rehearsal import NAME as REHEARSAL

PLACES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Where in a batch's offsets it is looked up when a tuple arrived."""
STEPS_PER_BATCH = 41
LONGEST_LOOKUP_SECONDS = 10.0


@dataclass(frozen=True)
class FieldBatch(BatchRecord):
    """Is a batch as it went, with arrivals that were looked up."""

    arrivals: tuple[float, ...] = ()
    """When tuples at even steps of the batch had arrived, in order."""
    behind: int = 0
    """How many waited at the source beyond the batch when it was planned."""

    def latencies(self) -> Any:
        """Returns ages at the commit, at even steps between the first tuple and the last."""
        steps = np.linspace(0, 1, STEPS_PER_BATCH)
        known = np.linspace(0, 1, len(self.arrivals))
        return self.ended - np.interp(steps, known, self.arrivals)


@dataclass
class FieldRun:
    """Holds the batches of a run, from when the program started its query."""

    started: float
    batches: list[FieldBatch]
    told: list[dict[str, Any]] = field(default_factory=list)
    """What Penstock reported, once a second."""

    def between(self, first: float, last: float = float("inf")) -> list[FieldBatch]:
        """Returns the batches that ended between two seconds since the start."""
        return [b for b in self.batches if first <= b.ended - self.started < last]

    def admitted_per_second(self, first: float, last: float) -> float:
        """Returns what the batches of a span admitted, by the time from one's end to the next's."""
        batches = self.between(first, last)
        if len(batches) < 2:
            return float("nan")
        passed = batches[-1].ended - batches[0].ended
        return sum(batch.admitted for batch in batches[1:]) / max(passed, 1e-9)

    def p95(self, first: float, last: float = float("inf")) -> float:
        """Returns the 95th percentile of the ages of admitted tuples at their commit."""
        return p95(list(self.between(first, last)))

    def worst(self, first: float, last: float = float("inf")) -> float:
        """Returns the age of the oldest tuple of any batch of a span, at its commit."""
        return max((b.worst_latency for b in self.between(first, last)), default=float("nan"))

    def late_until(self, seconds: float, last: float = float("inf")) -> float:
        """Returns when the last batch was committed that had a tuple older than this."""
        late = [b.ended - self.started for b in self.between(0, last) if b.worst_latency > seconds]
        return max(late, default=0.0)

    def stale_seconds(self, seconds: float, last: float) -> float:
        """Returns for how long the newest tuple of any result was older than this, up to a second.

        Before the first result, it is the query's start that grows old.
        """
        newest, stale, since = self.started, 0.0, self.started
        for moment, arrived in [
            *((b.ended, b.newest) for b in self.between(0, last)),
            (self.started + last, 0.0),
        ]:
            stale += max(0.0, moment - max(since, newest + seconds))
            newest, since = max(newest, arrived), moment
        return stale

    def as_json(self) -> list[dict[str, Any]]:
        """Returns the batches as plain values, with times since the start."""
        return [
            {
                "batch": b.batch,
                "at": round(b.ended - self.started, 3),
                "seconds": round(b.seconds, 3),
                "arrived": b.arrived,
                "admitted": b.admitted,
                "oldest": round(b.worst_latency, 3),
                "p95": round(float(np.quantile(b.latencies(), 0.95)), 3),
                "behind": b.behind,
            }
            for b in self.batches
        ]


class ArrivalLookup:
    """Looks up when messages had arrived at Kafka, one message for each question."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._topic, self._known = topic, dict[tuple[int, int], float]()
        self._consumer = Consumer(
            {**broker.client, "group.id": "lookup", "enable.auto.commit": False}
        )

    def at(self, partition: int, offset: int) -> float:
        """Returns Kafka's timestamp of a message, in seconds since the epoch."""
        found = self._known.get((partition, offset))
        if found is None:
            found = self._known[partition, offset] = self._ask(partition, offset)
        return found

    def _ask(self, partition: int, offset: int) -> float:
        self._consumer.assign([TopicPartition(self._topic, partition, offset)])
        message = self._consumer.poll(LONGEST_LOOKUP_SECONDS)
        if message is None or message.error() is not None or message.offset() != offset:
            raise PenstockError(f"no message {offset} in partition {partition} of {self._topic}")
        return message.timestamp()[1] / 1000

    def of(self, first: dict[str, int], stop: dict[str, int]) -> list[float]:
        """Returns when tuples at even steps of a batch had arrived, in order."""
        steps, found = np.linspace(0, 1, STEPS_PER_BATCH), list[float]()
        for partition, end in stop.items():
            start = first.get(partition, 0)
            if end > start:
                offsets = [start + round(place * (end - 1 - start)) for place in PLACES]
                times = [self.at(int(partition), offset) for offset in offsets]
                found += np.interp(steps, PLACES, times).tolist()
        return sorted(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()


def progress_of(job: Child) -> list[Progress]:
    """Returns Spark's reports of the batches that had tuples, in order, each once."""
    told = [Progress.of(row["progress"]) for row in job.told("progress")]
    probed = any("truth" in each.observed for each in told)
    # a batch that Spark had begun before a kill and repeats may come without what was observed
    told = [each for each in told if each.observed or not probed]
    found = {
        (each.run, each.batch): each
        for each in told
        if each.rows > 0 and not (each.name or "").startswith(REHEARSAL)
    }
    return sorted(found.values(), key=lambda each: each.started)


def committed(checkpoint: str | Path) -> tuple[int, int]:
    """Returns the last batch that was committed and the sum of its offsets, by Spark's own log."""
    logs = Path(checkpoint)
    last = max(int(path.name) for path in (logs / "commits").iterdir() if path.name.isdigit())
    line = (logs / "offsets" / str(last)).read_text().splitlines()[2]
    return last, whole_numbers(line)


def run_of(job: Child, broker: Broker | None = None, topic: str = "") -> FieldRun:
    """Returns what really happened in a run of a job, which may still go on."""
    started, told, rows = job.told("starting")[0]["at"], job.told("told"), progress_of(job)
    if broker is None:
        return FieldRun(started, list(map(_observed, rows)), told)
    with ArrivalLookup(broker, topic) as lookup:
        return FieldRun(started, [_looked_up(row, topic, lookup) for row in rows], told)


def _looked_up(row: Progress, topic: str, lookup: ArrivalLookup) -> FieldBatch:
    """A query's first batch has no start; all partitions are written evenly, so it is inferred."""
    (source,) = row.sources
    stop = source.end[topic]
    each = -(-row.rows // len(stop))
    inferred = {partition: max(end - each, 0) for partition, end in stop.items()}
    first = inferred if source.start is None else source.start[topic]
    arrived = row.rows if source.start is None else row.offsets[1] - row.offsets[0]
    return _batch(row, lookup.of(first, stop), arrived)


def _observed(row: Progress) -> FieldBatch:
    """Takes the ends from what was counted behind the gate, where the source has no offsets."""
    seen = row.observed["truth"]
    return _batch(row, [seen["oldest"] or row.started, seen["newest"] or row.started], row.rows)


def _batch(row: Progress, arrivals: Iterable[float], arrived: int) -> FieldBatch:
    times = tuple(arrivals)
    latest = max(whole_numbers(row.sources[0].latest), row.offsets[1])
    return FieldBatch(
        batch=row.batch,
        started=row.started,
        ended=row.ended,
        arrived=arrived,
        admitted=row.observed.get("truth", {}).get("admitted", arrived),
        oldest=times[0],
        newest=times[-1],
        arrivals=times,
        behind=latest - row.offsets[1],
    )

"""Reads the past of a query: its stream, batch by batch, and what of it is lost."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.jobs.load import LoadedJob
from penstock.settle.past_query import LostBatch, PastQuery
from penstock.settle.reread import frame_of, rereader
from penstock.settle.shed_tuples import keys_of
from penstock.settle.survey import difference
from penstock.settle.touched import Gap
from penstock.settle.window_shape import MICROS, only_stream
from penstock.spark.engine import Engine

BATCHES_AT_ONCE = 16
"""Batches that are decided again in one job of Spark's."""
NOT_KEPT = "what it takes to read it again is not kept any more: see settle_within"
NO_PLAN = "its plan was not written down"


@dataclass(frozen=True)
class Budget:
    """Says for how long work may go on, and where it is asked whether to stop."""

    seconds: float = inf
    check: Callable[[], None] = lambda: None
    """Raises where the user has interrupted."""
    began: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        self.check()
        return self.spent >= self.seconds

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began


class PastStream:
    """Reads the past of one query: its only stream, batch by batch, as it was decided."""

    def __init__(self, spark: SparkSession, loaded: LoadedJob, query: str) -> None:
        self.spark, self.loaded, self.query = spark, loaded, query
        self.name = only_stream(loaded, query)
        self.source = loaded.job.sources[self.name]
        self.engine = Engine(spark)
        self.engine.install()
        self.past = PastQuery.of(self.engine, loaded, query, self.source.lateness)
        self.again = rereader(spark, self.source, loaded.directory, self.past.checkpoint)
        self.keys = keys_of(spark, loaded, query, self.name)
        self.lost: dict[int, LostBatch] = {}
        """Batches that cannot be had any more, shed or not."""
        for batch, arrived in self.past.arrived.items():
            if arrived and batch not in self.past.past:
                self.lose(batch, NOT_KEPT)

    def lose(self, batch: int, why: str) -> None:
        """Notes that a batch cannot be had any more."""
        self.lost[batch] = self.past.lost(batch, why)

    def gaps(self) -> list[Gap]:
        """Answers the stretches of event time of which tuples are lost."""
        found: list[Gap] = []
        for since, until in sorted((its.since, its.until) for its in self.lost.values()):
            if found and since <= found[-1][1]:
                found[-1] = found[-1][0], max(until, found[-1][1])
            else:
                found.append((since, until))
        return found

    def those_that_shed(self, but: set[int]) -> list[list[int]]:
        """Answers the batches that shed, in portions; loses those that cannot be decided again."""
        there = []
        for batch in sorted(batch for batch, shed in self.past.shed.items() if shed):
            if batch in but or batch in self.lost:
                continue
            told = self.past.past[batch]
            if 0 not in told.plans:
                self.lose(batch, NO_PLAN)
            elif gone := self.again.gone(told.offsets[0]):
                self.lose(batch, f"{len(gone)} of its files are gone, such as {gone[0]}")
            else:
                there.append(batch)
        return [there[i : i + BATCHES_AT_ONCE] for i in range(0, len(there), BATCHES_AT_ONCE)]

    def whole(self, batches: set[int]) -> DataFrame:
        """All tuples of some batches."""
        past = self.past.past
        runs = self.past.runs(sorted(batches))
        return frame_of(
            self.again,
            [(past[run[0]].offsets[0][0], past[run[-1]].offsets[0][1]) for run in runs],
        )

    def lose_what_is_gone(self, batches: set[int]) -> None:
        """Finds which of some batches are not as the ledger has them."""
        before = len(self.lost)
        for batch in sorted(batches):
            offsets, arrived = self.past.past[batch].offsets[0], self.past.arrived[batch]
            if gone := self.again.gone(offsets):
                self.lose(batch, f"{len(gone)} of its files are gone, such as {gone[0]}")
            elif why := difference((arrived, 0), (self.again.frame(offsets).count(), 0)):
                self.lose(batch, why)
        if len(self.lost) == before:  # whatever it is, these are not the tuples of that time
            for batch in batches:
                self.lose(batch, "together with others it has not the tuples that it had")

    def told_lost(self, also: set[int]) -> list[dict[str, Any]]:
        """Describes what is lost: what was shed, and what keeps windows from being settled."""
        worth_telling = [n for n, its in self.lost.items() if its.shed or n in also]
        told: list[dict[str, Any]] = []
        for batch in sorted(worth_telling):
            its = self.lost[batch]
            last = told[-1] if told else None
            if last and last["why"] == its.why and last["batches"][1] == batch - 1:
                last["batches"][1] = batch
                last["arrived"] += its.arrived
                last["shed"] += its.shed
                last["until"] = moment(its.until)
            else:
                told.append(
                    {
                        "batches": [batch, batch],
                        "arrived": its.arrived,
                        "shed": its.shed,
                        "since": moment(its.since),
                        "until": moment(its.until),
                        "why": its.why,
                    }
                )
        return told


def moment(micros: float) -> str | None:
    """Writes a time as people read it; None where nobody knows it.

    >>> moment(1_700_000_000_500_000), moment(inf)
    ('2023-11-14T22:13:20.500Z', None)
    """
    if abs(micros) == inf:
        return None
    seconds, rest = divmod(round(micros), MICROS)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest // 1000:03d}Z"

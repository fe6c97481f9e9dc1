"""What a site has written down of a query: its ledger, and its past batches with their plans."""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path

from penstock.errors import PenstockError
from penstock.jobs.inputs import located, site_directory
from penstock.jobs.load import LoadedJob
from penstock.settle.window_shape import MICROS
from penstock.spark.engine import Engine
from penstock.spark.record.ledger import Ledger
from penstock.spark.record.past_batches import PastBatch, recall_past
from penstock.spark.spark_files import Files


@dataclass(frozen=True)
class LostBatch:
    """Says of a batch that it cannot be had any more, why, and which event times it may have."""

    batch: int
    arrived: int
    shed: int
    why: str
    since: float
    until: float
    """Microseconds; infinite where nobody knows."""


@dataclass(frozen=True)
class PastQuery:
    """Holds what is known of the batches of one query."""

    name: str
    id: str
    site: Path
    """The directory of the site."""
    checkpoint: Files
    past: Mapping[int, PastBatch]
    """What it takes to read batches again; those that were pruned are not there."""
    arrived: Mapping[int, int]
    shed: Mapping[int, int]
    """By batch, what the ledger has."""
    lateness: float
    """How far the watermark is behind the newest tuple, in seconds."""

    @classmethod
    def of(cls, engine: Engine, loaded: LoadedJob, query: str, lateness: float) -> "PastQuery":
        """Reads what a job's site has written; raises where it wrote nothing."""
        kept, site = loaded.job.checkpoint, site_directory(loaded)
        if kept is None or site is None:
            raise PenstockError(
                "checkpoint: the job names no directory for its checkpoint, so that nothing of it "
                "is written down: nothing can be settled"
            )
        place = located(kept, loaded.directory)
        checkpoint = engine.files(f"{place}/{query}")
        if not checkpoint.exists("metadata"):
            raise PenstockError(f"{query}: nothing of it is in {place}: the job has not run yet")
        if not (site / "ledger.jsonl").exists():
            raise PenstockError(f"{query}: there is no ledger in {site}: the job has not run yet")
        id = str(json.loads(checkpoint.read("metadata"))["id"])
        arrived: Counter[int] = Counter()
        shed: Counter[int] = Counter()
        for entry in Ledger(site / "ledger.jsonl"):
            if entry.query == id:
                arrived[entry.batch] += entry.arrived
                shed[entry.batch] += entry.shed
        past = recall_past(site, id)
        return cls(query, id, site, checkpoint, past, arrived, shed, lateness)

    @property
    def over(self) -> float:
        """The event time up to which windows are over, in microseconds."""
        return self._marks[-1][1] * MICROS if self._marks else -inf

    def lost(self, batch: int, why: str) -> LostBatch:
        """Describes a batch that cannot be had any more.

        Its tuples are taken to be no older than the watermark that was in force, since older ones
        were late, and no newer than the newest that was admitted in the batch or the next.
        """
        place = bisect_right(self._marks, batch, key=lambda mark: mark[0])
        since = self._marks[place - 1][1] * MICROS if place else -inf
        after = self._marks[place + 1 : place + 2]  # of the second batch that comes later
        until = (after[0][1] + self.lateness) * MICROS if after else inf
        return LostBatch(batch, self.arrived[batch], self.shed[batch], why, since, until)

    @cached_property
    def _marks(self) -> list[tuple[int, float]]:
        """The watermarks that are known, by batch; they only rise."""
        return [(n, its.watermark) for n, its in self.past.items() if its.watermark is not None]

    def runs(self, batches: list[int]) -> Iterator[list[int]]:
        """Splits batches into runs of such as follow each other."""
        run: list[int] = []
        for batch in sorted(batches):
            if run and batch != run[-1] + 1:
                yield run
                run = []
            run.append(batch)
        if run:
            yield run

"""Surveys what was shed: which windows it would have gone into, batch by batch.

Each batch that shed is read once and decided again. What is found is written down, so that nothing
is read twice when settling goes on another time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import functions as sf

from penstock.jobs.inputs import behind
from penstock.jobs.model import SourceEntry
from penstock.settle.past_query import PastQuery
from penstock.settle.reread import Rereader
from penstock.settle.shed_tuples import BATCH, SHED, decided
from penstock.settle.window_shape import WindowShape
from penstock.spark.engine import Engine
from penstock.spark.gate.keys import Keys
from penstock.spark.record.sealed_lines import read_lines, sealed

Buckets = Mapping[int | None, tuple[int, int]]
"""By the latest start of a window that they fall into, how many tuples came and how many were
shed; those without an event time are under None."""


@dataclass
class Survey:
    """Keeps what was found of a query's batches, in a file."""

    file: Path
    shape: WindowShape
    found: dict[int, Buckets]

    @classmethod
    def resumed(cls, past: PastQuery, shape: WindowShape) -> "Survey":
        """Goes on with the file of an earlier call; forgets batches that are not kept any more."""
        file = past.site / "settle" / f"{past.id}.jsonl"
        survey, mark = cls(file, shape, {}), _mark(shape)
        text = file.read_bytes() if file.exists() else b""
        for line in read_lines(text):
            fits = line.fault is None and line.told.get("of") == mark
            if fits and line.told["batch"] in past.past:
                buckets = {bucket: (n, shed) for bucket, n, shed in line.told["buckets"]}
                survey.found[line.told["batch"]] = buckets
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        new.write_text("".join(map(survey._line, survey.found)))
        new.replace(file)
        return survey

    def look(
        self,
        engine: Engine,
        source: SourceEntry,
        keys: Keys,
        past: PastQuery,
        again: Rereader,
        batches: list[int],
    ) -> dict[int, str]:
        """Looks at some batches; answers why, of those that are not as the ledger has them."""
        told: dict[int, dict[int | None, tuple[int, int]]] = {batch: {} for batch in batches}
        with decided(engine, keys, past, again, batches) as tuples:
            counted = (
                behind(tuples, source)
                .groupBy(BATCH, self.shape.bucket().alias("bucket"))
                .agg(sf.count(sf.lit(1)), sf.count_if(SHED))
            )
            for batch, bucket, arrived, shed in counted.collect():
                told[batch][bucket] = arrived, shed
        wrong = {}
        for batch, buckets in told.items():
            why = difference(
                (past.arrived[batch], past.shed[batch]),
                (sum(n for n, _ in buckets.values()), sum(shed for _, shed in buckets.values())),
            )
            if why is not None:
                wrong[batch] = why
            else:
                self.found[batch] = buckets
        with self.file.open("a") as file:
            file.write("".join(self._line(batch) for batch in batches if batch not in wrong))
        return wrong

    def _line(self, batch: int) -> str:
        buckets = [[bucket, *counts] for bucket, counts in self.found[batch].items()]
        return sealed({"of": _mark(self.shape), "batch": batch, "buckets": buckets}) + "\n"


def _mark(shape: WindowShape) -> list[Any]:
    return [shape.time, shape.slide, shape.offset]


def difference(ledger: tuple[int, int], again: tuple[int, int]) -> str | None:
    """Says how a batch that was read again differs from the ledger; None where it does not.

    >>> difference((10, 4), (7, 3))
    'the source has only 7 of its 10 tuples now'
    """
    (arrived, shed), (there, shed_again) = ledger, again
    if there != arrived:
        some = f"only {there:,}" if there else "none"
        return (
            f"the source has {some} of its {arrived:,} tuples now"
            if there < arrived
            else f"the source has {there:,} tuples there now, and {arrived:,} had arrived"
        )
    if shed_again != shed:
        return (
            f"{shed_again:,} tuples would be shed now, and {shed:,} were: what the source has, or "
            "the job's 'strata' or 'id', is not what it was"
        )
    return None

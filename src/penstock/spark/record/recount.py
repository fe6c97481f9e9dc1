"""Counts a batch again whose ledger entry was lost with the driver.

Spark commits a batch, then the site learns of it and writes its ledger entry. A driver that dies
in between leaves a batch whose results are out and whose tuples nobody counted; Spark will not
run it again. But its offsets are in the checkpoint, and the site wrote down what its gates were
told before the batch ran. So the gates alone, without the query behind them, are run over the same
offsets with the same plan, from a checkpoint made for that, into the sink that keeps nothing.
They count what they counted then, since a decision is a function of tuple and plan (law 8).
"""

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.types import Stratum
from penstock.spark.gate.wire import Shipment
from penstock.spark.site_engine import SiteEngine
from penstock.spark.spark_files import Files
from penstock.spark.whole_rows import WholeRows

OFFSET_LOG_VERSION = "v1"
"""Of Spark's offset log, whose entries are read and written here."""


@dataclass(frozen=True)
class GatePlan:
    """What one gate was told, and the strata that it knew then, by ordinal."""

    shipment: Shipment
    packed_strata: bytes
    """Pickled once for many batches, as the strata of a table seldom change."""

    @classmethod
    def pack(cls, fingerprints: Mapping[Stratum, int]) -> bytes:
        return pickle.dumps(dict(fingerprints), protocol=pickle.HIGHEST_PROTOCOL)

    @property
    def fingerprints(self) -> Mapping[Stratum, int]:
        known: dict[Stratum, int] = pickle.loads(self.packed_strata)
        return known


@dataclass
class BatchPlan:
    """What was in force in the batch that a query planned last."""

    query: str
    """Spark's id of the query, which is in its checkpoint."""
    batch: int
    gates: dict[int, GatePlan] = field(default_factory=dict)
    whole_rows: WholeRows = field(default_factory=WholeRows)


def last_committed(checkpoint: Files) -> int | None:
    """The newest batch that Spark has committed."""
    numbers = [int(name) for name in checkpoint.names("commits") if name.isdigit()]
    return max(numbers, default=None)


def offsets_in(checkpoint: Files, batch: int) -> tuple[tuple[Any, Any], ...]:
    """Where each source begins and ends in a batch, by Spark's log of offsets."""
    after = _lines(checkpoint.read(f"offsets/{batch}"))
    before = _lines(checkpoint.read(f"offsets/{batch - 1}")) if batch else [None] * len(after)
    return tuple(zip(before, after, strict=True))


def _lines(entry: str) -> list[Any]:
    return [None if line == "-" else json.loads(line) for line in entry.split("\n")[2:]]


def recount(
    engine: SiteEngine,
    gated: Sequence[DataFrame],
    whole: StreamingQuery | DataFrame,
    location: str,
    batch: int,
) -> Mapping[str, Any]:
    """Observed metrics by gate, of a batch that was committed to the checkpoint at ``location``.

    ``gated`` are the gates' streams, ``whole`` the query that they are part of.
    """
    ones = [stream.select(sf.lit(1).alias("one")) for stream in gated]
    gates = reduce(DataFrame.union, ones)
    sources = _places(engine, gates, whole)
    old, new = engine.files(location), engine.files(f"{location}.recount")
    new.delete()  # of an earlier attempt
    try:
        new.write("metadata", json.dumps({"id": str(uuid4())}))
        for number in range(max(batch - 1, 0), batch + 1):
            new.write(f"offsets/{number}", _selected(old.read(f"offsets/{number}"), sources))
        if batch:
            old.copy(f"commits/{batch - 1}", new, f"commits/{batch - 1}")
        for new_place, place in enumerate(sources):
            old.copy(f"sources/{place}", new, f"sources/{new_place}")
        writer = gates.writeStream.format("noop").trigger(once=True)
        query = writer.option("checkpointLocation", f"{location}.recount").start()
        query.awaitTermination()
        told = next(p for p in query.recentProgress if p.batchId == batch)
        return dict(told.observedMetrics)
    finally:
        new.delete()


def _places(engine: SiteEngine, part: DataFrame, whole: StreamingQuery | DataFrame) -> list[int]:
    """For each source of ``part``, its place among those of ``whole``."""
    everything = engine.sources_in(whole)
    return [
        next(i for i, source in enumerate(everything) if source.equals(mine))
        for mine in engine.sources_in(part)
    ]


def _selected(offsets: str, sources: Sequence[int]) -> str:
    """An offset log's entry with some of its sources: a version, metadata, a line a source."""
    version, metadata, *lines = offsets.split("\n")
    if version != OFFSET_LOG_VERSION:
        raise ValueError(
            f"the checkpoint's offsets have the format {version!r}, not {OFFSET_LOG_VERSION!r}"
        )
    return "\n".join([version, metadata, *(lines[place] for place in sources)])

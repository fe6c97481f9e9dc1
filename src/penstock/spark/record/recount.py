"""Counts a batch again whose ledger entry was lost with the driver.

Spark commits a batch, then the site learns of it and writes its ledger entry. A driver that dies
in between leaves a batch whose results are out and whose tuples nobody counted; Spark will not
run it again. But its offsets are in the checkpoint, and the site wrote down what its gates were
told before the batch ran. So the gates alone, without the job behind them, are run over the same
offsets with the same plan, from a checkpoint made for that, into the sink that keeps nothing.
They count what they counted then, since a decision is a function of tuple and plan (law 8).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.core.types import Stratum
from penstock.spark.gate.wire import Shipment


@dataclass(frozen=True)
class Kept:
    """What one gate was told, and the strata that it knew then, by ordinal."""

    shipment: Shipment
    fingerprints: Mapping[Stratum, int]


@dataclass
class Planned:
    """What was in force in the batch that a job planned last."""

    query: str
    """Spark's id of the query, which is in its checkpoint."""
    batch: int
    gates: dict[int, Kept] = field(default_factory=dict)


class Checkpoint:
    """A query's checkpoint on any file system that Spark can reach."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        context: Any = spark.sparkContext
        session: Any = spark._jsparkSession
        self._jvm: Any = context._jvm
        self._conf = session.sessionState().newHadoopConf()
        self._root = self._jvm.org.apache.hadoop.fs.Path(location)
        self._files: Any = self._root.getFileSystem(self._conf)

    def query(self) -> str | None:
        """The id of the query that it belongs to; None where no query has run yet."""
        if not self._files.exists(self._path("metadata")):
            return None
        return str(json.loads(self.read("metadata"))["id"])

    def last_committed(self) -> int | None:
        folder = self._path("commits")
        if not self._files.exists(folder):
            return None
        names = [status.getPath().getName() for status in self._files.listStatus(folder)]
        return max((int(name) for name in names if name.isdigit()), default=None)

    def read(self, name: str) -> str:
        stream = self._files.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        stream = self._files.create(self._path(name))
        try:
            self._jvm.org.apache.commons.io.IOUtils.write(text, stream, "UTF-8")
        finally:
            stream.close()

    def copy(self, name: str, to: "Checkpoint", new_name: str) -> None:
        """A file or a folder, where there is one."""
        source, target = self._path(name), to._path(new_name)
        if self._files.exists(source):
            to._files.mkdirs(target.getParent())
            copy = self._jvm.org.apache.hadoop.fs.FileUtil.copy
            copy(self._files, source, to._files, target, False, self._conf)

    def delete(self) -> None:
        self._files.delete(self._root, True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)


def recount(
    spark: SparkSession, gated: Sequence[DataFrame], whole: DataFrame, location: str, batch: int
) -> Mapping[str, Any]:
    """Observed metrics by gate, of a batch that was committed to the checkpoint at ``location``.

    ``gated`` are the gates' streams, ``whole`` the query that they are part of.
    """
    ones = [stream.select(sf.lit(1).alias("one")) for stream in gated]
    gates = reduce(DataFrame.union, ones)
    sources = _places(gates, whole)
    old, new = Checkpoint(spark, location), Checkpoint(spark, f"{location}.recount")
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


def _places(part: DataFrame, whole: DataFrame) -> list[int]:
    """For each source of ``part``, its place among those of ``whole``."""
    everything = _sources(whole)
    return [next(i for i, s in enumerate(everything) if s.equals(mine)) for mine in _sources(part)]


def _sources(frame: DataFrame) -> list[Any]:
    """The streams that a query reads, in the order in which its checkpoint has them."""
    jdf: Any = frame._jdf
    leaves = jdf.queryExecution().analyzed().collectLeaves()
    found: list[Any] = []
    for i in range(leaves.size()):
        leaf = leaves.apply(i)
        if leaf.isStreaming() and not any(leaf.equals(other) for other in found):
            found.append(leaf)
    return found


def _selected(offsets: str, sources: Sequence[int]) -> str:
    """An offset log's entry with some of its sources: a version, metadata, a line a source."""
    version, metadata, *lines = offsets.split("\n")
    if version != "v1":
        raise ValueError(f"the checkpoint's offsets have the format {version!r}, not 'v1'")
    return "\n".join([version, metadata, *(lines[place] for place in sources)])

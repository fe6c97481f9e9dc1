"""Reads a stretch of a source again: the same tuples that a query read in some of its batches.

A batch is known by the offsets between which it read. Kafka's are given back to Spark as they are.
Those of files number the entries of the log in which Spark notes what it has read; the log is in
the query's checkpoint.
"""

import json
import re
from collections.abc import Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import PenstockError
from penstock.jobs.inputs import located, read
from penstock.jobs.model import SourceEntry
from penstock.spark.engine import Engine
from penstock.spark.spark_files import Files

Run = tuple[Any, Any]
"""The offsets before and after some batches that follow each other."""
SOURCE = "sources/0"
"""Where a checkpoint has what its only stream notes down."""
GLOB = set("*?[{")


class Rereader(Protocol):
    """Reads stretches of one source."""

    def frame(self, run: Run) -> DataFrame:
        """The tuples between two offsets, with the columns of the stream."""

    def gone(self, run: Run) -> list[str]:
        """What is known to be there no more, by name, before anything is read."""


def rereader(spark: SparkSession, source: SourceEntry, directory: Path, kept: Files) -> Rereader:
    """Answers what reads a source of a job again; ``kept`` is the checkpoint of the query."""
    if source.format == "kafka":
        return KafkaAgain(spark, source, kept)
    if source.format == "files":
        return FilesAgain(spark, source, directory, kept)
    raise PenstockError(
        f"a source of the format {source.format!r} cannot be read again: kafka and files can"
    )


def frame_of(again: Rereader, runs: Sequence[Run]) -> DataFrame:
    """All tuples of some runs."""
    return reduce(DataFrame.unionByName, [again.frame(run) for run in runs])


class KafkaAgain:
    """Reads messages by partition and offset."""

    STREAMS_ONLY = re.compile(
        r"subscribe(pattern)?|assign|(starting|ending)(offsets|timestamp)(bytimestamp)?"
        r"|failondataloss|(max|min)offsetspertrigger|maxtriggerdelay|kafka\.group\.id"
    )
    """Options that say what a stream reads and how fast; a stretch is told apart by offsets."""

    def __init__(self, spark: SparkSession, source: SourceEntry, kept: Files) -> None:
        self._spark, self._kept = spark, kept
        self._options = {
            key: value
            for key, value in source.options.items()
            if not self.STREAMS_ONLY.fullmatch(key.lower())
        }

    def frame(self, run: Run) -> DataFrame:
        before, after = run[0] or self._first, run[1]
        earliest = {
            topic: {number: before.get(topic, {}).get(number, -2) for number in partitions}
            for topic, partitions in after.items()
        }
        assigned = {topic: [int(number) for number in its] for topic, its in after.items()}
        given = {
            "assign": json.dumps(assigned),
            "startingOffsets": json.dumps(earliest),
            "endingOffsets": json.dumps(after),
            "failOnDataLoss": "false",  # whoever reads compares counts with the ledger
        }
        return self._spark.read.format("kafka").options(**self._options, **given).load()

    def gone(self, run: Run) -> list[str]:
        """Nothing: only reading tells."""
        del run
        return []

    @cached_property
    def _first(self) -> Any:
        """Where the query began, which Spark writes down before its first batch."""
        told = self._kept.read(f"{SOURCE}/0")
        return json.loads(told[told.index("{") :])


class FilesAgain:
    """Reads files by the log of those that were read."""

    def __init__(
        self, spark: SparkSession, source: SourceEntry, directory: Path, kept: Files
    ) -> None:
        self._spark, self._kept = spark, kept
        self._engine = Engine(spark)
        self._schema = read(spark, source, directory).schema
        self._options = dict(source.options)
        self._kind = self._options.pop("type", "parquet")
        place = located(source.path or "", directory)
        if not GLOB & set(place):
            self._options.setdefault("basePath", place)

    def frame(self, run: Run) -> DataFrame:
        reader = self._spark.read.format(self._kind).options(**self._options)
        return reader.schema(self._schema).load(self._names(run))

    def gone(self, run: Run) -> list[str]:
        names = (name.rpartition("/") for name in self._names(run))
        places = [(self._engine.files(folder), folder, file) for folder, _, file in names]
        return [f"{folder}/{file}" for there, folder, file in places if not there.exists(file)]

    def _names(self, run: Run) -> list[str]:
        first = -1 if run[0] is None else int(run[0]["logOffset"])
        last = int(run[1]["logOffset"])
        return [name for entry, name in self._log if first < entry <= last]

    @cached_property
    def _log(self) -> list[tuple[int, str]]:
        """Each file that was read, after the number of its entry."""
        names = self._kept.names(SOURCE)
        compact = max((_number(name) for name in names if name.endswith(".compact")), default=-1)
        wanted = [name for name in names if name.isdigit() and int(name) > compact]
        wanted += [f"{compact}.compact"] if compact >= 0 else []
        found: set[tuple[int, str]] = set()
        for name in wanted:
            for line in self._kept.read(f"{SOURCE}/{name}").split("\n")[1:]:
                if line.strip():
                    told = json.loads(line)
                    found.add((int(told["batchId"]), unquote(told["path"])))
        return sorted(found)


def _number(name: str) -> int:
    return int(name.removesuffix(".compact"))

"""Carries rows from the fragments of a query to the one that reads them.

A link is a directory of files, or a Kafka topic where the federation names brokers (see
``kafka_link``).

A sender writes the rows of a micro-batch into one Parquet file, beside the directory, and renames
it into it. The name has the sender, Spark's id of its checkpoint, and the batch, so that a batch
that runs again after a crash, here or at another site that goes on from the checkpoint, replaces
its file by an equal one and doubles nothing. All senders of a relation write into
one directory: it is one stream with one watermark, so that a dead sender holds nobody back.

The reader is Spark's file source, which deletes files that it has read. What nobody reads, the
sender deletes after ``KEPT_SECONDS``, so that a link is bounded on disk also where its reader is
dead. Spark's own file sink would not do: its log of files grows for ever, and Spark refuses to
clean up what is listed there.
"""

import contextlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import PenstockError

log = logging.getLogger("penstock")
KEPT_SECONDS = 3600.0
"""What a reader has not taken by then is deleted."""
CLEANED_EVERY_BATCHES = 100
"""A sender looks for old files of its own in one batch of so many."""
UNFINISHED = ".unfinished"
"""The directory beside a link's files in which these are written; Spark reads no hidden files."""
PROBED_BYTES = 4096
"""What is written into a link to find out whether it can be written: a file system that is full
still takes a file without anything in it."""
Clock = Callable[[], float]


class LinkError(PenstockError):
    """Is raised where a link cannot be written or read; its message says which, and why."""


def checkpoint_name(checkpoint: Path) -> str:
    """Returns Spark's id of a checkpoint, which is there once a query has begun."""
    identity = str(json.loads((checkpoint / "metadata").read_text())["id"])
    return identity.partition("-")[0]


class LinkName(NamedTuple):
    """Names the link by which one replica of a fragment reads a relation."""

    query: str
    receiver: str
    relation: str
    replica: int = 0


class Sending(Protocol):
    """Sends rows to all who read them."""

    def check(self) -> None:
        """Raises a ``LinkError`` where it is known that nothing can be sent."""

    def write(self, rows: DataFrame, batch: int) -> int:
        """Sends the rows of a batch, once also where it runs again; returns how many."""


class Links(Protocol):
    """Is how the fragments of a federation reach each other."""

    def writer(self, names: Sequence[LinkName], sender: str, checkpoint: str) -> Sending:
        """Returns what sends rows to all of these."""

    def read(self, spark: SparkSession, name: LinkName, columns: str) -> DataFrame:
        """Streams what comes by a link; ``columns`` are those that its senders write."""

    def once(self, rows: DataFrame) -> DataFrame:
        """Drops rows that came twice, where links can double them; rows have a watermark."""


class DirectoryLinks:
    """Is links that are directories below one that all sites share."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def directory(self, name: LinkName) -> Path:
        """Says where the files of a link lie."""
        return self._root / name.query / f"{name.receiver}.{name.replica}" / name.relation

    def writer(self, names: Sequence[LinkName], sender: str, checkpoint: str) -> "LinkWriter":
        """Returns what writes files into all of these."""
        return LinkWriter([self.directory(name) for name in names], sender, checkpoint)

    def read(self, spark: SparkSession, name: LinkName, columns: str) -> DataFrame:
        """Streams the files of a link."""
        return read_link(spark, self.directory(name), columns)

    def once(self, rows: DataFrame) -> DataFrame:
        """Returns the rows: a file that is written again is not read again."""
        return rows


class LinkWriter:
    """Writes a sender's rows into the links of all who read them."""

    def __init__(
        self, directories: list[Path], sender: str, checkpoint: str, clock: Clock = time.time
    ) -> None:
        self._directories, self._clock = directories, clock
        self._prefix = f"{sender}+{checkpoint}-"
        self.check()

    def check(self) -> None:
        """Makes the directories, and tries whether they can be written."""
        for directory in self._directories:
            probe = directory / UNFINISHED / f"{self._prefix}probe"
            with _told_as_link_error(directory, "written"):
                probe.parent.mkdir(parents=True, exist_ok=True)
                probe.write_bytes(bytes(PROBED_BYTES))
                probe.unlink()

    def write(self, rows: DataFrame, batch: int) -> int:
        """Writes the rows of a batch, all of them or none, and returns how many these are.

        Raises a ``LinkError`` where it is the link that cannot take them.
        """
        try:
            return self._write(rows, batch)
        except Exception:
            self.check()
            raise

    def _write(self, rows: DataFrame, batch: int) -> int:
        written = self._directories[0] / UNFINISHED / f"{self._prefix}{batch}"
        try:
            rows.repartition(1).write.mode("overwrite").parquet(str(written))
            counts = {part: _rows_in(part) for part in written.glob("part-*.parquet")}
            for part in filter(counts.get, counts):  # a reader runs a batch for every file
                self._hand_over(part, batch)
        finally:
            shutil.rmtree(written, ignore_errors=True)
        if batch % CLEANED_EVERY_BATCHES == 0:
            self._clean()
        return sum(counts.values())

    def _hand_over(self, part: Path, batch: int) -> None:
        """Renames a file into each link: first to a name of its own there, since a link may be on
        another file system, and readers must see a whole file or none.
        """
        name = f"{self._prefix}{batch:012d}.parquet"
        for directory in self._directories[1:]:
            copy = directory / UNFINISHED / name
            shutil.copyfile(part, copy)
            copy.replace(directory / name)
        part.replace(self._directories[0] / name)

    def _clean(self) -> None:
        """Deletes files of this sender that nobody has read for long."""
        oldest = self._clock() - KEPT_SECONDS
        for directory in self._directories:
            for file in directory.glob(f"{self._prefix}*.parquet"):
                with contextlib.suppress(FileNotFoundError):  # its reader was quicker
                    if file.stat().st_mtime < oldest:
                        file.unlink()
                        log.warning("%s was not read for an hour and is deleted", file)


@contextlib.contextmanager
def _told_as_link_error(directory: Path, what: str) -> Iterator[None]:
    """Says which link it is, where the file system raises."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise LinkError(f"the link {directory} cannot be {what}: {why}") from None


def _rows_in(file: Path) -> int:
    return int(import_module("pyarrow.parquet").read_metadata(file).num_rows)


def read_link(spark: SparkSession, directory: Path, columns: str) -> DataFrame:
    """Streams what comes by a link; ``columns`` are those that its senders write."""
    with _told_as_link_error(directory, "read"):
        directory.mkdir(parents=True, exist_ok=True)
    return (
        spark.readStream.schema(columns)
        .option("pathGlobFilter", "*.parquet")
        .option("cleanSource", "delete")
        .option("maxFileAge", f"{2 * KEPT_SECONDS:.0f}s")
        .parquet(str(directory))
    )

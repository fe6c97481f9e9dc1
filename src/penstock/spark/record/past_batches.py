"""Remembers batches for those who settle later: what each read, and by which plan it shed.

Spark's checkpoint forgets the offsets of all but the last hundred batches, and a site needs only
the plan of its newest one. So each batch gets a line here when it is counted: the offsets between
which it read, the span of event time that it admitted, and, where it shed, the thresholds of its
gates by stratum. That is all that it takes to read the batch again and to decide on each of its
tuples as was decided then.

Lines are compressed and stand in segments. What is older than the site was asked to keep goes, and
so does the oldest where all segments together are larger than they may be.
"""

import json
import logging
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.settings import USUAL_SETTLE_SECONDS
from penstock.core.types import Ints
from penstock.spark.gate.table import Table
from penstock.spark.gate.wire import Shipment
from penstock.spark.record.sealed_lines import Fault, read_lines, sealed

log = logging.getLogger("penstock")
FOLDER = "past"
"""Where the segments are in the directory of a site, in a folder for each query by Spark's id."""
SEGMENT_BYTES = 1_000_000
MOST_BYTES = 256_000_000
"""What all segments of a site may have together."""


@dataclass(frozen=True)
class PastBatch:
    """Says what a batch read, and by which plans; times are seconds since the epoch."""

    batch: int
    began: float
    offsets: tuple[tuple[Any, Any], ...]
    """Of each source, where the batch begins and where it ends, as Spark tells them."""
    timed: bool = False
    """Whether the next three are known; they are not of a batch that was counted after a crash."""
    oldest: float | None = None
    newest: float | None = None
    """The event times that it admitted; None where it admitted none."""
    watermark: float | None = None
    """The watermark that was in force; None before there was one."""
    plans: Mapping[int, Shipment] = field(default_factory=dict)
    """By gate, of those that shed."""


def those_that_shed(
    plans: Mapping[int, Shipment], counted: Mapping[int, Mapping[str, Any]]
) -> dict[int, Shipment]:
    """Answers the plans of the gates that shed, by what each counted."""
    return {
        number: plan
        for number, plan in plans.items()
        if int(counted[number]["arrived"]) > int(counted[number]["admitted"])
    }


class PastBatches:
    """Writes the lines of one site."""

    def __init__(self, directory: Path | None, keep_seconds: float = USUAL_SETTLE_SECONDS) -> None:
        self._folder = directory and keep_seconds and directory / FOLDER
        self._keep_seconds = keep_seconds
        self._open: dict[str, _Segment] = {}

    def note(self, query: str, past: PastBatch) -> None:
        """Writes down a batch of the query with this id."""
        if not self._folder:
            return
        try:
            segment = self._segment(self._folder / query, query, past.batch)
            segment.write(past)
        except OSError as error:
            self._open.pop(query, None)  # what stands at its end may be half a line
            log.error("batch %d cannot be settled later: %s", past.batch, error)

    def _segment(self, folder: Path, query: str, batch: int) -> "_Segment":
        segment = self._open.get(query)
        if segment is None or segment.size > SEGMENT_BYTES:
            self._prune()
            folder.mkdir(parents=True, exist_ok=True)
            segment = _Segment(folder / f"{batch:012d}-{time.time_ns()}.jsonl")
            self._open[query] = segment
        return segment

    def _prune(self) -> None:
        """Deletes segments that are too old, and the oldest where there are too many."""
        assert self._folder
        writing = {segment.path for segment in self._open.values()}
        found = [path for path in self._folder.glob("*/*.jsonl") if path not in writing]
        room, oldest = float(MOST_BYTES), time.time() - self._keep_seconds
        for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True):
            room -= path.stat().st_size
            if room < 0 or path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if not any(folder.iterdir()):
                folder.rmdir()


class _Segment:
    """A file of lines; a table of strata stands in it once, before the first line that needs it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._tables: set[int] = set()

    def write(self, past: PastBatch) -> None:
        tables = {plan.table.number: plan.table for plan in past.plans.values()}
        new = {number: tables[number] for number in tables.keys() - self._tables}
        text = "".join(
            sealed(line) + "\n" for line in (*map(_table_line, new.values()), _line(past))
        )
        with self.path.open("a") as file:
            file.write(text)
        self._tables |= new.keys()
        self.size += len(text)


def recall_past(directory: Path, query: str) -> dict[int, PastBatch]:
    """Answers the batches of a query that a site remembers, by number.

    A damaged line is left out; so is a batch whose table is not to be had.
    """
    found: dict[int, PastBatch] = {}
    for path in sorted((directory / FOLDER / query).glob("*.jsonl"), key=_age):
        for past in _read(path):
            found[past.batch] = past
    return dict(sorted(found.items()))


def _age(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _read(path: Path) -> Iterator[PastBatch]:
    tables: dict[int, Table] = {}
    for line in read_lines(path.read_bytes()):
        if line.fault is None and "table" in line.told:
            table = _table(line.told)
            tables[table.number] = table
        elif line.fault is None and "batch" in line.told:
            try:
                yield _past(line.told, tables)
            except KeyError:
                log.error("%s:%d: the table of strata is missing", path, line.number)
        elif line.fault is not Fault.TORN:
            log.error("%s:%d: damaged, and not believed", path, line.number)


# --- lines --------------------------------------------------------------------------------------


def _line(past: PastBatch) -> dict[str, Any]:
    told = {
        "began": past.began,
        "offsets": past.offsets,
        "timed": past.timed,
        "oldest": past.oldest,
        "newest": past.newest,
        "watermark": past.watermark,
        "plans": {
            gate: [plan.version, plan.table.number, _packed(plan.thresholds)]
            for gate, plan in past.plans.items()
        },
    }
    return {"batch": past.batch, "told": _text(zlib.compress(json.dumps(told).encode()))}


def _past(line: Mapping[str, Any], tables: Mapping[int, Table]) -> PastBatch:
    told = json.loads(zlib.decompress(b64decode(line["told"])))
    plans = {
        int(gate): _shipment(version, tables[number], _unpacked(thresholds))
        for gate, (version, number, thresholds) in told.pop("plans").items()
    }
    offsets = tuple((before, after) for before, after in told.pop("offsets"))
    return replace(PastBatch(line["batch"], told.pop("began"), offsets, plans=plans), **told)


def _shipment(version: int, table: Table, thresholds: Ints) -> Shipment:
    """A plan as far as it decides; what it stamped the tuples with is in the results."""
    return Shipment(version, False, table, thresholds, np.ones(thresholds.size))


def _table_line(table: Table) -> dict[str, Any]:
    return {
        "table": table.number,
        "mask": table.mask,
        "keys": _packed(table.keys),
        "ordinals": _packed(table.ordinals),
    }


def _table(told: Mapping[str, Any]) -> Table:
    keys, ordinals = _unpacked(told["keys"]), _unpacked(told["ordinals"])
    return Table(told["mask"], keys, ordinals, told["table"])


def _packed(numbers: Ints) -> str:
    return _text(zlib.compress(numbers.astype("<i8").tobytes(), 1))


def _unpacked(text: str) -> Ints:
    return np.frombuffer(zlib.decompress(b64decode(text)), dtype="<i8").astype(np.int64)


def _text(data: bytes) -> str:
    return b64encode(data).decode()

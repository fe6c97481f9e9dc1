"""CoD's window manager: any Python function of a window's rows, at a fraction of the rows.

    medians = process_windows(
        trips, lambda rows: {"fare": float(rows["fare"].median())}, "fare double",
        time="pickup", groups="route", window="30m", slide="10m", keep=0.03,
    )

Aggregates that Spark knows need no raw tuples: put a gate in front of them. A median, a model or a
plot does. Tuples are stored with their groups' frequencies as they come; when the watermark passes
a window's end, the frequencies say how many of each group stay, one scan finds them, and the
function sees each group's rows, with ``_weight`` (what each stands for). ``shed`` may be "uniform"
or "none" instead, for comparison, behind the same interface.

State is bounded by ``most`` tuples a pane and shard, and evicted with the last window that needs
it. It lives in Spark's state store (``transformWithState``, which needs RocksDB there): a restart
goes on where it was, and a micro-batch writes what came in it and nothing else.
"""

import pickle
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from penstock.errors import PenstockError
from penstock.spark import arguments
from penstock.spark.gate.columns import WEIGHT
from penstock.spark.gate.keys import group_name
from penstock.units import as_share, seconds
from penstock.windows.buffer import Buffer, Chunk, Staged, window_ends, window_panes
from penstock.windows.sampling import Shedder, shedder

Function = Callable[[pd.DataFrame], Mapping[str, Any]]
"""From the rows of a group in a window to the columns of its result."""
SHARD, MOMENT, GROUP = "_shard", "_moment", "_group"
RESERVED = ("start", "end", "group", "kept", "arrived", "millis")
MEASURED = "kept bigint, arrived bigint, millis double"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def process_windows(
    stream: DataFrame,
    function: Function,
    schema: str,
    *,
    time: str,
    groups: str | Sequence[str] = (),
    window: float | str,
    slide: float | str | None = None,
    shed: str = "concept",
    keep: float | str = 1.0,
    most: int | None = 1_000_000,
    shards: int = 1,
) -> DataFrame:
    """A row for each group of each window: start, end, group, what the function gives (``schema``),
    and ``kept``, ``arrived`` and ``millis`` of the whole window's shedding and processing.

    The stream needs a watermark on ``time``; tuples without a time are left out. Groups are divided
    between ``shards``, each with the same share of its own tuples, and then ``kept``, ``arrived``
    and ``millis`` are a shard's. Behind a gate, ``_weight`` is what a row stands for after both.
    """
    names = arguments.columns("groups", groups, stream.columns)
    arguments.watermarked(stream, time)
    if not isinstance(shards, int) or shards < 1:
        raise PenstockError(f"shards: a number of tasks such as 2, not {shards!r}")
    if most is not None and (not isinstance(most, int) or most < 1):
        raise PenstockError(f"most: a number of tuples such as 1_000_000, not {most!r}")
    results = arguments.result_columns(schema, RESERVED)
    length = arguments.duration("window", window)
    step = length if slide is None else arguments.duration("slide", slide)
    for name, duration in (("window", length), ("slide", step)):
        if abs(duration * 1e6 - round(duration * 1e6)) > 1e-3:
            raise PenstockError(f"{name}: {duration} s is no whole number of microseconds")
    if abs(length / step - round(length / step)) > 1e-9:
        raise PenstockError(f"a window of {seconds(length)} s is no multiple of its slide {step} s")
    kept = shedder(shed, as_share("keep", keep))
    manager = Manager(function, kept, length, step, most, tuple(stream.columns), results)
    group = group_name(names)
    keyed = stream.where(sf.col(time).isNotNull()).select(
        "*",
        sf.col(time).cast("double").alias(MOMENT),
        group.alias(GROUP),
        sf.pmod(sf.xxhash64(group), sf.lit(shards)).cast("int").alias(SHARD),
    )
    kinds = f"start timestamp, end timestamp, `group` string, {schema}, {MEASURED}"
    stream.sparkSession.conf.set(PROVIDER, ROCKSDB)  # queries that exist keep what they began with
    return keyed.groupBy(SHARD).transformWithStateInPandas(manager, kinds, "append", "EventTime")


@dataclass
class Books:
    """What a shard has stored."""

    done: float = -np.inf
    """The end of the last window that was processed."""
    parts: dict[int, list[int]] = field(default_factory=dict)
    """By pane: how many tuples are in each of its chunks."""


class Manager(StatefulProcessor):
    """Called by Spark for a shard: with rows that came, or when a window's time has come."""

    def __init__(
        self,
        function: Function,
        shedder: Shedder,
        length: float,
        slide: float,
        most: int | None,
        columns: tuple[str, ...],
        results: tuple[str, ...],
    ) -> None:
        self.function, self.shedder = function, shedder
        self.length, self.slide, self.most = length, slide, most
        self.columns, self.results = columns, results

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._books = handle.getValueState("books", "books binary")
        self._chunks = handle.getMapState("chunks", "pane bigint, part int", "chunk binary")

    def close(self) -> None:
        pass

    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        del timerValues
        books = self._read()
        for some in rows:
            self._store(books, some, int(key[0]))
        for end in self._ends(books):
            self._handle.registerTimer(round(end * 1000))
        self._write(books)
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        del key, timerValues
        books, now = self._read(), expiredTimerInfo.getExpiryTimeInMs()
        for end in self._ends(books):
            if round(end * 1000) <= now:
                yield self.process(self._window(books, end), end)
                self._evict(books, end)
        self._write(books)

    # --- state -------------------------------------------------------------------------------

    def _read(self) -> Books:
        stored = self._books.get()
        return Books() if stored is None else pickle.loads(stored[0])

    def _write(self, books: Books) -> None:
        if books.parts:
            self._books.update((pickle.dumps(books, protocol=5),))
        else:
            self._books.clear()

    def _ends(self, books: Books) -> list[float]:
        return window_ends(books.parts, self.length, self.slide, books.done)

    def _store(self, books: Books, rows: pd.DataFrame, shard: int) -> None:
        """The seed is a function of the state, so that a retry draws the same luck (law 8)."""
        # by place: Spark gives columns whose names begin with "_" other names here
        rows = rows.set_axis([*self.columns, MOMENT, GROUP, SHARD], axis=1)
        columns = {name: rows[name].to_numpy() for name in self.columns}
        moment = rows[MOMENT].to_numpy(dtype=np.float64)
        stored = sum(map(sum, books.parts.values()))
        seed = (shard, stored, int(moment.min() * 1000) if moment.size else 0)
        fresh = Buffer(self.length, self.slide, done=books.done)
        groups = rows[GROUP].to_numpy(dtype=np.str_)
        for chunk in fresh.add(moment, groups, columns, seed).chunks:
            self._append(books, chunk)
            if self.most is not None and sum(books.parts[chunk.pane]) > self.most:
                self._thin(books, chunk.pane)

    def _append(self, books: Books, chunk: Chunk) -> None:
        parts = books.parts.setdefault(chunk.pane, [])
        self._chunks.updateValue((chunk.pane, len(parts)), (pickle.dumps(chunk, protocol=5),))
        parts.append(chunk.key.size)

    def _thin(self, books: Books, pane: int) -> None:
        chunks = self._stored(books, [pane])
        thinned = Buffer(self.length, self.slide, self.most, chunks).bounded()
        self._forget(books, pane)
        for chunk in thinned.chunks:
            self._append(books, chunk)

    def _stored(self, books: Books, panes: Sequence[int]) -> tuple[Chunk, ...]:
        keys = [(pane, part) for pane in panes for part in range(len(books.parts[pane]))]
        found = [cast(Any, self._chunks.getValue(key)) for key in keys]
        return tuple(pickle.loads(value[0]) for value in found)

    def _forget(self, books: Books, pane: int) -> None:
        for part in range(len(books.parts.pop(pane))):
            self._chunks.removeKey((pane, part))

    def _window(self, books: Books, end: float) -> Buffer:
        panes = [pane for pane in self._panes(end) if pane in books.parts]
        return Buffer(self.length, self.slide, chunks=self._stored(books, panes))

    def _evict(self, books: Books, end: float) -> None:
        """Of the panes of a window, the next one needs all but the first."""
        books.done, first = end, self._panes(end).start
        for pane in [pane for pane in books.parts if pane <= first]:
            self._forget(books, pane)

    def _panes(self, end: float) -> range:
        return window_panes(end, self.length, self.slide)

    # --- a window ----------------------------------------------------------------------------

    def process(self, buffer: Buffer, end: float) -> pd.DataFrame:
        """The concept, one scan, shed, and the function; and how long all of it took."""
        began = clock.perf_counter()
        staged = buffer.take(end, self.shedder)
        names = ["start", "end", "group", *self.results]
        result = pd.DataFrame(self._results(staged), columns=names)  # even where no row was kept
        result["kept"], result["arrived"] = staged.group.size, staged.arrived
        result["millis"] = (clock.perf_counter() - began) * 1000
        return result

    def _results(self, staged: Staged) -> list[dict[str, Any]]:
        weight = staged.weight * staged.columns.get(WEIGHT, 1.0)
        rows = pd.DataFrame({**staged.columns, WEIGHT: weight})
        order = np.argsort(staged.group, kind="stable")
        sizes = np.bincount(staged.group, minlength=staged.names.size)
        ends = np.cumsum(sizes)
        ordered = rows.take(order)
        span = {
            # with a zone: Spark takes times without one for those of the session
            "start": _timestamp(staged.end - self.length),
            "end": _timestamp(staged.end),
        }
        return [
            {
                **span,
                "group": str(staged.names[g]),
                **self._applied(ordered.iloc[ends[g] - sizes[g] : ends[g]]),
            }
            for g in np.flatnonzero(sizes).tolist()
        ]

    def _applied(self, rows: pd.DataFrame) -> Mapping[str, Any]:
        result = self.function(rows)
        if not isinstance(result, Mapping) or set(result) != set(self.results):
            raise PenstockError(
                f"process_windows: the function answered {result!r}, and its schema has the "
                f"columns {', '.join(self.results)}: answer a dictionary with just these"
            )
        return result


def _timestamp(moment: float) -> pd.Timestamp:
    """In whole microseconds, as Spark has it: a tenth of a second is no binary fraction."""
    return pd.Timestamp(round(moment * 1e6), unit="us", tz="UTC")

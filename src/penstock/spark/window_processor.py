"""Processes windows as CoD does: any Python function of a window's rows, at a part of the rows.

    medians = process_windows(
        trips, lambda rows: {"fare": float(rows["fare"].median())}, "fare double",
        time="pickup", groups="route", window="30m", slide="10m", keep=0.03,
    )

Aggregates that Spark knows need no raw tuples: put a gate in front of them. A median, a model or a
plot does. The processor stores tuples as they come, and counts each group's. When the watermark
passes a window's end, the counts say how many tuples of each group stay, one scan finds them, and
the function gets each group's rows, with ``_weight``, the number of tuples that each stands for.
``shed`` may be "uniform" or "none" instead, for comparison, behind the same interface.

The state holds at most ``most`` tuples a pane and shard, and drops a pane with the last window that
needs it. It lives in Spark's state store (``transformWithState``, which needs RocksDB there): after
a restart the query continues where it was, and a micro-batch writes only what came in it.
"""

import pickle
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, cast

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
from penstock.spark.losses import ENTERED, LEFT
from penstock.units import as_share
from penstock.windows.buffer import Buffer, Chunk, Staged, window_ends, window_panes
from penstock.windows.sampling import ByAccuracy, Shedder, shedder

Function = Callable[[pd.DataFrame], Mapping[str, Any]]
"""Takes the rows of a group in a window, and returns the columns of its result."""
SHARD, MOMENT, GROUP = "_shard", "_moment", "_group"
RESERVED_COLUMNS = ("start", "end", "group", "kept", "arrived", "millis")
"""The columns that every result has, besides those of the function."""
MEASURED_SCHEMA = "kept bigint, arrived bigint, millis double"
IS_RESULT = "_is_result"
"""False in one more row for each window, which only tells how much of the window was kept."""
STATE_STORE_SETTING = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_numbers = count()


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
    by: str = "equal",
    error: float | str | None = None,
    confidence: float = 0.95,
    value: str | None = None,
    most: int | None = 1_000_000,
    shards: int = 1,
) -> DataFrame:
    """Returns a stream with a row for each group of each window.

    A row has the columns start, end, group, those that the function returns, and ``kept``,
    ``arrived`` and ``millis``: how many tuples of the window were kept and came, and how long
    shedding and processing took. Behind a gate, the ``_weight`` of a row counts both sheddings.

    Parameters
    ----------
    stream
        A streaming DataFrame with a watermark on ``time``.
    function
        Gets the rows of one group as a pandas DataFrame, and returns a dictionary.
    schema
        The names and types of what the function returns, in Spark's DDL.
    time
        The column of event times; tuples without a time are left out.
    groups
        The columns that tell groups apart.
    window, slide
        The length of windows, and the time from one start to the next.
    shed
        "concept", "uniform" or "none".
    keep
        The share of a window's tuples to keep, such as 0.05 or "5%".
    by
        How groups share what is kept: "equal" quotas, or "proportional" ones, which are the same
        share of each group and at least one of its tuples.
    error, confidence, value
        Instead of ``keep``: as many tuples of each group as bring the mean of the column ``value``
        within this relative error, such as 0.05 or "5%", with this confidence.
    most
        The number of tuples that the state may hold for a pane and shard; None for all.
    shards
        The number of tasks between which groups are divided. Each keeps the same share of its own
        tuples, and ``kept``, ``arrived`` and ``millis`` are then those of a shard.
    """
    names = arguments.columns("groups", groups, stream.columns)
    arguments.check_watermark(stream, time)
    arguments.whole_number("shards", shards, "2")
    if most is not None:
        arguments.whole_number("most", most, "1_000_000")
    results = arguments.result_columns(schema, RESERVED_COLUMNS)
    length = arguments.duration("window", window)
    step = length if slide is None else arguments.duration("slide", slide)
    for name, given, duration in (("window", window, length), ("slide", slide, step)):
        if abs(duration * 1e6 - round(duration * 1e6)) > 1e-3:
            raise PenstockError(
                f"{name} must be a whole number of microseconds, such as '10 seconds'; "
                f"got {given!r}"
            )
    if abs(length / step - round(length / step)) > 1e-9:
        raise PenstockError(
            "window must be a multiple of slide, such as '10m' of '5m'; got "
            f"{window!r} and {slide!r}"
        )
    share = as_share("keep", keep)
    kept = shedder(shed, share, by)
    if error is not None or value is not None:
        kept = _accurate(stream, shed, share, error, confidence, value)
    columns = tuple(stream.columns)
    processor = WindowProcessor(function, kept, length, step, most, columns, results, value)
    group = group_name(names)
    number, asked = next(_numbers), 1.0 if shed == "none" else share
    entered = stream.observe(
        f"{ENTERED}{number}",
        sf.count(sf.lit(1)).alias("rows"),
        sf.count_if(sf.col(time).isNull()).alias("without_time"),
        sf.max(sf.lit(asked)).alias("keep"),
    )
    keyed = entered.where(sf.col(time).isNotNull()).select(
        "*",
        sf.col(time).cast("double").alias(MOMENT),
        group.alias(GROUP),
        sf.pmod(sf.xxhash64(group), sf.lit(shards)).cast("int").alias(SHARD),
    )
    kinds = f"start timestamp, end timestamp, `group` string, {schema}, {MEASURED_SCHEMA}"
    stream.sparkSession.conf.set(STATE_STORE_SETTING, ROCKSDB)  # running queries keep theirs
    processed = keyed.groupBy(SHARD).transformWithStateInPandas(
        processor, f"{kinds}, {IS_RESULT} boolean", "append", "EventTime"
    )
    told = ~sf.col(IS_RESULT)
    return (
        processed.observe(
            f"{LEFT}{number}",
            sf.sum(sf.when(told, sf.col("kept"))).alias("kept"),
            sf.sum(sf.when(told, sf.col("arrived"))).alias("arrived"),
        )
        .where(IS_RESULT)
        .drop(IS_RESULT)
    )


def _accurate(
    stream: DataFrame,
    shed: str,
    keep: float,
    error: float | str | None,
    confidence: float,
    value: str | None,
) -> ByAccuracy:
    """Returns the shedder for an error, where all that it needs was given."""
    if error is None or value is None:
        raise PenstockError(
            "error and value must be given together, such as error='5%' and value='fare'; "
            f"got {error!r} and {value!r}"
        )
    arguments.columns("value", value, stream.columns)
    if shed != ByAccuracy.name or keep < 1.0:
        raise PenstockError(
            "error must be given without keep, and with shed='concept', since it says how many "
            f"tuples stay; got keep={keep!r} and shed={shed!r}"
        )
    bound = as_share("error", error)
    if not 0.0 < bound <= 1.0:
        raise PenstockError(f"error must be a share, such as 0.05 or '5%'; got {error!r}")
    if not 0.0 < confidence < 1.0:
        raise PenstockError(f"confidence must lie between 0 and 1, such as 0.95; got {confidence}")
    return ByAccuracy(bound, confidence)


@dataclass
class StoredPanes:
    """Lists what a shard has stored."""

    done: float = -np.inf
    """The end of the last window that the shard has processed."""
    parts: dict[int, list[int]] = field(default_factory=dict)
    """For each pane, how many tuples are in each of its chunks."""


class ProcessedWindow(NamedTuple):
    """What a shard made of a window."""

    rows: pd.DataFrame
    kept: int
    arrived: int
    """Tuples that came, also those that were shed."""


class WindowProcessor(StatefulProcessor):
    """Stores the rows of a shard, and processes its windows.

    Spark calls it with the rows that came, and when the watermark has passed a window's end.
    """

    def __init__(
        self,
        function: Function,
        shedder: Shedder,
        length: float,
        slide: float,
        most: int | None,
        columns: tuple[str, ...],
        results: tuple[str, ...],
        value: str | None = None,
    ) -> None:
        self.function, self.shedder, self.value = function, shedder, value
        self.length, self.slide, self.most = length, slide, most
        self.columns, self.results = columns, results

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the shard's state."""
        self._handle = handle
        self._panes_stored = handle.getValueState("panes", "panes binary")
        self._chunks = handle.getMapState("chunks", "pane bigint, part int", "chunk binary")

    def close(self) -> None:
        """Does nothing, since Spark closes the state itself."""

    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Stores rows, and asks Spark to call when their windows have ended."""
        del timerValues
        stored_panes = self._read()
        for some in rows:
            self._store(stored_panes, some, int(key[0]))
        for end in self._ends(stored_panes):
            self._handle.registerTimer(round(end * 1000))
        self._write(stored_panes)
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """Processes the windows that have ended."""
        del key, timerValues
        stored_panes, now = self._read(), expiredTimerInfo.getExpiryTimeInMs()
        for end in self._ends(stored_panes):
            if round(end * 1000) <= now:
                processed = self.process(self._window(stored_panes, end), end)
                yield processed.rows.assign(**{IS_RESULT: True})
                yield self._counts(processed)
                self._evict(stored_panes, end)
        self._write(stored_panes)

    # --- state -------------------------------------------------------------------------------

    def _read(self) -> StoredPanes:
        stored = self._panes_stored.get()
        return StoredPanes() if stored is None else pickle.loads(stored[0])

    def _write(self, stored_panes: StoredPanes) -> None:
        if stored_panes.parts:
            self._panes_stored.update((pickle.dumps(stored_panes, protocol=5),))
        else:
            self._panes_stored.clear()

    def _ends(self, stored_panes: StoredPanes) -> list[float]:
        return window_ends(stored_panes.parts, self.length, self.slide, stored_panes.done)

    def _store(self, stored_panes: StoredPanes, rows: pd.DataFrame, shard: int) -> None:
        """Stores rows, with a seed made of the state, so that a retry draws alike (law 8)."""
        # by place: Spark gives columns whose names begin with "_" other names here
        rows = rows.set_axis([*self.columns, MOMENT, GROUP, SHARD], axis=1)
        columns = {name: rows[name].to_numpy() for name in self.columns}
        moment = rows[MOMENT].to_numpy(dtype=np.float64)
        stored = sum(map(sum, stored_panes.parts.values()))
        seed = (shard, stored, int(moment.min() * 1000) if moment.size else 0)
        fresh = Buffer(self.length, self.slide, done=stored_panes.done, value=self.value)
        groups = rows[GROUP].to_numpy(dtype=np.str_)
        for chunk in fresh.add(moment, groups, columns, seed).chunks:
            self._append(stored_panes, chunk)
            if self.most is not None and sum(stored_panes.parts[chunk.pane]) > self.most:
                self._thin(stored_panes, chunk.pane)

    def _append(self, stored_panes: StoredPanes, chunk: Chunk) -> None:
        parts = stored_panes.parts.setdefault(chunk.pane, [])
        self._chunks.updateValue((chunk.pane, len(parts)), (pickle.dumps(chunk, protocol=5),))
        parts.append(chunk.key.size)

    def _thin(self, stored_panes: StoredPanes, pane: int) -> None:
        chunks = self._stored(stored_panes, [pane])
        thinned = Buffer(self.length, self.slide, self.most, chunks).bounded()
        self._forget(stored_panes, pane)
        for chunk in thinned.chunks:
            self._append(stored_panes, chunk)

    def _stored(self, stored_panes: StoredPanes, panes: Sequence[int]) -> tuple[Chunk, ...]:
        keys = [(pane, part) for pane in panes for part in range(len(stored_panes.parts[pane]))]
        found = [cast(Any, self._chunks.getValue(key)) for key in keys]
        return tuple(pickle.loads(value[0]) for value in found)

    def _forget(self, stored_panes: StoredPanes, pane: int) -> None:
        for part in range(len(stored_panes.parts.pop(pane))):
            self._chunks.removeKey((pane, part))

    def _window(self, stored_panes: StoredPanes, end: float) -> Buffer:
        panes = [pane for pane in self._panes(end) if pane in stored_panes.parts]
        return Buffer(self.length, self.slide, chunks=self._stored(stored_panes, panes))

    def _evict(self, stored_panes: StoredPanes, end: float) -> None:
        """Drops the first pane of a window that is done; the next window needs the others."""
        stored_panes.done, first = end, self._panes(end).start
        for pane in [pane for pane in stored_panes.parts if pane <= first]:
            self._forget(stored_panes, pane)

    def _panes(self, end: float) -> range:
        return window_panes(end, self.length, self.slide)

    # --- a window ----------------------------------------------------------------------------

    def process(self, buffer: Buffer, end: float) -> "ProcessedWindow":
        """Sheds a window, applies the function to each group, and says how long both took."""
        began = clock.perf_counter()
        staged = buffer.take(end, self.shedder)
        names = ["start", "end", "group", *self.results]
        result = pd.DataFrame(self._results(staged), columns=names)  # even where no row was kept
        result["kept"], result["arrived"] = staged.group.size, staged.arrived
        result["millis"] = (clock.perf_counter() - began) * 1000
        return ProcessedWindow(result, staged.group.size, staged.arrived)

    def _counts(self, processed: "ProcessedWindow") -> pd.DataFrame:
        """Returns the row that tells how much of a window was kept, also where that is nothing."""
        blank = dict.fromkeys(("start", "end", "group", *self.results, "millis"))
        counts = {"kept": processed.kept, "arrived": processed.arrived, IS_RESULT: False}
        names = ["start", "end", "group", *self.results, "kept", "arrived", "millis", IS_RESULT]
        return pd.DataFrame([{**blank, **counts}], columns=names)

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
                "function must return a dictionary with the columns of its schema, such as "
                f"{{{', '.join(f'{name!r}: ...' for name in self.results)}}}; got {result!r}"
            )
        return result


def _timestamp(moment: float) -> pd.Timestamp:
    """Returns a moment in whole microseconds, as Spark does; 0.1 s is no binary fraction."""
    return pd.Timestamp(round(moment * 1e6), unit="us", tz="UTC")

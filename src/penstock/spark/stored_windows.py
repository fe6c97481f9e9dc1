"""Stores the rows of a shard in Spark's state, and processes its windows when they have ended.

See ``window_processor``, which is what users call.
"""

import pickle
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from penstock.errors import PenstockError
from penstock.spark.gate.columns import WEIGHT
from penstock.windows.buffer import Buffer, Chunk, Staged, window_ends, window_panes
from penstock.windows.sampling import ByJoin, Shedder, matched, sides

Function = Callable[[pd.DataFrame], Mapping[str, Any]]
"""Takes the rows of a group in a window, and returns the columns of its result."""
SHARD, MOMENT, GROUP, SESSION = "_shard", "_moment", "_group", "_session"
IS_RESULT = "_is_result"
"""False in one more row for each window, which only tells how much of the window was kept."""


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
        return self._processed(buffer.take(end, self.shedder), end - self.length, end, began)

    def _processed(
        self, staged: Staged, start: float, end: float, began: float
    ) -> "ProcessedWindow":
        if isinstance(self.shedder, ByJoin):
            staged = _by_key(staged)
        span = {"start": _timestamp(start), "end": _timestamp(end)}
        names = ["start", "end", "group", *self.results]
        result = pd.DataFrame(self._results(staged, span), columns=names)  # even where it is empty
        result["kept"], result["arrived"] = staged.group.size, staged.arrived
        result["millis"] = (clock.perf_counter() - began) * 1000
        return ProcessedWindow(result, staged.group.size, staged.arrived)

    def _counts(self, processed: "ProcessedWindow") -> pd.DataFrame:
        """Returns the row that tells how much of a window was kept, also where that is nothing."""
        blank = dict.fromkeys(("start", "end", "group", *self.results, "millis"))
        counts = {"kept": processed.kept, "arrived": processed.arrived, IS_RESULT: False}
        names = ["start", "end", "group", *self.results, "kept", "arrived", "millis", IS_RESULT]
        return pd.DataFrame([{**blank, **counts}], columns=names)

    def _results(self, staged: Staged, span: Mapping[str, Any]) -> list[dict[str, Any]]:
        weight = staged.weight * staged.columns.get(WEIGHT, 1.0)
        rows = pd.DataFrame({**staged.columns, WEIGHT: weight})
        order = np.argsort(staged.group, kind="stable")
        sizes = np.bincount(staged.group, minlength=staged.names.size)
        ends = np.cumsum(sizes)
        ordered = rows.take(order)
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
    """Returns a moment in whole microseconds, as Spark does; 0.1 s is no binary fraction.

    With a zone: Spark takes times without one for those of the session.
    """
    return pd.Timestamp(round(moment * 1e6), unit="us", tz="UTC")


def _by_key(staged: Staged) -> Staged:
    """Returns a window of joined streams by key; tuples without a partner do not count."""
    keys, place = sides(staged.names)
    arrived = int(staged.sizes[matched(staged.names)].sum())
    return replace(staged, names=keys, group=place[staged.group], arrived=arrived)

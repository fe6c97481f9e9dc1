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
it. It lives in Spark's state store, so a restart goes on where it was.
"""

import pickle
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from penstock.concept.buffer import Buffer, Staged
from penstock.concept.shedders import Shedder, shedder
from penstock.durations import seconds
from penstock.spark import arguments
from penstock.types import PenstockError

Function = Callable[[pd.DataFrame], Mapping[str, Any]]
"""From the rows of a group in a window to the columns of its result."""
SHARD, MOMENT, GROUP = "_shard", "_moment", "_group"
STATE = "buffer binary"


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
    keep: float = 1.0,
    most: int | None = 1_000_000,
    shards: int = 1,
) -> DataFrame:
    """A row for each group of each window: start, end, group, what the function gives (``schema``),
    and ``kept``, ``arrived`` and ``millis`` of the whole window's shedding and processing.

    The stream needs a watermark on ``time``. Groups are divided between ``shards``, each with the
    same share of its own tuples.
    """
    names = arguments.columns("groups", groups, stream.columns)
    arguments.columns("time", time, stream.columns)
    length = arguments.duration("window", window)
    step = length if slide is None else arguments.duration("slide", slide)
    if abs(length / step - round(length / step)) > 1e-9:
        raise PenstockError(f"a window of {seconds(length)} s is no multiple of its slide {step} s")
    manager = Manager(function, shedder(shed, keep), length, step, most, tuple(stream.columns))
    group = sf.concat_ws(",", *(sf.coalesce(name.cast("string"), sf.lit("")) for name in names))
    keyed = stream.select(
        "*",
        sf.col(time).cast("double").alias(MOMENT),
        group.alias(GROUP),
        sf.pmod(sf.xxhash64(group), sf.lit(shards)).cast("int").alias(SHARD),
    )
    kinds = f'start timestamp, end timestamp, "group" string, {schema}, {MEASURED}'
    return keyed.groupBy(SHARD).applyInPandasWithState(
        manager, kinds.replace('"', "`"), STATE, "append", GroupStateTimeout.EventTimeTimeout
    )


MEASURED = "kept bigint, arrived bigint, millis double"


@dataclass(frozen=True)
class Manager:
    """Called by Spark for a shard: with rows that came, or when its time has come."""

    function: Function
    shedder: Shedder
    length: float
    slide: float
    most: int | None
    columns: tuple[str, ...]

    def __call__(
        self, key: Any, parts: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        buffer = pickle.loads(state.get[0]) if state.exists else self._empty()
        for rows in () if state.hasTimedOut else parts:
            buffer = self._stored(buffer, rows, int(key[0]))
        watermark = state.getCurrentWatermarkMs() / 1000
        for end in buffer.due(watermark):
            yield self.process(buffer, end)
            buffer = buffer.without(end)
        self._remember(state, buffer)

    def _empty(self) -> Buffer:
        return Buffer(self.length, self.slide, self.most)

    def _stored(self, buffer: Buffer, rows: pd.DataFrame, shard: int) -> Buffer:
        """The seed is a function of the state, so that a retry draws the same luck (law 8)."""
        columns = {name: rows[name].to_numpy() for name in self.columns}
        moment = rows[MOMENT].to_numpy(dtype=np.float64)
        seed = (shard, len(buffer), int(moment.min() * 1000) if moment.size else 0)
        return buffer.add(moment, rows[GROUP].to_numpy(dtype=np.str_), columns, seed)

    def process(self, buffer: Buffer, end: float) -> pd.DataFrame:
        """The concept, one scan, shed, and the function; and how long all of it took."""
        began = clock.perf_counter()
        staged = buffer.take(end, self.shedder)
        result = pd.DataFrame(self._results(staged))
        result["kept"], result["arrived"] = staged.group.size, staged.arrived
        result["millis"] = (clock.perf_counter() - began) * 1000
        return result

    def _results(self, staged: Staged) -> list[dict[str, Any]]:
        rows = pd.DataFrame({**staged.columns, "_weight": staged.weight})
        order = np.argsort(staged.group, kind="stable")
        sizes = np.bincount(staged.group, minlength=staged.names.size)
        ends = np.cumsum(sizes)
        ordered = rows.take(order)
        span = {
            "start": pd.Timestamp(staged.end - self.length, unit="s"),
            "end": pd.Timestamp(staged.end, unit="s"),
        }
        return [
            {
                **span,
                "group": str(staged.names[g]),
                **self.function(ordered.iloc[ends[g] - sizes[g] : ends[g]]),
            }
            for g in np.flatnonzero(sizes).tolist()
        ]

    def _remember(self, state: GroupState, buffer: Buffer) -> None:
        following = buffer.next_end()
        if following is None:
            if state.exists:
                state.remove()
            return
        state.update((pickle.dumps(buffer, protocol=5),))
        late = state.getCurrentWatermarkMs()
        state.setTimeoutTimestamp(max(int(following * 1000), late + 1))

"""Puts tuples into windows of so many rows, for any aggregate behind them.

    last = count_windows(trips, 100, slide=20, partition="route", time="pickup")
    means = last.groupBy("window", "route").agg(sf.avg("fare"), sf.sic())

Spark has windows of time only. A stateful processor keeps the tuples of windows that are not full,
and gives those of a window that is, in one micro-batch, with a column ``window`` that Spark takes
for one of its own: it ends when the batch has, so that results need no watermark of the stream and
come with the next batch (in mode "update", with the same). The numbers of batches are the clock:
they never go back, and are the same in a retry.

Columns go through Python as text, since pandas has no null among whole numbers.
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from penstock.core.types import Ints
from penstock.errors import PenstockError
from penstock.spark import arguments
from penstock.spark.gate.columns import SIC, WEIGHT
from penstock.spark.gate.keys import group_name
from penstock.spark.stored_windows import GROUP
from penstock.spark.window_processor import ROCKSDB, STATE_STORE_SETTING
from penstock.windows.counted import CountWindows, copies, places

WINDOW = "window"
PACKED, MOMENT, TIE = "_packed", "_moment", "_tie"
NUMBER, CLOSED, START, END = "_number", "_closed", "_start", "_end"
MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How times are written so that nothing of them is cut off."""
BATCH = "streaming.sql.batchId"
"""The local property in which Spark tells tasks the number of their micro-batch."""
TAKEN = (GROUP, PACKED, MOMENT, WEIGHT, SIC, TIE)
"""By place: Spark gives columns whose names begin with "_" other names on the way to pandas."""
EMITTED = (
    f"{PACKED} string, {WEIGHT} double, {SIC} double, {NUMBER} bigint, {CLOSED} timestamp, "
    f"{START} bigint, {END} bigint"
)


def count_windows(
    stream: DataFrame,
    rows: int,
    slide: int | None = None,
    *,
    partition: str | Sequence[str] = (),
    time: str | None = None,
) -> DataFrame:
    """Returns the tuples of each window of the last ``rows`` rows, once for each window.

    A column ``window`` tells them apart: group by it and by ``partition``. It has a ``number``, and
    with ``time`` a ``start`` and an ``end``, the least and the greatest time of its tuples. Behind
    a gate a window is full when the weights of its tuples have come to ``rows``, and each copy of a
    tuple has its share of the tuple's SIC.

    Parameters
    ----------
    stream
        A streaming DataFrame without a watermark: windows of rows end by their rows.
    rows, slide
        How many rows a window has, and every how many rows one begins; without ``slide``, windows
        tumble. The first begins with the stream.
    partition
        Columns: tuples of each of their values have windows of their own. Without, one task counts
        the whole stream.
    time
        A column of timestamps. Rows are counted in the order in which micro-batches bring them, and
        within a micro-batch by this column.
    """
    names = arguments.columns("partition", partition, stream.columns)
    arguments.whole_number("rows", rows, "100")
    step = rows if slide is None else arguments.whole_number("slide", slide, "20")
    if step > rows:
        raise PenstockError(
            f"slide must be at most rows, such as 20 of 100; got {slide} and {rows}"
        )
    _check(stream, time)
    stream.sparkSession.conf.set(STATE_STORE_SETTING, ROCKSDB)  # running queries keep theirs
    emitted = (
        _packed(stream, group_name(names), time)
        .groupBy(GROUP)
        .transformWithStateInPandas(
            CountProcessor(CountWindows(rows, step)), EMITTED, "append", "None"
        )
        .withWatermark(CLOSED, "0 seconds")
    )
    return _unpacked(emitted, stream, time)


def _check(stream: DataFrame, time: str | None) -> None:
    if not stream.isStreaming:
        raise PenstockError(
            "count_windows needs a streaming DataFrame, such as spark.readStream...; got a batch"
        )
    if WINDOW in stream.columns:
        raise PenstockError("stream must have no column 'window', since its windows are there")
    if time is not None:
        arguments.columns("time", time, stream.columns)
        kind = stream.select(sf.col(f"`{time}`")).schema[0].dataType.simpleString()
        if kind != "timestamp":
            raise PenstockError(f"time must be a column of timestamps; got {time!r}, a {kind}")
    for field in stream.schema:
        if arguments.WATERMARK_METADATA in field.metadata:
            raise PenstockError(
                "stream must have no watermark, such as withWatermark gives it, since windows of "
                f"rows end by their rows; got one on {field.name!r}"
            )


def _kept(stream: DataFrame) -> list[str]:
    return [name for name in stream.columns if name not in (WEIGHT, SIC)]


def _packed(stream: DataFrame, group: Column, time: str | None) -> DataFrame:
    """Returns what the processor needs of each tuple, and the tuple as a text."""
    values = sf.struct(*(sf.col(f"`{name}`") for name in _kept(stream)))
    moment = sf.lit(None) if time is None else sf.unix_micros(sf.col(f"`{time}`"))
    stamp = {
        name: sf.col(name) if name in stream.columns else sf.lit(1.0) for name in (WEIGHT, SIC)
    }
    return stream.select(
        group.alias(GROUP),
        sf.to_json(values, {**MICROSECONDS, "ignoreNullFields": "false"}).alias(PACKED),
        sf.coalesce(moment.cast("bigint"), sf.lit(0)).alias(MOMENT),
        *(column.cast("double").alias(name) for name, column in stamp.items()),
    ).withColumn(TIE, sf.xxhash64(PACKED))


def _unpacked(emitted: DataFrame, stream: DataFrame, time: str | None) -> DataFrame:
    """Returns the columns of the stream, and the window as one of Spark's.

    Spark ends a window by the second field of a structure whose metadata tell of a watermark.
    """
    schema = stream.select(*(f"`{name}`" for name in _kept(stream))).schema
    fields = [sf.col(NUMBER).alias("number"), sf.col(CLOSED).alias("closed")]
    if time is not None:
        ends = (("start", START), ("end", END))
        fields += [sf.timestamp_micros(sf.col(at)).alias(name) for name, at in ends]
    window = sf.struct(*fields).alias(WINDOW, metadata={arguments.WATERMARK_METADATA: 0})
    row = sf.from_json(PACKED, schema.json(), MICROSECONDS).alias("_row")
    stamps = [name for name in (WEIGHT, SIC) if name in stream.columns]
    unpacked = emitted.select(row, *stamps, window)
    columns = [
        sf.col(name) if name in stamps else sf.col(f"_row.`{name}`").alias(name)
        for name in stream.columns
    ]
    return unpacked.select(*columns, WINDOW)


@dataclass
class Held:
    """Says how far the windows of a partition have filled; its tuples are stored beside it."""

    came: float = 0.0
    """The weights of all tuples so far."""
    first: int = 0
    """The first window that is not full."""


class CountProcessor(StatefulProcessor):
    """Keeps the tuples of a partition until a window is full."""

    def __init__(self, windows: CountWindows) -> None:
        self.windows = windows

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the partition's state."""
        self._held = handle.getValueState("held", "came double, first bigint")
        self._chunks = handle.getListState("chunks", "chunk binary")

    def close(self) -> None:
        """Does nothing, since Spark closes the state itself."""

    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Stores tuples, and emits those of windows that have become full."""
        del key, timerValues
        stored = self._held.get()
        held = Held() if stored is None else Held(*stored)
        some = [part.set_axis(list(TAKEN), axis=1) for part in rows]
        fresh, held.came = self.placed(pd.concat(some), held.came)
        closed = self.windows.closed(held.came)
        if closed <= held.first:
            self._chunks.appendValue((pickle.dumps(fresh, protocol=5),))
        else:
            chunks = [pickle.loads(chunk[0]) for chunk in self._chunks.get()]
            tuples = pd.concat([*chunks, fresh], ignore_index=True)
            yield self.emitted(tuples, range(held.first, closed), _batch())
            _, last = self.windows.around(tuples["place"].to_numpy())
            held.first = closed
            left = tuples[last >= closed]
            self._chunks.clear()
            if len(left):
                self._chunks.appendValue((pickle.dumps(left, protocol=5),))
        self._held.update((held.came, held.first))

    def placed(self, rows: pd.DataFrame, came: float) -> tuple[pd.DataFrame, float]:
        """Returns a batch's tuples in order with their places, and the weights with theirs."""
        ordered = rows.sort_values([MOMENT, TIE], kind="stable", ignore_index=True)
        weight = ordered[WEIGHT].to_numpy(dtype=np.float64)
        found = ordered[[PACKED, WEIGHT, SIC, MOMENT]].assign(place=places(came, weight))
        return found, came + float(weight.sum())

    def emitted(self, tuples: pd.DataFrame, full: range, batch: int) -> pd.DataFrame:
        """Returns a row for each of the windows ``full`` that a tuple is in."""
        first, last = self.windows.around(tuples["place"].to_numpy())
        mine = np.maximum(first, full.start), np.minimum(last, full.stop - 1)
        which, number = copies(*mine)
        found = tuples.iloc[which]
        moment = found[MOMENT].to_numpy(dtype=np.int64)
        start, end = _ends(number - full.start, moment, len(full))
        return pd.DataFrame(
            {
                PACKED: found[PACKED].to_numpy(),
                WEIGHT: found[WEIGHT].to_numpy(),
                SIC: found[SIC].to_numpy() / (last - first + 1)[which],
                NUMBER: number,
                CLOSED: pd.Timestamp((batch + 1) * 1_000_000, unit="us", tz="UTC"),
                START: start,
                END: end,
            }
        )


def _ends(window: Ints, moment: Ints, windows: int) -> tuple[Ints, Ints]:
    """Returns for each row the least and the greatest moment of its window."""
    least = np.full(windows, np.iinfo(np.int64).max)
    greatest = np.full(windows, np.iinfo(np.int64).min)
    np.minimum.at(least, window, moment)
    np.maximum.at(greatest, window, moment)
    return least[window], greatest[window]


def _batch() -> int:
    """Returns the number of the micro-batch; the clock of windows is one more, and never 0."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(BATCH)
    if number is None:
        raise PenstockError("count windows are for micro-batches, whose tasks Spark tells a number")
    return int(number)

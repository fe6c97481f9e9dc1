"""Measures how long a window takes in the window processor, shed in three ways."""

from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from penstock.lab.cod.recorded import WindowedStream
from penstock.spark.window_processor import WindowProcessor
from penstock.windows.buffer import Buffer
from penstock.windows.sampling import shedder

KEPT_SHARE = 0.03
BATCHES_PER_WINDOW = 10
REPETITIONS = 5
"""How often a window is processed; the quickest counts, since other programs run, too."""
SHEDDING_WAYS = ("none", "uniform", "concept")


def middle(rows: pd.DataFrame) -> Mapping[str, Any]:
    """Is a user's own median, in plain Python."""
    return {"middle": float(median(rows["x"].tolist()))}


def latencies(stream: WindowedStream, windows: int, shards: int = 1) -> dict[str, list[float]]:
    """Returns milliseconds of each window by way of shedding; of the slowest shard."""
    found: dict[str, list[float]] = {way: [] for way in SHEDDING_WAYS}
    for window in list(stream.windows())[:windows]:
        buffers = [_buffer(stream, window, shard, shards) for shard in range(shards)]
        best = {way: [np.inf] * shards for way in SHEDDING_WAYS}
        for _ in range(REPETITIONS):  # in turn, so that a disturbance hits all alike
            for way in SHEDDING_WAYS:
                for shard, buffer in enumerate(buffers):
                    best[way][shard] = min(best[way][shard], _millis(stream, buffer, way))
        for way in SHEDDING_WAYS:
            found[way].append(max(best[way]))
    return found


def _buffer(stream: WindowedStream, window: slice, shard: int, shards: int) -> Buffer:
    buffer = Buffer(stream.length, stream.length)
    places = np.arange(window.start, window.stop)
    places = places[stream.group[places] % shards == shard]
    for number, part in enumerate(np.array_split(places, BATCHES_PER_WINDOW)):
        time = np.zeros(part.size)
        columns = {"x": stream.value[part], "t": stream.time[part]}
        buffer = buffer.add(time, stream.group[part].astype(np.str_), columns, (shard, number))
    return buffer


def _millis(stream: WindowedStream, buffer: Buffer, way: str) -> float:
    length, columns = stream.length, ("x", "t")
    processor = WindowProcessor(
        middle, shedder(way, KEPT_SHARE), length, length, None, columns, ("middle",)
    )
    result = processor.process(buffer, stream.length).rows
    return float(result["millis"].iloc[0]) if len(result) else 0.0

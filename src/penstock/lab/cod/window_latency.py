"""Measures how long a window takes in the window processor, shed in three ways."""

import multiprocessing
from collections.abc import Mapping
from multiprocessing.connection import Connection
from statistics import median
from threading import BrokenBarrierError
from typing import Any, Protocol

import numpy as np
import pandas as pd

from penstock.core.types import Floats
from penstock.errors import PenstockError
from penstock.lab.cod.recorded import WindowedStream
from penstock.spark.stored_windows import WindowProcessor
from penstock.windows.buffer import Buffer
from penstock.windows.sampling import shedder

KEPT_SHARE = 0.03
BATCHES_PER_WINDOW = 10
REPETITIONS = 5
"""How often a window is processed; the middle one counts, since other programs run, too."""
SHEDDING_WAYS = ("none", "uniform", "concept")
SHARDS = (1, 2, 4)
"""Processes between which the groups of a window are divided."""
LONGEST_WAIT_SECONDS = 300.0
"""How long a shard waits for the others before a window."""


class MeetingPoint(Protocol):
    """Is where shards wait for each other, so that all begin a window together."""

    def wait(self, timeout: float | None = None) -> int: ...


def middle(rows: pd.DataFrame) -> Mapping[str, Any]:
    """Is a user's own median, in plain Python."""
    return {"middle": float(median(rows["x"].tolist()))}


def latencies(stream: WindowedStream, windows: int, shards: int = 1) -> dict[str, list[float]]:
    """Returns milliseconds of each window by way of shedding.

    Each shard is a process. They begin a window together, and the last one to be done counts.
    """
    parts = [_alone(stream, windows)] if shards == 1 else _together(stream, windows, shards)
    last = np.max(parts, axis=0)  # of the shards; by window, repetition and way
    middles = np.median(last, axis=1)
    return {way: middles[:, place].tolist() for place, way in enumerate(SHEDDING_WAYS)}


def _alone(stream: WindowedStream, windows: int) -> Floats:
    return _of_shard(stream, windows, 0, 1, multiprocessing.get_context("spawn").Barrier(1))


def _together(stream: WindowedStream, windows: int, shards: int) -> list[Floats]:
    processes = multiprocessing.get_context("spawn")
    meeting = processes.Barrier(shards)
    pipes = [processes.Pipe(duplex=False) for _ in range(shards)]
    running = [
        processes.Process(
            target=_shard, args=(stream, windows, shard, shards, meeting, sender), daemon=True
        )
        for shard, (_, sender) in enumerate(pipes)
    ]
    for process, (_, sender) in zip(running, pipes, strict=True):
        process.start()
        sender.close()  # the shard has its own: so one that ends without an answer is noticed
    try:
        return [receiver.recv() for receiver, _ in pipes]
    except EOFError as error:
        raise PenstockError("a shard ended before it had processed its windows") from error
    finally:
        for process in running:
            process.terminate()
            process.join()


def _shard(
    stream: WindowedStream,
    windows: int,
    shard: int,
    shards: int,
    meeting: MeetingPoint,
    sender: Connection,
) -> None:
    try:
        sender.send(_of_shard(stream, windows, shard, shards, meeting))
    except BrokenBarrierError:
        sender.close()  # another shard has ended, and is told of


def _of_shard(
    stream: WindowedStream, windows: int, shard: int, shards: int, meeting: MeetingPoint
) -> Floats:
    """Returns milliseconds by window, repetition and way."""
    some = list(stream.windows())[:windows]
    found = np.zeros((len(some), REPETITIONS, len(SHEDDING_WAYS)))
    for number, window in enumerate(some):
        buffer = _buffer(stream, window, shard, shards)
        for repetition in range(REPETITIONS):  # in turn, so that a disturbance hits all alike
            for place, way in enumerate(SHEDDING_WAYS):
                meeting.wait(LONGEST_WAIT_SECONDS)
                found[number, repetition, place] = _millis(stream, buffer, way)
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

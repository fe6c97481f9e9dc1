"""The `replay` source makes a file, or a generated stream, a live stream that waits for nobody.

The rule: *when* row n arrives is a pure function of the start time, the pace and the profile
(`penstock.sources.schedule`), and *what* it is depends on n alone (`penstock.sources.generators`,
`penstock.sources.recording`). So the source behaves like a broker: a restart from a checkpoint goes
on where it was, what arrived during the downtime is waiting, a range read twice is the same range,
and a job that cannot keep up sees its lateness in `_arrival` instead of a source that politely
slows down.
"""

from __future__ import annotations

import json
import math
import time as clock
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock import arrow as pa
from penstock.sources.generators import RecordBatch
from penstock.sources.options import ReplayOptions, parse
from penstock.sources.schedule import SECOND, Schedule

if not TYPE_CHECKING:  # `typing.override` comes with Python 3.12

    def override(method):
        return method
else:
    from typing_extensions import override


@lru_cache(maxsize=8)
def schedule(options: ReplayOptions, start: int) -> Schedule:
    """Returns the schedule of a stream that started at `start` microseconds."""
    file, pace = options.file(), options.speed or options.rate or 0.0
    rows = None if file is None or options.loop else file.count
    if file is None or options.speed is None:
        return Schedule(start, pace, options.profile, rows=rows)
    lap = file.lap if options.loop else None
    return Schedule(start, pace, options.profile, marks=file.marks, lap=lap, rows=rows)


class ReplaySource(DataSource):
    """What `spark.readStream.format("replay")` loads; it checks the options at once."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.replay_options = parse(options)

    @classmethod
    @override
    def name(cls) -> str:
        return "replay"

    @override
    def schema(self) -> StructType | str:
        return self.replay_options.schema()

    @override
    def streamReader(self, schema: StructType) -> ReplayReader:
        return ReplayReader(self.replay_options, schema)


class ReplayReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Answers Spark's questions from the schedule.

    An offset is `{"start": seconds, "offset": n}`: the checkpoint carries the start time, which is
    all the state there is. Spark asks for the initial offset again when it retries the first batch;
    so a range takes its start time from its end, which was logged, never from its beginning.
    """

    def __init__(self, options: ReplayOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._start: float | None = None
        self._until: int | None = None

    @override
    def initialOffset(self) -> dict[str, Any]:
        if self._start is None:
            self._start = math.floor(clock.time() * 1000) / 1000
        return {"start": self._start, "offset": 0}

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        self._until = _now()

    @override
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._start, first = start["start"], start["offset"]
        arrived = self._arrived(start["start"], self._until or _now())
        most = first + limit.max_rows if isinstance(limit, ReadMaxRows) else arrived
        return {"start": start["start"], "offset": max(first, min(arrived, most))}

    @override
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Returns what has arrived by now, for the backlog in the query's progress."""
        if self._start is None:
            return None
        return {"start": self._start, "offset": self._arrived(self._start, _now())}

    @override
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns contiguous ranges of nearly one size; none for an empty batch."""
        first, stop = start["offset"], end["offset"]
        parts = min(self._options.partitions, stop - first)
        cuts = [first + (stop - first) * part // max(parts, 1) for part in range(parts + 1)]
        begun = _micros(end["start"])
        return [InputPartition((begun, low, high)) for low, high in pairwise(cuts)]

    @override
    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        begun, first, stop = partition.value
        layout = to_arrow_schema(self._schema, timezone="UTC")
        arrivals = schedule(self._options, begun).arrival_of
        for batch in self._options.rows(first, stop):
            offsets = np.arange(first, first + batch.num_rows, dtype=np.int64)
            stamps = {"_arrival": pa.array(arrivals(offsets)), "_offset": pa.array(offsets)}
            yield _arranged(batch, stamps, layout)
            first += batch.num_rows

    def _arrived(self, start: float, now: int) -> int:
        return schedule(self._options, _micros(start)).offset_at(now)


def _arranged(batch: RecordBatch, stamps: Mapping[str, Any], layout: Any) -> RecordBatch:
    """Returns the columns in the order and the types of `layout`, which Spark compares exactly."""
    columns = [
        (stamps[field.name] if field.name in stamps else batch.column(field.name)).cast(field.type)
        for field in layout
    ]
    arranged: RecordBatch = pa.RecordBatch.from_arrays(columns, schema=layout)
    return arranged


def _now() -> int:
    return clock.time_ns() // 1000


def _micros(seconds: float) -> int:
    return round(seconds * SECOND)


def register(spark: SparkSession) -> None:
    """Makes `format("replay")` known to a session."""
    spark.dataSource.register(ReplaySource)


def replay(
    spark: SparkSession,
    *,
    path: str | Path | None = None,
    generator: str | None = None,
    rate: float | None = None,
    speed: float | None = None,
    time: str | None = None,
    loop: bool = False,
    profile: str | Sequence[Mapping[str, float | str]] | None = None,
    partitions: int = 2,
    seed: int = 0,
    **options: object,
) -> DataFrame:
    """Returns a replayed stream as a DataFrame; a `PenstockError` names an option that cannot work.

    `options` takes `maxRowsPerTrigger` and what the generator takes (`keys`, `skew`, `queries`).
    """
    if profile is not None and not isinstance(profile, str):
        profile = json.dumps(list(profile))
    named = {
        "path": None if path is None else Path(path).absolute(),
        "generator": generator,
        "rate": rate,
        "speed": speed,
        "time": time,
        "loop": str(loop).lower(),
        "profile": profile,
        "partitions": partitions,
        "seed": seed,
    }
    texts = {name: str(value) for name, value in (named | options).items() if value is not None}
    parse(texts)
    register(spark)
    return spark.readStream.format("replay").options(**texts).load()

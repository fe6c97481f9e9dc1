"""The replay source: the reader's answers, then Spark itself."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from penstock.sources.options import parse, parse_profile
from penstock.sources.replay import ReplayReader, register, replay
from penstock.sources.schedule import Schedule

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")

START = 1_700_000_000_000_000


def reader(options: dict[str, str]) -> ReplayReader:
    columns = StructType().add("at", TimestampType()).add("key", StringType())
    stamped = columns.add("_arrival", TimestampType()).add("_offset", LongType())
    return ReplayReader(parse(options), stamped)


def rows_of(source: ReplayReader, first: int, stop: int) -> list[dict[str, Any]]:
    batches: Any = source.read(InputPartition((START, first, stop)))
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_range_read_again_is_identical(ten_readings: str) -> None:
    options = {"path": ten_readings, "time": "at", "rate": "3", "loop": "true"}
    whole = rows_of(reader(options), 0, 35)
    parts = [rows_of(reader(options), *cut) for cut in ((0, 7), (7, 8), (8, 35))]
    assert whole == [row for part in parts for row in part]
    assert [row["_offset"] for row in whole] == list(range(35))
    assert [row["at"].timestamp() for row in whole] == [float(n) for n in range(35)]
    micros = [round(row["_arrival"].timestamp() * 1e6) - START for row in whole[:3]]
    assert micros == [333_334, 666_667, 1_000_000]


def test_speed_keeps_the_gaps_of_the_file(ten_readings: str) -> None:
    options = {"path": ten_readings, "time": "at", "speed": "4", "loop": "true"}
    arrivals = [row["_arrival"].timestamp() for row in rows_of(reader(options), 0, 25)]
    assert np.diff(arrivals) == pytest.approx(0.25, abs=1e-6)
    assert arrivals[0] == START / 1e6


def test_offsets_follow_the_clock_and_the_limit(ten_readings: str) -> None:
    source = reader({"path": ten_readings, "rate": "1000"})
    begin = {"start": time.time() - 0.005, "offset": 2}
    assert source.latestOffset(begin, ReadMaxRows(1))["offset"] == 3
    assert 5 <= source.latestOffset(begin, ReadAllAvailable())["offset"] <= 10
    assert source.latestOffset({"start": 5.0, "offset": 9}, ReadAllAvailable())["offset"] == 10
    future = {"start": time.time() + 60, "offset": 4}
    assert source.latestOffset(future, ReadAllAvailable()) == future
    assert source.initialOffset()["start"] == future["start"]


def test_a_range_takes_its_start_time_from_its_end(ten_readings: str) -> None:
    source = reader({"path": ten_readings, "rate": "1", "partitions": "3"})
    fresh, logged = {"start": 99.0, "offset": 0}, {"start": 7.0, "offset": 8}
    cuts = [part.value for part in source.partitions(fresh, logged)]
    assert cuts == [(7_000_000, 0, 2), (7_000_000, 2, 5), (7_000_000, 5, 8)]
    assert source.partitions(logged, logged) == []
    assert len(source.partitions(fresh, {"start": 7.0, "offset": 2})) == 2


def run(stream: DataFrame, to: Path, *, once: bool = False) -> StreamingQuery:
    writer = stream.writeStream.option("checkpointLocation", str(to / "checkpoint"))
    writer = writer.trigger(availableNow=True) if once else writer
    return writer.format("parquet").start(str(to / "out"))


def wait_for(query: StreamingQuery, rows: int) -> None:
    deadline = time.monotonic() + 60
    while sum(progress.numInputRows for progress in query.recentProgress) < rows:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_exactly_once_over_stop_and_restart(spark: SparkSession, tmp_path: Path) -> None:
    """Stopped, torn back by one uncommitted batch, and restarted: each row once, no gaps."""
    profile = parse_profile('[{"at": "1s", "factor": 3}]')
    stream = replay(
        spark, generator="keyed", rate=2000, profile=[{"at": "1s", "factor": 3}], queries=9
    )
    first = run(stream, tmp_path)
    wait_for(first, 8_000)
    first.stop()
    folder = tmp_path / "checkpoint" / "commits"
    commits = sorted((path for path in folder.glob("[0-9]*")), key=lambda p: int(p.name))
    commits[-1].unlink()
    for checksum in folder.glob(".*.crc"):  # a stop may leave one of a commit that never was
        if not (folder / checksum.name[1:-4]).exists():
            checksum.unlink()
    second = run(stream, tmp_path, once=True)
    second.awaitTermination(60)
    sources = [progress.sources[0] for progress in second.recentProgress]
    last = json.loads(sources[-1].endOffset)

    table = pq.read_table(tmp_path / "out").sort_by("_offset")
    offsets = np.asarray(table["_offset"])
    assert np.array_equal(offsets, np.arange(last["offset"]))
    schedule = Schedule(round(last["start"] * 1e6), 2000, profile)
    arrivals = np.asarray(table["_arrival"].cast(pa.timestamp("us")).cast(pa.int64()))
    assert np.array_equal(arrivals, schedule.arrival_of(offsets))
    assert_pace_kept(first, schedule)


def assert_pace_kept(query: StreamingQuery, schedule: Schedule) -> None:
    """What a batch took is what the schedule owed when it was planned: after its trigger fired, and
    before the batch was done.
    """
    progress = query.recentProgress[-1]
    fired = datetime.fromisoformat(progress.timestamp).replace(tzinfo=UTC).timestamp()
    done = fired + progress.durationMs["triggerExecution"] / 1000
    least, most = (schedule.offset_at(round(moment * 1e6)) for moment in (fired, done))
    assert least <= json.loads(progress.sources[0].endOffset)["offset"] <= most


def test_a_slow_job_sees_its_lateness(spark: SparkSession) -> None:
    """The limit lets 200 of 20,000 rows a second through, and arrival times do not wait."""
    stream = replay(spark, generator="readings", rate=20_000, keys=50, maxRowsPerTrigger=50)
    late: list[float] = []
    most: list[int] = []

    def measure(batch: DataFrame, number: int) -> None:
        del number
        rows = batch.select("_offset", "_arrival").collect()
        most.append(len(rows))
        late.extend(time.time() - row["_arrival"].timestamp() for row in rows[-1:])

    query = stream.writeStream.foreachBatch(measure).start()
    wait_for(query, 250)
    behind = query.recentProgress[-1].sources[0]
    query.stop()
    assert max(most) == 50
    assert late == sorted(late)
    assert late[-1] > 0.5
    assert behind.latestOffset is not None
    backlog = json.loads(behind.latestOffset)["offset"] - json.loads(behind.endOffset)["offset"]
    assert backlog > 5000


def test_files_end_where_they_end(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"at": [2.0, 1.0, 3.0], "key": ["b", "a", "c"]})
    pq.write_table(table, tmp_path / "rows.parquet")
    import_module("pyarrow.csv").write_csv(table, tmp_path / "rows.csv")
    one, other = (
        replay(spark, path=tmp_path / name, time="at", speed=1e6, partitions=1)
        for name in ("rows.parquet", "rows.csv")
    )
    query = one.union(other).writeStream.format("memory").queryName("both").start()
    wait_for(query, 6)
    query.processAllAvailable()
    query.stop()
    found = sorted((row["_offset"], row["at"], row["key"]) for row in spark.table("both").collect())
    assert found == sorted([(0, 1.0, "a"), (1, 2.0, "b"), (2, 3.0, "c")] * 2)


def test_spark_is_told_what_is_wrong(spark: SparkSession) -> None:
    register(spark)
    with pytest.raises(AnalysisException, match="option 'rate' must be a number above 0"):
        spark.readStream.format("replay").options(generator="keyed", rate="-1").load()
    with pytest.raises(ValueError, match="unknown option 'quries': did you mean 'queries'"):
        replay(spark, generator="keyed", rate=1, quries=3)

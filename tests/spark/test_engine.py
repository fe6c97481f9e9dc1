"""The contract with Spark's private parts: a test for each question of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PenstockError
from penstock.sources.replay import replay
from penstock.spark import engine as module
from penstock.spark.asking import KNOWN_SPARKS
from penstock.spark.engine import CATALOG, Engine
from penstock.spark.progress import Progress
from penstock.spark.stream_state import FilesRead, ReadLimit, Trigger
from tests.spark.support import file_stream, wait_until, write_batches


class Heard:
    """Callbacks that write down what they hear, and refuse every plan."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.batches = 0
        self.ends: list[str] = []

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        raise AssertionError(f"{gate} asks for batch {batch} of {query}, run {run}")

    def started(self, query: str) -> None:
        self.begun.append(query)

    def progressed(self) -> None:
        self.batches += 1

    def ended(self, run: str) -> None:
        self.ends.append(run)


@pytest.fixture
def engine(spark: SparkSession) -> Engine:
    asked = Engine(spark)
    asked.install()
    return asked


@pytest.fixture
def stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()


@pytest.fixture
def query(stream: DataFrame, tmp_path: Path) -> Iterator[StreamingQuery]:
    writer = stream.observe("seen", sf.count("*").alias("n")).writeStream.format("noop")
    running = (
        writer.trigger(processingTime="100 milliseconds")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    wait_until(lambda: running.exception() or len(running.recentProgress) >= 2)
    yield running
    running.stop()


def test_this_spark_is_a_known_one(spark: SparkSession) -> None:
    assert spark.version.startswith(KNOWN_SPARKS)


def test_where_tasks_run(engine: Engine) -> None:
    """On this machine; ``tests/spark/clusters`` asks the same where there are executors."""
    assert engine.on_one_machine
    assert engine.cores == 2
    assert len(engine.executors()) == 1  # the driver
    assert engine.counts_once() == (not pyspark.__version__.startswith("4.2."))


def test_the_functions_of_the_catalog_are_there(engine: Engine) -> None:
    engine.install()  # again, which is quick
    listed = engine.spark.sql(f"SHOW USER FUNCTIONS IN {CATALOG}").collect()
    assert {row[0].rpartition(".")[2] for row in listed} == {
        "flag",
        "number",
        "longs",
        "doubles",
        "rows",
        "passing",
        "chance",
        "tell",
        "next",
    }


def test_a_missing_jar_is_told(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JAR", Path("elsewhere.jar"))
    with pytest.raises(PenstockError, match=r"elsewhere\.jar is missing.*make setup"):
        Engine(spark).install()


@pytest.mark.usefixtures("engine")
def test_a_gate_that_nobody_answers_for_fails_with_the_reason(stream: DataFrame) -> None:
    version = sf.get(sf.expr(f"{CATALOG}.longs('nobody', 'version')"), sf.lit(0))
    query = stream.select(version.alias("v")).writeStream.format("noop").start()
    wait_until(lambda: query.exception() is not None)
    assert "the site of the gate nobody has stopped" in str(query.exception())


def test_a_gate_is_answered_for_until_it_is_forgotten(engine: Engine) -> None:
    heard = Heard()
    engine.answer_for("some", heard)
    asked = engine.spark.sql(f"SELECT {CATALOG}.longs('some', 'version')")
    with pytest.raises(Exception, match="asks for batch -1"):
        asked.collect()
    engine.forget("some")
    again = engine.spark.sql(f"SELECT {CATALOG}.longs('some', 'version')")
    with pytest.raises(Exception, match="has stopped"):
        again.collect()


def test_it_is_heard_when_queries_begin_go_on_and_end(engine: Engine, stream: DataFrame) -> None:
    heard = Heard()
    close = engine.listen(heard)
    query = stream.writeStream.format("noop").start()
    assert str(query.id) in heard.begun, "Spark waits for the answer before start() returns"
    wait_until(lambda: heard.batches >= 2)
    query.stop()
    wait_until(lambda: str(query.runId) in heard.ends)
    close()
    other = stream.writeStream.format("noop").start()
    other.stop()
    assert str(other.id) not in heard.begun


def test_task_times_are_told_once_and_by_run(engine: Engine, query: StreamingQuery) -> None:
    run = str(query.runId)
    assert engine.task_seconds(run) is None, "nobody has asked for them to be noted"
    engine.time_tasks()
    told: list[float] = []

    def is_told() -> bool:
        seconds = engine.task_seconds(run)
        if seconds is not None:
            told.append(seconds)
        return len(told) >= 2

    wait_until(is_told)
    assert all(0 <= seconds < 60 for seconds in told)
    assert engine.task_seconds("another run") is None


def test_a_query_is_found_by_its_id(engine: Engine, query: StreamingQuery) -> None:
    assert engine.find(str(query.id)).runId == query.runId
    query.stop()
    with pytest.raises(PenstockError, match="runs no query"):
        engine.find(str(query.id))


def test_the_last_progress_is_that_of_pyspark(engine: Engine, query: StreamingQuery) -> None:
    query.stop()
    told = engine.last_progress(query)
    assert told is not None
    number, read = told
    mine, theirs = Progress.of(read()), query.recentProgress[-1]
    assert (number, mine.batch) == (theirs.batchId, theirs.batchId)
    assert mine.query == str(query.id)
    assert mine.observed["seen"] == {"n": 10}


def test_offsets_are_known_before_a_batch_has_run(engine: Engine, query: StreamingQuery) -> None:
    query.stop()
    (source,) = engine.sources(query)
    assert source.after["offset"] >= source.before["offset"] > 0
    assert source.files is None


def test_the_newest_offsets_are_known_before_a_batch_has_run(
    engine: Engine, spark: SparkSession
) -> None:
    stream = replay(spark, generator="readings", rate=1000, maxRowsPerTrigger=10)
    both = stream.union(stream)  # one source, read twice
    query = both.writeStream.format("noop").trigger(processingTime="200 milliseconds").start()
    wait_until(lambda: query.exception() or len(query.recentProgress) >= 3)
    query.stop()
    (source,) = engine.sources(query)
    assert source.latest["offset"] > source.after["offset"] >= source.before["offset"] > 0


def test_files_that_were_read_and_that_wait(engine: Engine, tmp_path: Path) -> None:
    folder = write_batches(tmp_path / "in", [{"k": ["a"]}] * 7)
    spark = engine.spark
    stream = spark.readStream.schema("n long").option("maxFilesPerTrigger", 2).parquet(folder)
    query = stream.writeStream.format("noop").trigger(processingTime="1 hour").start()
    wait_until(lambda: query.exception() or query.recentProgress)
    (source,) = engine.sources(query)
    query.stop()
    assert source.files == FilesRead(seen=2, unread=5, before=True)  # the batch has run
    assert source.latest is None


def test_read_limits_are_found_however_they_are_spelt(engine: Engine, tmp_path: Path) -> None:
    spark, folder = engine.spark, write_batches(tmp_path / "in", [{"k": ["a"]}])
    files = spark.readStream.schema("n long").option("MAXFILESPERTRIGGER", "7").parquet(folder)
    sized = spark.readStream.schema("n long").option("maxBytesPerTrigger", "1000").parquet(folder)
    free = spark.readStream.schema("n long").parquet(folder)
    rows = replay(spark, generator="readings", rate=1, maxRowsPerTrigger=50).selectExpr("_offset n")
    found = engine.read_limits(files.union(free).union(rows).union(sized))
    assert found == [
        ReadLimit("maxFilesPerTrigger", 7),
        None,
        ReadLimit("maxRowsPerTrigger", 50),
        ReadLimit("maxBytesPerTrigger", 1000),
    ]
    assert [limit.of_rows for limit in found if limit] == [False, True, False]


def test_the_trigger_of_a_query_and_of_a_writer(
    engine: Engine, query: StreamingQuery, stream: DataFrame
) -> None:
    assert engine.trigger(query) == Trigger("processing", 0.1)
    writer = stream.writeStream
    assert engine.trigger(writer) == Trigger("processing", 0.0)
    assert engine.trigger(writer.trigger(processingTime="2 seconds")) == Trigger("processing", 2.0)
    assert engine.trigger(writer.trigger(availableNow=True)).kind == "once"
    assert engine.trigger(writer.trigger(continuous="1 second")).kind == "continuous"
    real_time: dict[str, Any] = {"realTime": "5 minutes"}
    assert engine.trigger(writer.trigger(**real_time)).kind == "real-time"


def test_where_the_checkpoint_is(engine: Engine, query: StreamingQuery, tmp_path: Path) -> None:
    assert engine.checkpoint_of(query).endswith(f"{tmp_path}/checkpoint")


def test_names_are_found_however_long_the_plan(
    engine: Engine, stream: DataFrame, query: StreamingQuery
) -> None:
    """Spark cuts the text of a plan off, so nobody may search in that."""

    def mapped(batches: Iterator[Any]) -> Iterator[Any]:
        return batches

    mapped.__name__ = "penstock_function"
    before = engine.spark.conf.get("spark.sql.maxPlanStringLength")
    engine.spark.conf.set("spark.sql.maxPlanStringLength", "10")
    try:
        wide = stream.observe("first", sf.count("*").alias("n"))
        both = wide.mapInArrow(mapped, stream.schema).union(
            stream.observe("second", sf.max("value"))
        )
        assert engine.names_in(both) == {"first", "second", "penstock_function"}
        assert engine.names_in(query) == {"seen"}
    finally:
        engine.spark.conf.set("spark.sql.maxPlanStringLength", str(before))


def test_copies_of_tuples_in_sliding_windows(engine: Engine, stream: DataFrame) -> None:
    """By the operator behind the windows; three of five seconds every two, at most."""
    timed = stream.withWatermark("timestamp", "1 second")

    def grouped(frame: DataFrame, *lengths: str) -> DataFrame:
        return frame.groupBy(sf.window("timestamp", *lengths), "value").count()

    assert engine.copies_in(stream) == {}
    assert engine.copies_in(grouped(timed, "4 seconds")) == {"stateStoreSave": 1}
    assert engine.copies_in(grouped(timed, "5 seconds", "2 seconds")) == {"stateStoreSave": 3}
    pairs = timed.join(timed.select("value"), "value")
    copies = {"stateStoreSave": 2, "symmetricHashJoin": 1}
    assert engine.copies_in(grouped(pairs, "4 seconds", "2 seconds")) == copies
    windows = timed.select("value", sf.window("timestamp", "4 seconds", "2 seconds"))
    met = windows.join(windows.withColumnRenamed("value", "other"), "window")
    assert engine.copies_in(met) == {"symmetricHashJoin": 2}


def test_what_is_observed_in_front_of_operators(engine: Engine, stream: DataFrame) -> None:
    """Below each kind of operator, and below what is observed further on."""
    one, other = (
        stream.observe(name, sf.count(sf.lit(1)).alias("n")).withWatermark("timestamp", "1 second")
        for name in ("one", "other")
    )
    unique = one.dropDuplicates(["timestamp"]).observe("late", sf.count(sf.lit(1)).alias("n"))
    assert engine.names_below(unique.union(other)) == {
        "late": {"late", "one"},
        "dedupe": {"one"},
        "one": {"one"},
        "other": {"other"},
    }


def test_sources_are_told_apart(engine: Engine, tmp_path: Path) -> None:
    x, y = (
        file_stream(engine.spark, write_batches(tmp_path / name, [{"k": ["a"]}])) for name in "xy"
    )
    both = engine.sources_in(x.union(y).union(x))
    assert len(both) == 2
    (mine,) = engine.sources_in(y)
    assert [source.equals(mine) for source in both] == [False, True]


def test_what_cannot_be_streamed(engine: Engine, stream: DataFrame) -> None:
    engine.check_streamable(stream, "append")
    with pytest.raises(AnalysisException, match="watermark"):
        engine.check_streamable(stream.groupBy("value").count(), "append")


def test_formats_that_are_known(engine: Engine) -> None:
    assert engine.knows_format("parquet")
    assert not engine.knows_format("no-such-format")


def test_the_frame_of_a_writer(engine: Engine, stream: DataFrame) -> None:
    assert engine.frame_of(stream.writeStream.format("noop")) is stream


def test_files_on_any_file_system(engine: Engine, tmp_path: Path) -> None:
    files = engine.files(f"file://{tmp_path}/here")
    assert not files.exists("a/one")
    assert files.names("a") == []
    files.write("a/one", "größer")
    files.write("a/2", "")
    assert files.read("a/one") == "größer"
    assert sorted(files.names("a")) == ["2", "one"]
    other = engine.files(str(tmp_path / "there"))
    files.copy("a", other, "b")
    files.copy("none", other, "c")
    assert other.read("b/one") == "größer"
    assert not other.exists("c")
    files.remove("a/2")
    files.remove("a/2")  # which is gone
    assert files.names("a") == ["one"]
    files.delete()
    assert not files.exists("a/one")


def test_a_spark_that_does_not_answer_is_named_in_one_sentence(
    engine: Engine, query: StreamingQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise TypeError("no such method\nand a stack trace")

    monkeypatch.setattr(Engine, "_execution", gone)
    with pytest.raises(PenstockError) as caught:
        engine.sources(query)
    assert str(caught.value) == (
        f"Penstock knows Spark 4.2 and 4.3; this is {engine.spark.version}, which does not tell "
        "the offsets of a batch that is about to run: no such method"
    )


def test_a_query_like_another_reads_the_same_into_nowhere(
    engine: Engine, query: StreamingQuery, tmp_path: Path
) -> None:
    other = engine.start_like(query, "another", str(tmp_path / "other"))
    try:
        wait_until(lambda: other.exception() or other.recentProgress)
        assert other.exception() is None
        assert other.name == "another"
        assert other.recentProgress[0].observedMetrics.keys() == {"seen"}
        assert engine.checkpoint_of(other) != engine.checkpoint_of(query)
    finally:
        other.stop()


def test_where_a_query_begins_to_read(
    spark: SparkSession, engine: Engine, query: StreamingQuery
) -> None:
    assert not engine.begins_at_latest(query)  # from its first row
    live = replay(spark, generator="readings", rate=10)
    writer = live.writeStream.format("noop").trigger(processingTime="100 milliseconds")
    running = writer.start()
    try:
        assert engine.begins_at_latest(running)
    finally:
        running.stop()


def test_a_gate_can_be_made_by_any_thread(spark: SparkSession) -> None:
    """A site of a federation makes its gates in the threads that answer requests."""
    fresh = spark.newSession()  # whose catalog nobody has loaded
    Engine(fresh).install()
    with ThreadPoolExecutor(1) as threads:
        plan = "penstock.longs('gate', 'keys')"
        made = threads.submit(lambda: fresh.range(1).select(sf.expr(plan)).columns)
        assert len(made.result(60)) == 1

"""What a batch that runs again leaves in a sink; ``tests/oldest`` has Delta."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.spark.record.past_batches import recall_past
from tests.spark.sinks import LAST, in_two_lives


def in_files(spark: SparkSession, out: Path) -> Counter[int]:
    """How often each tuple stands in the files of a folder, whoever wrote them."""
    files = [str(file) for file in out.rglob("*.parquet")]
    return Counter(row["n"] for row in spark.read.parquet(*files).collect())


def test_files_have_a_batch_that_runs_again_once(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def sink(rows: DataFrame) -> DataStreamWriter:
        return rows.writeStream.format("parquet").option("path", str(out))

    admitted = in_two_lives(spark, tmp_path, sink)
    assert set(in_files(spark, out).values()) == {1}
    (query,) = (tmp_path / "site" / "past").iterdir()
    past = recall_past(tmp_path / "site", query.name)
    assert [its.timed for its in past.values()] == [True] * LAST + [False]  # Spark saw no tuple
    assert all(its.plans.keys() == {0} for its in past.values()), "it can be settled all the same"
    assert spark.read.parquet(str(out)).count() == sum(admitted)


def test_files_of_a_batch_that_was_not_finished_are_seen_by_those_who_list_the_folder(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark reads what its own list of files says; other readers see the remains, too."""
    out = tmp_path / "out"

    def sink(rows: DataFrame) -> DataStreamWriter:
        return rows.writeStream.format("parquet").option("path", str(out))

    def died() -> None:  # the files are written, and the list is not
        for entry in (out / "_spark_metadata").glob(f"*{LAST}*"):
            entry.unlink()

    admitted = in_two_lives(spark, tmp_path, sink, died)
    rows = spark.read.parquet(str(out)).collect()
    assert len(rows) == len({row["n"] for row in rows}) == sum(admitted)
    assert Counter(in_files(spark, out).values())[2] == admitted[LAST]


def test_a_batch_that_is_appended_twice_is_there_twice_and_alike(
    spark: SparkSession, tmp_path: Path
) -> None:
    def append(batch: DataFrame, number: int) -> None:
        del number
        batch.write.mode("append").parquet(str(tmp_path / "out"))

    admitted = in_two_lives(spark, tmp_path, lambda rows: rows.writeStream.foreachBatch(append))
    times = in_files(spark, tmp_path / "out")
    assert Counter(times.values()) == {1: sum(admitted[:LAST]), 2: admitted[LAST]}


def test_a_batch_that_takes_its_own_place_is_there_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    def replace(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(tmp_path / "out" / f"batch={number}"))

    admitted = in_two_lives(spark, tmp_path, lambda rows: rows.writeStream.foreachBatch(replace))
    times = in_files(spark, tmp_path / "out")
    assert set(times.values()) == {1}
    assert len(times) == sum(admitted)
    shutil.rmtree(tmp_path / "out")

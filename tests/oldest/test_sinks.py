"""What a batch that runs again leaves in Delta."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.sinks import LAST, in_two_lives


def of_delta(spark: SparkSession, table: Path) -> Counter[int]:
    return Counter(row["n"] for row in spark.read.format("delta").load(str(table)).collect())


def test_a_delta_table_has_a_batch_that_runs_again_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    def sink(rows: DataFrame) -> DataStreamWriter:
        return rows.writeStream.format("delta").option("path", str(tmp_path / "out"))

    admitted = in_two_lives(spark, tmp_path, sink)
    times = of_delta(spark, tmp_path / "out")
    assert set(times.values()) == {1}
    assert len(times) == sum(admitted)


def test_a_batch_that_is_appended_to_a_delta_table_twice_is_there_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Unless the writer says which batch it is."""

    def append(batch: DataFrame, number: int) -> None:
        del number
        batch.write.format("delta").mode("append").save(str(tmp_path / "plain"))

    def once(batch: DataFrame, number: int) -> None:
        named = batch.write.format("delta").mode("append").option("txnAppId", "fares")
        named.option("txnVersion", number).save(str(tmp_path / "named"))

    def both(batch: DataFrame, number: int) -> None:
        batch.persist()
        append(batch, number)
        once(batch, number)
        batch.unpersist()

    admitted = in_two_lives(spark, tmp_path, lambda rows: rows.writeStream.foreachBatch(both))
    times = of_delta(spark, tmp_path / "plain")
    assert Counter(times.values()) == {1: sum(admitted[:LAST]), 2: admitted[LAST]}
    assert set(of_delta(spark, tmp_path / "named").values()) == {1}

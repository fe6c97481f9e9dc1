"""A gated job that merges its windows into a Delta table, for ``test_delta``: python delta_job.py
FOLDER [--die]. With --die it kills itself behind the second MERGE, before Spark commits the batch.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import Site
from penstock import functions as pf
from penstock.lab.field.jars import delta
from tests.spark.clusters.features import ByName
from tests.spark.support import QUICK, file_stream

DIES_IN_BATCH = 1
TABLE = "delta.`{}`"
WINDOWS = "start TIMESTAMP, k STRING, n BIGINT, x DOUBLE"


def session() -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .appName("penstock-delta")
        .config("spark.jars", delta())
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.log.level", "ERROR")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .getOrCreate()
    )


def run(spark: SparkSession, folder: Path, *, die: bool = False) -> Site:
    """Reads all that is in the folder, and answers its site, which has stopped."""
    target = TABLE.format(folder / "table")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {target} ({WINDOWS}) USING delta")

    def merge(batch: DataFrame, number: int) -> None:
        batch.persist()  # MERGE reads it twice, and the gate would count its tuples as often
        batch.createOrReplaceTempView("news")
        batch.sparkSession.sql(
            f"MERGE INTO {target} AS old USING news ON old.start = news.start AND old.k = news.k "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        if die and number == DIES_IN_BATCH:
            os.kill(os.getpid(), signal.SIGKILL)
        batch.unpersist()

    site = Site(spark, interval="100ms", latency=60, directory=folder / "site", controller=ByName)
    stream = file_stream(spark, str(folder / "in"))
    windows = (
        site.gate(stream, query="q", strata="k", id="n")
        .withWatermark("at", "1 minute")
        .groupBy(sf.window("at", "10 seconds"), "k")
        .agg(pf.count("*").alias("n"), pf.avg("x").alias("x"))
        .select("window.start", "k", "n", "x")
    )
    writer = windows.writeStream.foreachBatch(merge).outputMode("update")
    query = site.start(writer, name="windows", checkpoint=folder / "checkpoint")
    query.processAllAvailable()
    site.stop()
    return site


if __name__ == "__main__":
    run(session(), Path(sys.argv[1]), die="--die" in sys.argv)

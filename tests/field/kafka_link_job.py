"""Sends rows over a link on Kafka, one batch of them twice, and prints what a reader got."""

import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.federation.kafka_link import KafkaLinks
from penstock.federation.link import LinkName

COLUMNS = "n BIGINT, x DOUBLE, parts ARRAY<DOUBLE>, _time TIMESTAMP"


def main(brokers: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    links, name = KafkaLinks(brokers), LinkName("load", "root", "links")
    rows = spark.range(20).selectExpr(
        "id AS n",
        "IF(id = 3, double('NaN'), id / 3) AS x",
        "IF(id = 4, NULL, array(id / 7.0D, NULL)) AS parts",
        "timestamp_micros(1700000000000001 + id * 1000) AS _time",
    )
    writer = links.writer([name], "rome@load", "a1")
    for batch, some in ((0, rows.where("n < 10")), (1, rows.where("n >= 10"))):
        assert writer.write(some, batch) == 10
    # the sender crashed before its commit: its batch runs again, in another order
    links.writer([name], "rome@load", "a1").write(rows.where("n >= 10").orderBy("x"), 1)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        read = links.read(spark, name, COLUMNS).withWatermark("_time", "1 minute")
        query = (
            links.once(read)
            .writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(home / "checkpoint"))
            .format("parquet")
            .start(str(home / "out"))
        )
        assert query.awaitTermination(120)
        got = spark.read.parquet(str(home / "out")).orderBy("n")
        print("equal", got.collect().__repr__() == rows.orderBy("n").collect().__repr__())
        print("rows", got.count())
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

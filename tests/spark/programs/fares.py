"""Windowed averages by key, with a watermark."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter


def writer(spark: SparkSession, rides: str, zones: str) -> DataStreamWriter:
    del zones
    schema = spark.read.parquet(rides).schema
    fares = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(rides)
        .withWatermark("pickup", "30 seconds")
        .groupBy(sf.window("pickup", "1 minute", "30 seconds"), "route")
        .agg(
            sf.count("*"),
            sf.count("fare"),
            sf.avg("fare"),
            sf.avg(sf.col("fare") / sf.col("km")),
            sf.mean("tip").alias("tip"),
            sf.max("fare"),
            sf.first("route"),
        )
        .withColumn("begin", sf.col("window.start"))
    )
    return fares.writeStream.format("memory").outputMode("append")

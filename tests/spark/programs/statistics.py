"""Sessions with a handful of statistics, and casts on the way."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter


def writer(spark: SparkSession, rides: str, zones: str) -> DataStreamWriter:
    del zones
    schema = spark.read.parquet(rides).schema
    sessions = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(rides)
        .withColumn("cents", (sf.col("fare") * 100).cast("int"))
        .withWatermark("pickup", "10 seconds")
        .groupBy(sf.session_window("pickup", "5 seconds"), sf.col("route"))
        .agg(
            sf.variance("fare"),
            sf.stddev_pop("fare"),
            sf.covar_samp("fare", "km"),
            sf.corr("fare", "km"),
            sf.percentile_approx("cents", [0.5, 0.9], 100),
            sf.median("cents"),
            sf.percentile("fare", 0.25).cast("float").alias("quartile"),
            sf.round(sf.avg("tip"), 1).alias("tip"),
        )
    )
    return sessions.writeStream.format("memory").outputMode("append")

"""A stream joined with a table, a filter, and sums by what the table says."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter


def writer(spark: SparkSession, rides: str, zones: str) -> DataStreamWriter:
    schema = spark.read.parquet(rides).schema
    incomes = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(rides)
        .join(sf.broadcast(spark.read.parquet(zones)), "route", "left")
        .where(sf.col("km") > 1)
        .withColumn("long", sf.col("km") >= 5)
        .groupBy(sf.coalesce("zone", sf.lit("elsewhere")).alias("zone"))
        .agg(
            sf.sum("passengers"),
            sf.sum("tip"),
            sf.sum(sf.when(sf.col("long"), sf.col("fare")).otherwise(0.0)).alias("long"),
            sf.count_if("long"),
            sf.count_if((sf.col("route") == "r1") & sf.col("fare").isNotNull()),
            sf.sum(sf.col("number").cast("decimal(20,0)")).alias("exact"),
            sf.approx_count_distinct("route"),
        )
        .orderBy(sf.desc("sum(tip)"))
    )
    return incomes.writeStream.format("memory").outputMode("complete")

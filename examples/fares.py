"""Mean fares by route over Kafka, kept fresh under overload: the README's program, grown up.

A topic has rides as JSON: ``{"route": "r1", "fare": 7.5, "pickup": "2024-05-01T12:00:00Z"}``. Run
it with the Kafka package of your Spark::

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 \\
        examples/fares.py broker:9092 rides /data/fares

Without arguments it makes rides up, and runs for half a minute.
"""

import sys

from pyspark.sql import DataFrame, SparkSession

from penstock import QueryTerms, Site, replay
from penstock import functions as sf

RIDE = "route STRING, fare DOUBLE, pickup TIMESTAMP"
SECONDS = 20


def kafka(spark: SparkSession, brokers: str, topic: str) -> DataFrame:
    """The topic as it comes: nothing is parsed in front of the gate."""
    options = {"kafka.bootstrap.servers": brokers, "subscribe": topic}
    return spark.readStream.format("kafka").options(**options).load()


def made_up(spark: SparkSession) -> DataFrame:
    """Rides in the shape that Kafka gives them."""
    rides = replay(spark, generator="rides", rate=20_000, routes=5)
    ride = sf.struct("route", "fare", sf.col("_arrival").alias("pickup"))
    return rides.select("_arrival", "_offset", sf.to_json(ride).alias("value"))


def fares(rides: DataFrame) -> DataFrame:
    """By route and five seconds: the mean fare with its interval, and how complete it is."""
    ride = sf.from_json(sf.col("value").cast("string"), RIDE)
    return (
        rides.select(ride.alias("ride"), "_weight", "_sic")  # the two columns come along
        .withColumn("pickup", sf.col("ride.pickup"))
        .withWatermark("pickup", "2 seconds")
        .groupBy(sf.window("pickup", "5 seconds"), "ride.route")
        .agg(sf.avg("ride.fare", bounds=True).alias("fare"), sf.count("*").alias("rides"), sf.sic())
    )


def main(arguments: list[str]) -> None:
    """Runs until it is stopped, or for half a minute where rides are made up."""
    spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if arguments:
        brokers, topic, directory = arguments
        stream, seconds = kafka(spark, brokers, topic), None
        places = {"checkpointLocation": f"{directory}/checkpoint", "path": f"{directory}/results"}
    else:
        directory, stream, seconds, places = None, made_up(spark), SECONDS, {"truncate": "false"}
    terms = {"fares": QueryTerms(floor=0.1)}
    with Site(spark, latency="4 seconds", terms=terms, directory=directory) as site:
        gated = stream.transform(site.gate, query="fares")
        writer = fares(gated).writeStream.format("parquet" if arguments else "console")
        query = writer.options(**places).trigger(processingTime="1 second").start()
        query.awaitTermination(seconds)
        print(site.report()["fares"])


if __name__ == "__main__":
    main(sys.argv[1:])

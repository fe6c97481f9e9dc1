"""Runs the README's job plain, behind an open gate, and weighted with bounds, side by side.

Each has a topic of its own, and the producer sees to it that one has messages at a time.
"""

import json
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock import Site
from penstock.lab.field.child import Lines, told_to_end
from penstock.lab.field.job import (
    MESSAGE,
    REPORT_SECONDS,
    SETTINGS,
    FieldJob,
    Probe,
    answers,
    source,
)

NAMES = ("plain", "gate", "bounds")
GENEROUS_LATENCY_SECONDS = 600.0
"""Nothing is shed within it."""


def start(
    stream: DataFrame, name: str, job: FieldJob, site: Site, directory: str, **schema: Any
) -> StreamingQuery:
    """Starts one of the three."""
    if name != "plain":
        stream = site.gate(stream, query=name, id=("partition", "offset"))
    answered = answers(stream, job, gated=name == "bounds", **schema)
    writer = answered.writeStream.queryName(name).format("noop").outputMode("append")
    writer = writer.option("checkpointLocation", directory)
    return writer.trigger(processingTime="1 second").start()


def main(spec: dict[str, Any]) -> None:
    """Runs all three until it is told to end."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    lines = Lines(spec["lines"])
    builder = SparkSession.builder.config(map=dict(SETTINGS))
    spark = builder.config("spark.jars", spec["jars"]).getOrCreate()
    spark.streams.addListener(Probe(lines))
    site = Site(spark, latency=GENEROUS_LATENCY_SECONDS)
    for name in NAMES:
        job = FieldJob("plain", spec["address"], spec["topics"][name], load=spec["load"])
        start(source(spark, job), name, job, site, f"{spec['folder']}/{name}", schema=MESSAGE)
    lines.tell("starting")
    while not told_to_end(REPORT_SECONDS):
        if len(spark.streams.active) < len(NAMES):
            sys.exit("a query ended")
    lines.tell("ledger", total=site.ledger.total(), balanced=site.ledger.balanced)
    site.stop()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""The README's job as a new user would run it: on Kafka, in a process with a cold JVM.

``python -m penstock.lab.field.job SPEC`` runs one, where SPEC is a `FieldJob` in JSON, until its
standard input is closed. It tells, in JSON lines, each progress report of Spark as a listener of
Spark's own gets it, and once a second what Penstock reports; ``field_truth.py`` reads it.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as plain
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from penstock import Site
from penstock import functions as weighted
from penstock.lab.field.child import Child, Lines, told_to_end
from penstock.lab.field.refinery import refinery

MESSAGE = "route STRING, value DOUBLE, at TIMESTAMP, note STRING"
FILE = "value STRING, timestamp TIMESTAMP, partition INT, offset LONG"
VARIANTS = ("plain", "fixed", "gated", "watch", "refinery")
SETTINGS: Mapping[str, str | bool | float | None] = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}
REPORT_SECONDS = 1.0
LONGEST_NEWS_SECONDS = 10.0
"""Until the site has heard of a query's last batch."""
SHARE_STEPS = 1_000_000
"""Into how many parts a fixed rate divides the messages."""


@dataclass(frozen=True)
class FieldJob:
    """Says which job runs: on what stream, with how much work, and what stands in front of it."""

    variant: str = "gated"
    address: str = ""
    topic: str = ""
    jars: str = ""
    folder: str | None = None
    """Files instead of a topic."""
    load: int = 20
    """How often the note is repeated before it is hashed: the work a tuple."""
    interval: float = 1.0
    latency: float = 3.0
    starting: str = "latest"
    limit: int | None = None
    """The option ``maxOffsetsPerTrigger``, or ``maxFilesPerTrigger`` for files."""
    shares: Sequence[tuple[float, float]] = ()
    """Of a fixed rate: seconds since the epoch, by Kafka's timestamp, and the rate from then on."""
    goal: float | None = None
    """How many tuples a second a dynamic sampler wants."""
    by_key: bool = False
    """Whether each key is a query of its own, told apart by Kafka's key."""
    bounds: bool = True
    probed: bool = True
    """Whether tuples are counted behind the gate, by Spark alone."""
    site: str | None = None
    checkpoint: str | None = None
    sink: str | None = None
    """Where results go as Parquet; nowhere unless told."""
    lines: str = ""


def source(spark: SparkSession, job: FieldJob) -> DataFrame:
    """Returns the stream as it comes."""
    name = "maxOffsetsPerTrigger" if job.folder is None else "maxFilesPerTrigger"
    limit = {} if job.limit is None else {name: str(job.limit)}
    if job.folder is not None:
        return spark.readStream.schema(FILE).options(**limit).parquet(job.folder)
    where = {"kafka.bootstrap.servers": job.address, "subscribe": job.topic}
    reader = spark.readStream.format("kafka").options(**where, **limit)
    return reader.option("startingOffsets", job.starting).load()


def sampled(stream: DataFrame, job: FieldJob) -> DataFrame:
    """Lets a fixed share through, by a hash of where a tuple stands in the stream."""
    place = plain.pmod(plain.xxhash64("partition", "offset"), plain.lit(SHARE_STEPS))
    rate: Column = plain.lit(job.shares[0][1])
    for since, share in job.shares:
        later = plain.col("timestamp").cast("double") >= since
        rate = plain.when(later, share).otherwise(rate)
    return stream.where(place < rate * SHARE_STEPS)


def probed(stream: DataFrame) -> DataFrame:
    """Counts what came through, and when the first and the last of it had arrived."""
    arrived = plain.col("timestamp").cast("double")
    return stream.observe(
        "truth",
        plain.count(plain.lit(1)).alias("admitted"),
        plain.min(arrived).alias("oldest"),
        plain.max(arrived).alias("newest"),
    )


def answers(
    stream: DataFrame, job: FieldJob, gated: bool, schema: str = MESSAGE, route: str = "route"
) -> DataFrame:
    """Parses, hashes and aggregates by route and ten seconds, with the weights where gated."""
    sf: Any = weighted if gated else plain
    stamps = ["_weight", "_sic"] if gated else []
    read = sf.from_json(sf.col("value").cast("string"), schema)
    digest = sf.crc32(sf.sha2(sf.repeat(sf.col("message.note"), job.load), 256))
    mean = sf.avg("message.value", bounds=job.bounds) if gated else sf.avg("message.value")
    return (
        stream.select("timestamp", read.alias("message"), *stamps)
        .withColumn("digest", digest)
        .withWatermark("timestamp", "2 seconds")
        .groupBy(sf.window("timestamp", "10 seconds"), sf.col(f"message.{route}").alias("route"))
        .agg(
            mean.alias("mean"),
            sf.count("*").alias("count"),
            sf.max("digest").alias("digest"),
            *([weighted.sic()] if gated else []),
        )
    )


class Probe(StreamingQueryListener):
    """Tells each progress report of Spark, and knows nothing of Penstock."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Tells when Spark says that the query began."""
        self._lines.tell("began", query=str(event.id), run=str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Tells how a batch went."""
        self._lines.tell("progress", progress=json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Tells nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Tells nothing."""


def site_for(spark: SparkSession, job: FieldJob) -> Site:
    """Returns the site in front of the job."""
    options: dict[str, Any] = {"watch": True} if job.variant == "watch" else {}
    if job.variant == "refinery":
        assert job.goal is not None
        options["controller"] = refinery(job.goal)
    return Site(spark, interval=job.interval, latency=job.latency, directory=job.site, **options)


def start(spark: SparkSession, job: FieldJob, lines: Lines) -> tuple[StreamingQuery, Site | None]:
    """Starts the job; tells when the program said so."""
    stream, site = source(spark, job), None
    if job.variant in ("gated", "watch", "refinery"):
        site = site_for(spark, job)
        query: Any = plain.col("key").cast("string") if job.by_key else "fares"
        strata: Any = plain.col("key").cast("string") if job.variant == "refinery" else ()
        identity = None if job.topic else ("partition", "offset")
        stream = site.gate(stream, query=query, strata=strata, id=identity)
    elif job.variant == "fixed":
        stream = sampled(stream, job)
    stream = probed(stream) if job.probed else stream
    writer = answers(stream, job, gated=site is not None).writeStream.queryName("fares")
    if job.checkpoint is not None:
        writer = writer.option("checkpointLocation", job.checkpoint)
    writer = writer.format("noop" if job.sink is None else "parquet").outputMode("append")
    if job.sink is not None:
        writer = writer.option("path", job.sink)
    lines.tell("starting")
    return writer.trigger(processingTime=f"{round(job.interval * 1000)} milliseconds").start(), site


def conclude(queries: Sequence[StreamingQuery], site: Site | None, lines: Lines) -> None:
    """Stops queries, and tells all that became of them when the ledger has heard of it, too."""
    for query in queries:
        query.stop()
        for progress in query.recentProgress:  # the listener may not have heard of the last
            lines.tell("progress", progress=json.loads(progress.json))
    if site is None:
        return
    ledger, deadline = site.ledger, time.monotonic() + LONGEST_NEWS_SECONDS
    while time.monotonic() < deadline and not all(map(partial(_is_known, site), queries)):
        time.sleep(0.05)
    batches = sorted(ledger.batches("fares"))
    lines.tell("ledger", total=ledger.total(), balanced=ledger.balanced, batches=batches)


def _is_known(site: Site, query: StreamingQuery) -> bool:
    last = max((each.batchId for each in query.recentProgress if each.numInputRows), default=None)
    return last is None or last in site.ledger.batches(query.name or "")


def main(job: FieldJob) -> int:
    """Runs the job until it is told to end."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.config(map=dict(SETTINGS))
    spark = (builder.config("spark.jars", job.jars) if job.jars else builder).getOrCreate()
    lines = Lines(job.lines)
    spark.streams.addListener(Probe(lines))
    query, site = start(spark, job, lines)
    while not told_to_end(REPORT_SECONDS) and query.isActive:
        if site is not None and job.by_key:  # a report on each of many keys would be work itself
            lines.tell("told", sic=site.sic())
        elif site is not None:
            lines.tell("told", report=site.report().to_dict(), sic=site.sic())
    failed = query.exception()
    conclude([query], site, lines)
    if site is not None:
        site.stop()
    spark.stop()
    if failed is not None:
        print(failed, file=sys.stderr)
    return 0 if failed is None else 1


class RunningJob(Child):
    """Is a job in a process of its own; made, it may not have begun yet."""

    def __init__(self, job: FieldJob, folder: Path, name: str = "job") -> None:
        super().__init__("penstock.lab.field.job", asdict(job), folder, name)
        self.job = job

    def wait_for_batches(self, count: int, seconds: float = 180.0) -> None:
        """Waits until Spark has told of so many batches."""
        self.wait_for(lambda: len(self.told("progress")) >= count, seconds, f"{count} batches")

    def wait_for_start(self) -> float:
        """Waits until the program starts the query, and returns when that was."""
        self.wait_for(lambda: self.told("starting"), 120, "the query's start")
        return float(self.told("starting")[-1]["at"])


if __name__ == "__main__":
    sys.exit(main(FieldJob(**json.loads(sys.argv[1]))))

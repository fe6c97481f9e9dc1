"""What the benchmarks share: a session, the jobs, and what a run recorded.

Machines are small, shared and noisy. So every benchmark first measures what its job can process
here and derives its rates from that, compares inside one run, and keeps every batch it saw.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock import functions as pf
from penstock.core.types import Floats, Plan, Stratum
from penstock.sources.replay import replay
from penstock.sources.schedule import SECOND, Schedule
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys
from penstock.spark.gate.wire import Wire
from penstock.spark.site import Site

WHOLE = 30.0
"""Seconds from which on a run is meant to say something; a shorter one only shows that it runs."""
INTERVAL = 1.0
TRIGGER = f"{round(INTERVAL * 1000)} milliseconds"
READING = "id long, key string, value double, unit string, note string"
CATALOGUE = [f"calibrated at site {n}, batch of the {n % 4} series" for n in range(6)]
"""Texts that the heavy job compares every tuple's note with."""


def session(cores: int = 2) -> SparkSession:
    """Quiet, on loopback, with workers that know this package."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("penstock-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "OFF")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
        .getOrCreate()
    )


@dataclass(frozen=True)
class BatchRecord:
    """A micro-batch as it went; times are seconds since the epoch."""

    batch: int
    started: float
    ended: float
    arrived: int
    admitted: int
    oldest: float
    """When the first of its tuples had arrived, by the source's schedule."""
    newest: float

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def worst_latency(self) -> float:
        return self.ended - self.oldest

    def latencies(self) -> Any:
        """Of its tuples, at even steps between the first and the last."""
        arrivals = np.linspace(self.oldest, self.newest, 41)
        return self.ended - arrivals


@dataclass
class Recorded:
    batches: list[BatchRecord] = field(default_factory=list)

    def after(self, moment: float) -> list[BatchRecord]:
        return [batch for batch in self.batches if batch.ended > moment]

    def as_json(self) -> list[dict[str, Any]]:
        return [asdict(batch) for batch in self.batches]


def settled(recorded: Recorded, warm_up: float = 0.25) -> list[BatchRecord]:
    """Without the first part of the run, in which the JVM warms up."""
    first, last = recorded.batches[0].started, recorded.batches[-1].ended
    return recorded.after(first + warm_up * (last - first))


def p95(batches: list[BatchRecord]) -> float:
    return quantile(batches, 0.95)


def quantile(batches: list[BatchRecord], share: float) -> float:
    """Of the latencies of admitted tuples."""
    if not batches:
        return float("nan")
    times, weights = _latencies(batches)
    order = np.argsort(times)
    reached = np.cumsum(weights[order])
    return float(times[order][np.searchsorted(reached, share)])


def later_than(seconds: float, batches: list[BatchRecord]) -> float:
    """The share of admitted tuples."""
    if not batches:
        return float("nan")
    times, weights = _latencies(batches)
    return float(weights[times > seconds].sum())


def _latencies(batches: list[BatchRecord]) -> tuple[Floats, Floats]:
    """Of admitted tuples, and what each counts for; all of them for one."""
    times = np.concatenate([batch.latencies() for batch in batches])
    weights = np.repeat([max(batch.admitted, 1) for batch in batches], 41).astype(float)
    return times, weights / weights.sum()


def record(
    query: StreamingQuery, rate: float, profile: tuple[tuple[float, float], ...] = ()
) -> Recorded:
    """What a query of one replayed stream did, from its progress and the source's schedule."""
    recorded = Recorded()
    for told in query.recentProgress:
        progress: dict[str, Any] = dict(told)
        source = progress["sources"][0]
        first, last = _offset(source["startOffset"]), _offset(source["endOffset"])
        rows = last.get("offset", 0) - first.get("offset", 0)
        if not rows or progress["numInputRows"] == 0:
            continue
        schedule = Schedule(int(last["start"] * SECOND), rate, profile)
        ends = np.array([last["offset"] - rows, last["offset"] - 1])
        oldest, newest = schedule.arrival_of(ends).astype(np.int64) / 1e6
        started = datetime.fromisoformat(progress["timestamp"]).timestamp()
        metrics = next(iter(progress.get("observedMetrics", {}).values()), None)
        recorded.batches.append(
            BatchRecord(
                batch=progress["batchId"],
                started=started,
                ended=started + progress["durationMs"]["triggerExecution"] / 1000,
                arrived=rows,
                admitted=rows if metrics is None else metrics["admitted"],
                oldest=float(oldest),
                newest=float(newest),
            )
        )
    return recorded


def _offset(text: Any) -> dict[str, Any]:
    found = json.loads(text) if isinstance(text, str) else text
    return found if isinstance(found, dict) else {}


# --- jobs ------------------------------------------------------------------------------------


def readings(spark: SparkSession, rate: float, **options: Any) -> DataFrame:
    return replay(spark, generator="readings", rate=rate, **options)


OVERLOAD = 10.0
"""Of a flood: so many times what the job can process."""
CALM = 0.3 / OVERLOAD
"""Before it: a third of what the job can process."""


def flood_profile(calm: float) -> tuple[tuple[float, float], ...]:
    return ((0.0, CALM), (calm, 1.0))


def flood(spark: SparkSession, rate: float, calm: float) -> DataFrame:
    """A job starts up in calm, for so many seconds; then the flood comes."""
    profile = [{"at": at, "factor": factor} for at, factor in flood_profile(calm)]
    return readings(spark, rate, profile=profile)


def parsed(stream: DataFrame) -> DataFrame:
    """The light job's first half: one JSON record parsed."""
    reading = sf.from_json("payload", READING).alias("reading")
    return stream.select("_arrival", "_offset", "_weight", "_sic", reading).select(
        "_arrival", "_offset", "_weight", "_sic", "reading.*"
    )


def matched(stream: DataFrame) -> DataFrame:
    """The heavy job's first half: the record's note is matched with a catalogue, fuzzily."""
    scores = [sf.levenshtein(sf.col("note"), sf.lit(text)) for text in CATALOGUE]
    return parsed(stream).withColumn("distance", sf.least(*scores))


def windowed(stream: DataFrame, *more: Column, bounds: bool = False) -> DataFrame:
    return (
        stream.withWatermark("_arrival", "0 seconds")
        .groupBy(sf.window("_arrival", "5 seconds"), "key")
        .agg(
            pf.avg("value", bounds=bounds).alias("mean"),
            pf.count("*", bounds=bounds).alias("count"),
            pf.sic(),
            *more,
        )
    )


def heavy(stream: DataFrame) -> DataFrame:
    return windowed(matched(stream), sf.min("distance").alias("distance"))


def light(stream: DataFrame) -> DataFrame:
    return windowed(parsed(stream))


def plain(stream: DataFrame) -> DataFrame:
    """What a gate adds, without a gate."""
    return stream.select("*", sf.lit(1.0).alias("_weight"), sf.lit(1.0).alias("_sic"))


def fixed_gate(spark: SparkSession, stream: DataFrame, rate: float, keys: int = 5000) -> DataFrame:
    """A gate on ``key`` whose plan never changes: every stratum at one rate, counting and all."""
    gate = Gate("penstock_fixed", Keys("q", "s", (sf.col("key"),), (sf.col("_offset"),)), 10_000)
    names = spark.range(keys).select(sf.format_string("k%05d", "id").alias("key"))
    known = names.select("key", gate.keys.fingerprint().alias("fingerprint")).collect()
    gate.fingerprints = {Stratum("q", "s", row["key"]): row["fingerprint"] for row in known}
    plan = Plan(1, default_rate=rate, default_sic=1e-6)
    wire = Wire(spark, lambda: gate.shipment(plan, counting=True))
    wire.publish(gate.shipment(plan, counting=True))
    return gate.admit(stream, wire)


# --- running -----------------------------------------------------------------------------------


def sink(frame: DataFrame, directory: str) -> DataStreamWriter:
    return (
        frame.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(Path(directory) / "checkpoint"))
    )


def run_for(
    start: Callable[[str], StreamingQuery],
    seconds: float,
    watch: Callable[[], object] | None = None,
    say: str = "",
    batches: int = 1,
) -> StreamingQuery:
    """Starts a query with a directory of its own, lets it run, stops it.

    The time counts from the end of its first batch, which on a cold JVM takes long; and it goes on
    until it has done so many batches and ``watch`` has not said False, for four minutes at most.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as directory:  # Spark may still write
        query = start(directory)
        if say:
            print(f"  {say} ({seconds:.0f} s)", file=sys.stderr, flush=True)
        give_up = time.time() + 240 + seconds
        end, warm = give_up, False
        while time.time() < end and query.isActive:
            time.sleep(0.25)
            more = watch is not None and watch() is False
            last = _last_batch(query)
            if last is not None and not warm:
                warm, end = True, time.time() + seconds
            if last is not None and time.time() >= end and (more or last < batches):
                end = min(time.time() + 1, give_up)
        if not query.isActive and query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        query.stop()
        return query


def wait(seconds: float, say: str) -> None:
    print(f"  {say} ({seconds:.0f} s)", file=sys.stderr, flush=True)
    time.sleep(seconds)


def _last_batch(query: StreamingQuery) -> int | None:
    """Without reading all that is known of it, which takes long with thousands of strata."""
    wrapped: Any = query
    progress = wrapped._jsq.lastProgress()
    return None if progress is None else int(progress.batchId())


def run_plain(
    frame: DataFrame, seconds: float, say: str = "plain", batches: int = 1
) -> StreamingQuery:
    return run_for(
        lambda directory: sink(frame, directory).trigger(processingTime=TRIGGER).start(),
        seconds,
        say=say,
        batches=batches,
    )


def throughput(frame: DataFrame, seconds: float, say: str) -> float:
    """Rows a second that a job manages when there is always more to do, after a warm-up."""
    query = run_plain(frame, seconds, say, batches=8)
    batches = [dict(p) for p in query.recentProgress if p["numInputRows"] > 0]
    late = batches[len(batches) // 2 :]
    rows = sum(batch["numInputRows"] for batch in late)
    took = sum(batch["durationMs"]["triggerExecution"] for batch in late) / 1000
    return float(rows / max(took, 1e-9))


def heavy_throughput(spark: SparkSession, seconds: float) -> float:
    rows = 30_000 if seconds >= WHOLE / 3 else 2_000
    backlog = readings(spark, 10_000_000, maxRowsPerTrigger=rows)
    return throughput(heavy(plain(backlog)), seconds, "what can the job process?")


def source_adds(spark: SparkSession, rate: float, seconds: float) -> float:
    """How much later than half an interval of waiting a tuple is out of the bare source."""
    bare = readings(spark, rate).select(sf.length("payload").alias("n")).groupBy().max("n")
    query = run_for(
        lambda directory: (
            bare.writeStream.format("noop")
            .outputMode("complete")
            .option("checkpointLocation", directory + "/c")
            .trigger(processingTime=TRIGGER)
            .start()
        ),
        seconds,
        say="the source alone",
    )
    batches = record(query, rate).batches
    return float(np.median([batch.seconds for batch in batches[len(batches) // 2 :]]))


def gated_site(spark: SparkSession, **options: Any) -> Site:
    return Site(spark, interval=INTERVAL, **options)

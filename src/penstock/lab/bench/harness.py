"""Has what the benchmarks share: a session, the jobs, and what a run recorded.

Machines are small, shared and noisy. So every benchmark first measures what its job can process
here and derives its rates from that, compares inside one run, and keeps every batch it saw.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
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
from penstock.spark.engine import Engine
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys
from penstock.spark.progress import Progress, weighted_quantiles
from penstock.spark.session import check_java, session
from penstock.spark.site import Site

MEANINGFUL_SECONDS = 30.0
"""A shorter run only shows that the benchmark runs; its figures mean nothing."""
CORES = 2
"""How many cores of this machine Spark gets."""
INTERVAL_SECONDS = 1.0
TRIGGER = f"{round(INTERVAL_SECONDS * 1000)} milliseconds"
READING_SCHEMA = "id long, key string, value double, unit string, note string"
CATALOGUE_NOTES = [f"calibrated at site {n}, batch of the {n % 4} series" for n in range(6)]
"""Texts that the heavy job compares every tuple's note with."""
FLOOD_FACTOR = 10.0
"""What arrives in a flood, in multiples of what the job can process."""
CALM_FACTOR = 0.3 / FLOOD_FACTOR
"""What arrives before a flood, in multiples of the flood's rate."""
SETTINGS = {
    "spark.master": f"local[{CORES}]",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.log.level": "OFF",
    "spark.driver.memory": "4g",
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
}
"""What the benchmarks ask of Spark beside what every command does."""


@contextmanager
def bench_session() -> Iterator[SparkSession]:
    """Starts the session that the benchmarks run in; standard error stays for what they say."""
    check_java()
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as directory,  # Spark may still write
        session(Path(directory), "bench", SETTINGS) as spark,
    ):
        yield spark


@dataclass(frozen=True)
class BatchRecord:
    """Describes a micro-batch as it went; times are seconds since the epoch."""

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
        """Returns how long the batch took."""
        return self.ended - self.started

    @property
    def worst_latency(self) -> float:
        """Returns the latency of the batch's first tuple."""
        return self.ended - self.oldest

    def latencies(self) -> Any:
        """Returns latencies at even steps between the first tuple and the last."""
        arrivals = np.linspace(self.oldest, self.newest, 41)
        return self.ended - arrivals


@dataclass
class Recorded:
    """Holds the batches of a run."""

    batches: list[BatchRecord] = field(default_factory=list)

    def after(self, moment: float) -> list[BatchRecord]:
        """Returns the batches that ended after a moment."""
        return [batch for batch in self.batches if batch.ended > moment]

    def as_json(self) -> list[dict[str, Any]]:
        """Returns the batches as plain values."""
        return [asdict(batch) for batch in self.batches]


def settled(recorded: Recorded, warm_up: float = 0.25) -> list[BatchRecord]:
    """Returns the batches without the first part of the run, in which the JVM warms up."""
    first, last = recorded.batches[0].started, recorded.batches[-1].ended
    return recorded.after(first + warm_up * (last - first))


def p95(batches: list[BatchRecord]) -> float:
    """Returns the 95th percentile of the latencies of admitted tuples."""
    return quantile(batches, 0.95)


def quantile(batches: list[BatchRecord], share: float) -> float:
    """Returns a quantile of the latencies of admitted tuples."""
    if not batches:
        return float("nan")
    return weighted_quantiles(*_latencies(batches), [share])[0]


def later_than(seconds: float, batches: list[BatchRecord]) -> float:
    """Returns the share of admitted tuples that were later than this."""
    if not batches:
        return float("nan")
    times, weights = _latencies(batches)
    return float(weights[times > seconds].sum())


def _latencies(batches: list[BatchRecord]) -> tuple[Floats, Floats]:
    """Returns the latencies of admitted tuples, and their weights, which sum to 1."""
    times = np.concatenate([batch.latencies() for batch in batches])
    weights = np.repeat([max(batch.admitted, 1) for batch in batches], 41).astype(float)
    return times, weights / weights.sum()


def record(
    query: StreamingQuery, rate: float, profile: tuple[tuple[float, float], ...] = ()
) -> Recorded:
    """Records what a query of one replayed stream did, from its progress and the schedule."""
    recorded = Recorded()
    for progress in batches_of(query):
        first, stop = tuples_of(progress)
        if stop == first:
            continue
        schedule = Schedule(int(stream_start(progress) * SECOND), rate, profile)
        ends = schedule.arrival_of(np.array([first, stop - 1]))
        oldest, newest = ends.astype(np.int64) / 1e6
        gates = (metrics for metrics in progress.observed.values() if "admitted" in metrics)
        recorded.batches.append(
            BatchRecord(
                batch=progress.batch,
                started=progress.started,
                ended=progress.ended,
                arrived=stop - first,
                admitted=next((gate["admitted"] for gate in gates), stop - first),
                oldest=float(oldest),
                newest=float(newest),
            )
        )
    return recorded


def batches_of(query: StreamingQuery) -> list[Progress]:
    """Returns what Spark reports of the batches that had tuples."""
    told = [Progress.of(progress.json) for progress in query.recentProgress]
    return [progress for progress in told if progress.rows > 0]


def tuples_of(progress: Progress) -> tuple[int, int]:
    """Returns the numbers [first, stop) of the tuples of a batch of one replayed stream."""
    start, end = progress.sources[0].start, progress.sources[0].end
    return (start["offset"] if start else 0, end["offset"] if end else 0)


def stream_start(progress: Progress) -> float:
    """Returns when a replayed stream began, in seconds since the epoch."""
    return float(progress.sources[0].end["start"])


# --- jobs ------------------------------------------------------------------------------------


def readings(spark: SparkSession, rate: float, **options: Any) -> DataFrame:
    """Returns a stream of readings at a rate."""
    return replay(spark, generator="readings", rate=rate, **options)


def flood_profile(calm: float) -> tuple[tuple[float, float], ...]:
    """Returns the profile of a flood after so many seconds of calm."""
    return ((0.0, CALM_FACTOR), (calm, 1.0))


def flood(spark: SparkSession, rate: float, calm: float) -> DataFrame:
    """Returns a stream that is calm for so many seconds, in which a job starts up, then floods."""
    profile = [{"at": at, "factor": factor} for at, factor in flood_profile(calm)]
    return readings(spark, rate, profile=profile)


def parsed(stream: DataFrame) -> DataFrame:
    """Parses one JSON record a tuple, as the light job does first."""
    reading = sf.from_json("payload", READING_SCHEMA).alias("reading")
    return stream.select("_arrival", "_offset", "_weight", "_sic", reading).select(
        "_arrival", "_offset", "_weight", "_sic", "reading.*"
    )


def matched(stream: DataFrame) -> DataFrame:
    """Matches the record's note with a catalogue, as the heavy job does first."""
    scores = [sf.levenshtein(sf.col("note"), sf.lit(text)) for text in CATALOGUE_NOTES]
    return parsed(stream).withColumn("distance", sf.least(*scores))


def windowed(stream: DataFrame, *more: Column, bounds: bool = False) -> DataFrame:
    """Aggregates by key and window of five seconds."""
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
    """Is the job that costs much a tuple."""
    return windowed(matched(stream), sf.min("distance").alias("distance"))


def light(stream: DataFrame) -> DataFrame:
    """Is the job that costs little a tuple."""
    return windowed(parsed(stream))


def plain(stream: DataFrame) -> DataFrame:
    """Adds what a gate adds, without a gate."""
    return stream.select("*", sf.lit(1.0).alias("_weight"), sf.lit(1.0).alias("_sic"))


def fixed_gate(spark: SparkSession, stream: DataFrame, rate: float, keys: int = 5000) -> DataFrame:
    """Gates on ``key`` with one rate for every stratum, and counts strata as ever."""
    gate = Gate("penstock_fixed", Keys("q", "s", (sf.col("key"),), (sf.col("_offset"),)), 10_000)
    names = spark.range(keys).select(sf.format_string("k%05d", "id").alias("key"))
    known = names.select("key", gate.keys.fingerprint().alias("fingerprint")).collect()
    for row in known:
        gate.strata.meet(Stratum("q", "s", row["key"]), row["fingerprint"])
    return with_fixed_plan(gate, stream, Plan(1, default_rate=rate, default_sic=1e-6))


class FixedPlan:
    """Answers for a gate without a site, always with one plan."""

    def __init__(self, gate: Gate, plan: Plan) -> None:
        self._gate, self._plan = gate, plan

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        """Returns the plan for a batch."""
        del gate, query, batch
        return self._gate.wire.encode(self._gate.codec.encode(self._plan, counting=True), run)

    def started(self, query: str) -> None:
        """Does nothing, since there is no account of the query."""

    def progressed(self) -> None:
        """Does nothing, since there is no account of the query."""

    def ended(self, run: str) -> None:
        """Does nothing, since there is no account of the query."""


def with_fixed_plan(gate: Gate, stream: DataFrame, plan: Plan) -> DataFrame:
    """Gates a stream with a plan that never changes; the gate counts strata, too."""
    engine = Engine(stream.sparkSession)
    engine.install()
    engine.answer_for(gate.name, FixedPlan(gate, plan))
    return gate.admit(stream)


# --- running -----------------------------------------------------------------------------------


def sink(frame: DataFrame, directory: str) -> DataStreamWriter:
    """Writes results nowhere, with a checkpoint in a directory."""
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
            if not warm:
                if query.lastProgress is not None:
                    warm, end = True, time.time() + seconds
            elif time.time() >= end and (more or _last_batch(query) < batches):
                end = min(time.time() + 1, give_up)
        if not query.isActive and query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        query.stop()
        return query


def wait(seconds: float, say: str) -> None:
    """Waits, and says what for."""
    print(f"  {say} ({seconds:.0f} s)", file=sys.stderr, flush=True)
    time.sleep(seconds)


def _last_batch(query: StreamingQuery) -> int:
    """Returns the number of the last batch; it is slow with many strata, so ask seldom."""
    progress = query.lastProgress
    return -1 if progress is None else progress.batchId


def run_plain(
    frame: DataFrame, seconds: float, say: str = "plain", batches: int = 1
) -> StreamingQuery:
    """Runs a job without a gate."""
    return run_for(
        lambda directory: sink(frame, directory).trigger(processingTime=TRIGGER).start(),
        seconds,
        say=say,
        batches=batches,
    )


def enough_batches(seconds: float) -> int:
    """Returns how many batches a measurement of so many seconds has at least."""
    return 8 if seconds >= 1.0 else 3


def throughput(frame: DataFrame, seconds: float, say: str) -> float:
    """Returns rows a second that a job processes when there is always more to do."""
    query = run_plain(frame, seconds, say, batches=enough_batches(seconds))
    batches = batches_of(query)
    late = batches[len(batches) // 2 :]
    rows = sum(batch.rows for batch in late)
    took = sum(batch.seconds for batch in late)
    return float(rows / max(took, 1e-9))


def heavy_throughput(spark: SparkSession, seconds: float) -> float:
    """Returns rows a second that the heavy job processes."""
    rows = 30_000 if seconds >= MEANINGFUL_SECONDS / 3 else 2_000
    backlog = readings(spark, 10_000_000, maxRowsPerTrigger=rows)
    return throughput(heavy(plain(backlog)), seconds, "what can the job process?")


def source_adds(spark: SparkSession, rate: float, seconds: float) -> float:
    """Returns how much the bare source adds to half an interval of waiting, in seconds."""
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
    """Returns a site with the benchmarks' interval."""
    return Site(spark, interval=INTERVAL_SECONDS, **options)

"""What the benchmarks share: a session, the jobs, and what a run recorded.

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
    return weighted_quantiles(*_latencies(batches), [share])[0]


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
    """What Spark reports of the batches that had tuples."""
    told = [Progress.of(progress.json) for progress in query.recentProgress]
    return [progress for progress in told if progress.rows > 0]


def tuples_of(progress: Progress) -> tuple[int, int]:
    """The numbers [first, stop) of the tuples of a batch of one replayed stream."""
    start, end = progress.sources[0].start, progress.sources[0].end
    return (start["offset"] if start else 0, end["offset"] if end else 0)


def stream_start(progress: Progress) -> float:
    """When a replayed stream began, in seconds since the epoch."""
    return float(progress.sources[0].end["start"])


# --- jobs ------------------------------------------------------------------------------------


def readings(spark: SparkSession, rate: float, **options: Any) -> DataFrame:
    return replay(spark, generator="readings", rate=rate, **options)


def flood_profile(calm: float) -> tuple[tuple[float, float], ...]:
    return ((0.0, CALM_FACTOR), (calm, 1.0))


def flood(spark: SparkSession, rate: float, calm: float) -> DataFrame:
    """A job starts up in calm, for so many seconds; then the flood comes."""
    profile = [{"at": at, "factor": factor} for at, factor in flood_profile(calm)]
    return readings(spark, rate, profile=profile)


def parsed(stream: DataFrame) -> DataFrame:
    """The light job's first half: one JSON record parsed."""
    reading = sf.from_json("payload", READING_SCHEMA).alias("reading")
    return stream.select("_arrival", "_offset", "_weight", "_sic", reading).select(
        "_arrival", "_offset", "_weight", "_sic", "reading.*"
    )


def matched(stream: DataFrame) -> DataFrame:
    """The heavy job's first half: the record's note is matched with a catalogue, fuzzily."""
    scores = [sf.levenshtein(sf.col("note"), sf.lit(text)) for text in CATALOGUE_NOTES]
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
    for row in known:
        gate.strata.meet(Stratum("q", "s", row["key"]), row["fingerprint"])
    return with_fixed_plan(gate, stream, Plan(1, default_rate=rate, default_sic=1e-6))


class FixedPlan:
    """Answers for a gate without a site, always with one plan."""

    def __init__(self, gate: Gate, plan: Plan) -> None:
        self._gate, self._plan = gate, plan

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        del gate, query, batch
        return self._gate.wire.encode(self._gate.codec.encode(self._plan, counting=True), run)

    def started(self, query: str) -> None:
        """Nobody counts what the query does."""

    def progressed(self) -> None:
        """Nobody counts what the query does."""

    def ended(self, run: str) -> None:
        """Nobody counts what the query does."""


def with_fixed_plan(gate: Gate, stream: DataFrame, plan: Plan) -> DataFrame:
    """The stream behind a gate whose plan never changes; strata are counted, too."""
    engine = Engine(stream.sparkSession)
    engine.install()
    engine.answer_for(gate.name, FixedPlan(gate, plan))
    return gate.admit(stream)


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
    print(f"  {say} ({seconds:.0f} s)", file=sys.stderr, flush=True)
    time.sleep(seconds)


def _last_batch(query: StreamingQuery) -> int:
    """The number of the last batch; asked seldom, as the answer is long with many strata."""
    progress = query.lastProgress
    return -1 if progress is None else progress.batchId


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
    batches = batches_of(query)
    late = batches[len(batches) // 2 :]
    rows = sum(batch.rows for batch in late)
    took = sum(batch.seconds for batch in late)
    return float(rows / max(took, 1e-9))


def heavy_throughput(spark: SparkSession, seconds: float) -> float:
    rows = 30_000 if seconds >= MEANINGFUL_SECONDS / 3 else 2_000
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
    return Site(spark, interval=INTERVAL_SECONDS, **options)

"""Makes the stream that overloads this machine, and the job that it overloads.

The stream comes at multiples of what the machine can process, so that any machine is in the same
trouble. The job is the same behind a gate and without one: it parses a JSON payload, compares the
batch that its note names with a list of recalled ones, mistyped or not (tens of microseconds a
tuple), and answers per key and window.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import functions as pf
from penstock.sources.replay import replay
from penstock.sources.schedule import SECOND, Profile, Schedule
from penstock.spark.gate.columns import SIC, WEIGHT

GENERATOR, SEED = "readings", 0
CALM_FACTOR, BURST_FACTOR, SECOND_BURST_FACTOR = 0.35, 5.0, 3.5
"""How much arrives, in multiples of what the machine can process."""
PROFILE = (
    (0.0, CALM_FACTOR),
    (0.3, BURST_FACTOR),
    (0.5, CALM_FACTOR),
    (0.72, SECOND_BURST_FACTOR),
    (0.85, CALM_FACTOR),
)
"""From which share of a run on how much arrives. A site needs some batches to know its costs."""
EASY_SHARE_OF_BURST = 0.75
"""An overloaded job is behind by more than this share of a burst when that ends."""
WINDOWS_PER_RUN = 8

_PAYLOAD = "id BIGINT, key STRING, value DOUBLE, unit STRING, note STRING"
RECALLED_BATCHES = [f"{117_316_049 + 53_904_913 * number}" for number in range(16)]
"""The numbers of batches that their maker called back."""


@dataclass(frozen=True)
class Workload:
    """Describes a stream of `seconds` for a machine that processes `capacity` tuples a second."""

    capacity: float
    seconds: float
    partitions: int
    latency: float
    """Seconds, which a site is asked to hold."""

    def __str__(self) -> str:
        most = self.capacity * BURST_FACTOR
        return f"{self.capacity:,.0f} tuples/s fit, bursts bring {most:,.0f}/s"

    @property
    def window(self) -> int:
        """Returns the length of a window in seconds."""
        return max(1, round(self.seconds / WINDOWS_PER_RUN))

    @property
    def profile(self) -> Profile:
        """Returns from which second on how much arrives."""
        return tuple((share * self.seconds, factor) for share, factor in PROFILE)

    def factor_at(self, elapsed: float) -> float:
        """Returns what arrives at a moment, in multiples of the capacity."""
        return [factor for begin, factor in self.profile if begin <= max(elapsed, 0.0)][-1]

    def copes(self, elapsed: float, worst: float) -> bool:
        """Says whether a job that was never later than `worst` coped with the first burst."""
        (_, _), (begin, _), (end, _), *_ = self.profile
        return elapsed >= end and worst < EASY_SHARE_OF_BURST * (end - begin)

    def schedule(self, start: int) -> Schedule:
        """Returns when each tuple arrives; times are microseconds."""
        return Schedule(start, self.capacity, self.profile)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Returns the stream."""
        return replay(
            spark,
            generator=GENERATOR,
            seed=SEED,
            rate=self.capacity,
            profile=[{"at": begin, "factor": factor} for begin, factor in self.profile],
            partitions=self.partitions,
        )


def flood(spark: SparkSession, most_rows: int, partitions: int) -> DataFrame:
    """Returns the same tuples, with as many in each micro-batch as asked for."""
    return replay(
        spark,
        generator=GENERATOR,
        seed=SEED,
        rate=SECOND,
        partitions=partitions,
        maxRowsPerTrigger=most_rows,
    )


def ungated(stream: DataFrame) -> DataFrame:
    """Stamps a stream as an open gate does, so that the same job runs without one."""
    return stream.withColumns({WEIGHT: sf.lit(1.0), SIC: sf.lit(1.0)})


def job(stream: DataFrame, window: int) -> DataFrame:
    """Counts readings and suspect ones per key and window, with their mean and completeness."""
    read = sf.from_json("payload", _PAYLOAD)
    parsed = stream.select("key", "_arrival", WEIGHT, SIC, read.alias("reading"))
    matched = parsed.select(
        "*", sf.col("reading.value").alias("value"), _suspect(sf.col("reading.note"))
    )
    return (
        matched.withWatermark("_arrival", "0 seconds")
        .groupBy(sf.window("_arrival", f"{window} seconds"), "key")
        .agg(
            pf.count("*", bounds=True).alias("count"),
            pf.avg("value", bounds=True).alias("mean"),
            pf.count_if("suspect").alias("suspects"),
            pf.sic(),
            sf.count(sf.lit(1)).alias("tuples"),
        )
    )


def _suspect(note: Column) -> Column:
    """Says whether the batch in the note is a recalled one, within three typing errors."""
    batch = sf.regexp_extract(note, "batch ([0-9]+)", 1)
    distances = [sf.levenshtein(batch, sf.lit(recalled)) for recalled in RECALLED_BATCHES]
    return (sf.least(*distances) <= 3).alias("suspect")

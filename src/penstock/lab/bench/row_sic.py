"""Compares what a result's rows say to be complete with what was really kept of them.

A site controls a job whose streams burst for three seconds again and again, so that rates change
within every window of five seconds. Rows are windows and keys. What arrived of each is known by
the replayed streams' schedules, and the rows list what was kept.

What is true of a row is the SIC of what was kept of it over the SIC of what arrived for it. A
tuple's SIC is one over what its source sent in the STW before (THEMIS, equation 1), by the schedule
and not by the stamps, so that sources count alike over an STW. Where one of them jumps, its tuples
outweigh the other's in a row. So the mean over the row's sources of what was kept is told, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import functions as pf
from penstock.core.types import Floats
from penstock.lab.bench import harness as h
from penstock.sources.schedule import SECOND, Profile, Schedule
from penstock.spark.progress import Progress
from penstock.spark.site import Site

KEYS = 100
WINDOW_SECONDS = 5
BURST_SECONDS = 3.0
STW_SECONDS = 10.0
MOST_APART = 0.01
ROWS_MEANT = 1000


@dataclass(frozen=True)
class Bursts:
    """Describes a stream: tuples a second in the calm, and how many times as many in a burst."""

    calm: float
    factor: float
    calm_seconds: float = 5.0
    first: float = 20.0

    def profile(self, seconds: float) -> Profile:
        """Returns from when on the stream has which factor."""
        cycle = self.calm_seconds + BURST_SECONDS
        begins = np.arange(self.first, 2 * seconds + h.MEANINGFUL_SECONDS, cycle).tolist()
        return tuple(s for at in begins for s in ((at, self.factor), (at + BURST_SECONDS, 1.0)))


CASES: dict[str, Sequence[Bursts]] = {
    "bursts of 8": (Bursts(3_000, 8),),
    "bursts of 100": (Bursts(300, 100),),
    "two sources": (Bursts(1_500, 8), Bursts(800, 15, calm_seconds=8.0, first=26.0)),
}


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares them where one stream bursts, and where two do, each at its own times."""
    found = {name: _compared(spark, name, streams, seconds) for name, streams in CASES.items()}
    enough = seconds >= h.MEANINGFUL_SECONDS
    return {
        "cases": found,
        "holds": {
            f"{name}: {what}": bool(holds)
            for name, figures in found.items()
            for what, holds in {
                "rows are right on average": abs(figures["mean_difference"]) < MOST_APART,
                "no row says 1 where something was shed": figures["whole_though_shed"] == 0,
                "at least 1,000 rows": figures["rows"] >= ROWS_MEANT or not enough,
            }.items()
        },
    }


def _compared(
    spark: SparkSession, name: str, streams: Sequence[Bursts], seconds: float
) -> dict[str, Any]:
    profiles = [each.profile(seconds) for each in streams]
    with h.gated_site(spark, stw=STW_SECONDS) as site:
        pairs = zip(streams, profiles, strict=True)
        gated = [_gated(spark, site, i, *pair) for i, pair in enumerate(pairs)]
        rows = _rows(reduce(DataFrame.union, gated), len(streams)).writeStream.format("memory")
        query = h.run_for(
            lambda folder: site.start(
                rows.option("checkpointLocation", folder + "/c"), name="row_sic"
            ),
            seconds,
            say=name,
        )
    told = h.batches_of(query)[-1]
    pairs = zip(streams, profiles, strict=True)
    came = _worth(
        [_arrivals(told, i, each.calm, profile) for i, (each, profile) in enumerate(pairs)]
    )
    table = spark.table("row_sic").withColumn("start", sf.unix_seconds("window.start"))
    return _figures(table.drop("window").toPandas(), came)


def _gated(
    spark: SparkSession, site: Site, number: int, stream: Bursts, profile: Profile
) -> DataFrame:
    steps = [{"at": at, "factor": factor} for at, factor in profile]
    raw = h.readings(spark, stream.calm, profile=steps)
    gated = site.gate(raw, query="q", source=f"s{number}", id="_offset")
    return h.matched(gated).withColumn("source", sf.lit(number))


def _arrivals(told: Progress, number: int, calm: float, profile: Profile) -> pd.DataFrame:
    """Returns when each tuple of a source arrived, up to a batch, in seconds; by its offset."""
    end = told.sources[number].end
    schedule = Schedule(round(float(end["start"]) * SECOND), calm, profile)
    offsets = np.arange(end["offset"])
    at = schedule.arrival_of(offsets)
    starts = at // (WINDOW_SECONDS * SECOND) * WINDOW_SECONDS
    return pd.DataFrame({"at": at / SECOND, "start": starts, "key": offsets % KEYS})


def _worth(came: Sequence[pd.DataFrame]) -> Sequence[pd.DataFrame]:
    """Adds what each tuple was worth when it came, beside the others of its query.

    A source that began less than an STW ago sends as many in a whole one as it has sent so far in
    proportion.
    """
    for each in came:
        at = each["at"].to_numpy()
        sent = np.array([_sent_before(at, other["at"].to_numpy()) for other in came])
        own = _sent_before(at, at)
        each["sic"] = sent.mean(axis=0) / own
    return came


def _sent_before(moments: Floats, arrivals: Floats) -> Floats:
    """Returns how many arrived in the STW that ends at each moment."""
    if not arrivals.size:
        return np.ones(moments.size)
    ends = np.searchsorted(arrivals, moments, side="right")
    begins = np.searchsorted(arrivals, moments - STW_SECONDS, side="right")
    age = np.clip((moments - arrivals[0]) / STW_SECONDS, 1.0 / STW_SECONDS, 1.0)
    sent: Floats = np.maximum(ends - begins, 1) / age
    return sent


def _rows(stream: DataFrame, sources: int) -> DataFrame:
    kept = [
        sf.collect_list(sf.when(sf.col("source") == i, sf.col("_offset"))).alias(f"kept_{i}")
        for i in range(sources)
    ]
    return (
        stream.withColumn("key", sf.col("_offset") % KEYS)
        .withWatermark("_arrival", "0 seconds")
        .groupBy(sf.window("_arrival", f"{WINDOW_SECONDS} seconds"), "key")
        .agg(pf.sic(), *kept, sf.max("distance"))
    )


def _figures(rows: pd.DataFrame, came: Sequence[pd.DataFrame]) -> dict[str, Any]:
    if rows.empty:  # of a run that is shorter than a window
        return {"rows": 0, "mean_difference": 0.0, "whole_though_shed": 0}
    at = pd.MultiIndex.from_frame(rows[["start", "key"]])
    of_rows = [each.groupby(["start", "key"])["sic"].agg(["size", "sum"]) for each in came]
    told = np.array([each.reindex(at, fill_value=0).to_numpy(float) for each in of_rows])
    arrived, sic_arrived = told[..., 0], told[..., 1]
    offsets = [rows[f"kept_{i}"] for i in range(len(came))]
    kept = np.array([each.map(len) for each in offsets], dtype=float)
    pairs = zip(offsets, came, strict=True)
    sic_kept = np.array([_sic_of(each, of["sic"].to_numpy()) for each, of in pairs])
    truth = sic_kept.sum(axis=0) / sic_arrived.sum(axis=0)
    difference, shed = rows["sic"] - truth, kept.sum(axis=0) < arrived.sum(axis=0)
    by_window = difference.groupby(rows["start"]).mean()
    from_sources = (rows["sic"] - _mean_share(kept, arrived)).groupby(rows["start"]).mean()
    return {
        "rows": len(rows),
        "rows_shed_from": int(shed.sum()),
        "tuples_a_row": float(arrived.sum(axis=0).mean()),
        "kept": float(truth.mean()),
        "mean_difference": float(difference.mean()),
        "mean_distance": float(difference.abs().mean()),
        "furthest_window": float(by_window.abs().max()),
        "by_window": by_window.tolist(),
        "from_the_mean_over_sources": {
            "mean_difference": float(from_sources.mean()),
            "furthest_window": float(from_sources.abs().max()),
        },
        "whole_though_shed": int((rows["sic"][shed] >= 1.0).sum()),
        "whole_and_nothing_shed": int((rows["sic"][~shed] >= 1.0).sum()),
    }


def _sic_of(kept: pd.Series, sic: Floats) -> Floats:
    """Returns for each row the SIC of the tuples that it lists."""
    found: Floats = kept.map(lambda offsets: sic[offsets].sum()).to_numpy(dtype=float)
    return found


def _mean_share(kept: Floats, arrived: Floats) -> Floats:
    """Returns for each row the mean over the sources that sent something for it."""
    shares = np.divide(kept, arrived, out=np.zeros_like(kept), where=arrived > 0)
    mean: Floats = shares.sum(axis=0) / np.maximum((arrived > 0).sum(axis=0), 1)
    return mean

"""Law 3 for a result's row: what it says to be complete, against what was really kept of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import functions as pf
from penstock.core.types import Plan, Stratum
from penstock.estimates import JUST_ABOVE_ONE
from penstock.spark.gate.columns import SIC, WEIGHT
from tests.spark.support import Rig, file_stream, plan, write_batches

BATCHES, PER_BATCH, WINDOWS = 6, 100_000, 1200
A, B, C = (Stratum("q", "s", group) for group in "abc")
RATES = (0.5, 0.9, 0.2, 0.7, 0.3, 0.8)


def _compared(rows: DataFrame, arrived: DataFrame, by: str) -> list[tuple[float, float, float]]:
    """Of each row of a result: its SIC, what was kept of what arrived, and the nominal rate.

    The last is what a row said before: it knows one over the rate, and no weight just above 1.
    """
    weight = sf.when(sf.col(WEIGHT) > JUST_ABOVE_ONE, sf.col(WEIGHT)).otherwise(1.0)
    nominal = sf.try_divide(sf.sum(SIC), sf.sum(sf.col(SIC) * weight))
    kept = rows.groupBy(by).agg(pf.sic(), nominal.alias("nominal"), sf.count("*").alias("kept"))
    truth = sf.col("kept") / sf.col("arrived")
    came = arrived.groupBy(by).agg(sf.count("*").alias("arrived"))
    return [tuple(row) for row in kept.join(came, by).select("sic", truth, "nominal").collect()]


def _by_chance(sic: float) -> float:
    """How far off the estimate of a large window is on average, since what was shed is not known.

    A normal error is off by 0.8 of its deviation, and the number that arrived is off by the root
    of a sum over its tuples of ``1/rate - 1``.
    """
    tuples = BATCHES * PER_BATCH / WINDOWS
    extra = np.mean([0.5 * (1 / r - 1) + 0.3 * (1 / min(2 * r, 1.0) - 1) for r in RATES])
    return 0.8 * sic * float(np.sqrt(extra / tuples))


def test_law_3_a_row_says_what_was_kept_of_it_under_changing_rates(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of 1,200 large windows, and of 200,000 small ones, whose thinned tuples are often all gone.

    What a tuple is worth falls tenfold with each batch, as where ever more arrives. The nominal
    rate, which is what a row said before, fails the last assertion.
    """
    letters = np.random.default_rng(5).choice(list("abc"), (BATCHES, PER_BATCH), p=[0.5, 0.3, 0.2])
    numbers = np.arange(BATCHES * PER_BATCH).reshape(letters.shape)
    batches = [
        {"k": list(row), "large": (its % WINDOWS).tolist(), "small": (its // 3).tolist()}
        for row, its in zip(letters, numbers, strict=True)
    ]
    folder = write_batches(tmp_path / "in", batches)
    plans = [plan(i, {A: r, B: min(2 * r, 1.0), C: 1.0}, sic=10.0**-i) for i, r in enumerate(RATES)]
    rig = Rig(spark, file_stream(spark, folder), lambda tick: (plans[tick], True), strata=["k"])
    rig.gate.strata.fingerprints = {
        stratum: spark.range(1).select(sf.xxhash64(sf.lit(stratum.group))).first()[0]  # type: ignore[index]
        for stratum in (A, B, C)
    }
    schema = rig.frame.schema
    rows = spark.createDataFrame(rig.run(), schema)
    arrived = spark.read.parquet(folder)

    said, true, _ = np.array(_compared(rows, arrived, "large")).T
    assert said.size == WINDOWS
    assert abs((said - true).mean()) < 0.01
    assert np.abs(said - true).mean() < 1.2 * _by_chance(said.mean())
    said, true, nominal = np.array(_compared(rows, arrived, "small")).T
    assert (said <= 1.0).all()
    assert (nominal[true < 1.0] == 1.0).any()  # what is asserted next can fail
    assert (said[true < 1.0] < 1.0).all()


def test_law_3_a_row_is_whole_where_nothing_of_its_query_is_shed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also while the site sheds from another query; and sums stay exactly Spark's."""
    folder = write_batches(tmp_path / "in", [{"v": [2**60 + 1] * 10}] * 3)
    mine, other = Stratum("q", "s"), Stratum("other", "s")
    plans = [Plan(0, default_sic=0.1), plan(1, {mine: 1.0, other: 0.1}), plan(2, {mine: 1.0})]
    rig = Rig(spark, file_stream(spark, folder), lambda tick: (plans[tick], False))
    schema = rig.frame.schema
    rows = spark.createDataFrame(rig.run(), schema).where("n % 10 < 4").groupBy("b")
    found = rows.agg(pf.sic(), pf.sum("v")).select("sic", "sum(v)").collect()
    assert [tuple(row) for row in found] == [(1.0, 4 * (2**60 + 1))] * 3

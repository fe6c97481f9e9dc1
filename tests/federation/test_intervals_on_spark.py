"""Intervals of split queries: tuples shed at sites, and partial results shed on the way."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.federation.messages import LentSource
from penstock.federation.query_file import FederatedQuery
from penstock.federation.split import split
from penstock.jobs.results import answer
from penstock.sql import Source, rewrite
from tests.federation.run_in_batch import BatchRun, Gate, nothing_shed

pa: Any = import_module("pyarrow")
COLUMNS = "ts TIMESTAMP, x DOUBLE, y DOUBLE"
SITES = ("rome", "oslo", "kyoto")
CATALOG = {f"{site}.s": LentSource(columns=COLUMNS, time="ts") for site in SITES}
UNION = " UNION ALL ".join(CATALOG)
WINDOWS, SECONDS_PER_WINDOW, TUPLES_PER_ROW = 1_000, 14, 6
"""A window slides by a second, so that each site sends a row a second: 42 for a window."""
LINK_RATES = {"tree": 0.6, "chain": 0.85}
"""What gates in front of links admit; in a chain three of them are behind each other."""
AGGREGATES = {
    "c": "count(*)",
    "s": "sum(x)",
    "a": "avg(x)",
    "v": "var_pop(x)",
    "d": "stddev(x)",
    "co": "covar_pop(x, y)",
}
CERTAIN = (0.93, 0.97)
"""The share of windows whose interval may hold the truth."""
SQL = (
    f"SELECT window.start, {', '.join(f'{sql} AS {name}' for name, sql in AGGREGATES.items())} "
    f"FROM {UNION} GROUP BY window(ts, '{SECONDS_PER_WINDOW} seconds', '1 second')"
)
APART = f"unix_seconds(start) % {SECONDS_PER_WINDOW} = 0"
"""Of windows that slide, those that have no tuple in common."""
HALF_A_SECOND_MICROSECONDS = 500_000
FIRST_SECOND = 1_000_000_000 // SECONDS_PER_WINDOW * SECONDS_PER_WINDOW


def tuples_of(spark: SparkSession, number: int) -> DataFrame:
    """All tuples of a site: every second has some."""
    rng = np.random.default_rng(number)
    count = WINDOWS * SECONDS_PER_WINDOW * TUPLES_PER_ROW
    moment = FIRST_SECOND + np.arange(count) // TUPLES_PER_ROW
    micros = moment * 1_000_000 + HALF_A_SECOND_MICROSECONDS
    x = rng.normal(50 + 5 * number, 15, count)
    table = pa.table(
        {
            "ts": pa.array(micros, pa.timestamp("us", tz="UTC")),
            "x": x,
            "y": x / 2 + rng.normal(0, 10, count),
            "rate": rng.choice([0.4, 0.7, 1.0], count),
            "luck": rng.random(count),
        }
    )
    return spark.createDataFrame(table)


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> dict[str, DataFrame]:
    return {name: tuples_of(spark, number).cache() for number, name in enumerate(CATALOG)}


def shed(rows: DataFrame) -> DataFrame:
    """Admits a tuple with its rate."""
    kept = rows.where("luck < rate").withColumn("_weight", 1 / sf.col("rate"))
    return kept.select("ts", "x", "y", "_weight", sf.lit(1e-6).alias("_sic"))


def link_gate(rate: float) -> Gate:
    """Returns a gate that admits a row by its hash, at one rate for all."""

    def gate(rows: DataFrame) -> DataFrame:
        kept = rows.where(f"pmod(xxhash64(*), 1000) < {1000 * rate}")
        return kept.withColumn("_weight", sf.lit(1 / rate)).withColumn("_sic", sf.col("_carried"))

    return gate


def _apart(sql: str) -> str:
    """Returns the query for windows that do not slide."""
    return sql.replace("', '1 second')", "')")


def coverage(found: list[Any], truth: dict[Any, Any], name: str) -> float:
    held = (row[f"{name}_low"] <= truth[row["start"]][name] <= row[f"{name}_high"] for row in found)
    return sum(map(bool, held)) / len(found)


@pytest.mark.parametrize("shape", ["tree", "chain"])
def test_intervals_cover_the_truth_where_tuples_and_partial_results_are_shed(
    spark: SparkSession, whole: dict[str, DataFrame], shape: Any
) -> None:
    found = split(FederatedQuery(query="q", sql=SQL, shape=shape, bounds=0.95), CATALOG)
    given = {name: shed(rows) for name, rows in whole.items()}
    run = BatchRun(spark, found, CATALOG, given, link_gate(LINK_RATES[shape]), batches=1)
    rows = run.result().where(APART).collect()
    for name, frame in whole.items():
        frame.select("ts", "x", "y").createOrReplaceTempView(f"`{name}`")
    root = found.fragments[-1].rewritten
    assert root is not None
    truth = {row["start"]: row for row in spark.sql(_apart(root.plain)).collect()}
    assert len(rows) == len(truth) == WINDOWS
    least, most = CERTAIN
    covered = {name: coverage(rows, truth, name) for name in AGGREGATES}
    assert all(least <= share <= most for share in covered.values()), covered
    for name in AGGREGATES:
        mean = np.mean([row[name] for row in rows]) / np.mean([row[name] for row in truth.values()])
        assert mean == pytest.approx(1, abs=0.02), name
    certified = [row["a_certified"] for row in rows]
    assert any(certified)


def test_where_no_partial_result_is_shed_intervals_are_those_of_one_site(
    spark: SparkSession, whole: dict[str, DataFrame]
) -> None:
    found = split(FederatedQuery(query="q", sql=SQL, bounds=0.95), CATALOG)
    given = {name: shed(rows.where("hash(x) % 20 = 0")) for name, rows in whole.items()}
    mine = (
        BatchRun(spark, found, CATALOG, given, nothing_shed, batches=1)
        .result()
        .where(APART)
        .collect()
    )
    everything = given["rome.s"].unionByName(given["oslo.s"]).unionByName(given["kyoto.s"])
    everything.createOrReplaceTempView("everything")
    sql = _apart(SQL.replace(UNION, "s"))
    query = rewrite(sql, {"s": Source("everything", "ts")}, confidence=0.95)
    root = found.fragments[-1].rewritten
    assert root is not None
    theirs = {
        row["start"]: row for row in answer(spark, query, spark.sql(root.plain).schema).collect()
    }
    assert len(mine) == len(theirs) > 0.9 * WINDOWS
    for row in mine:
        other = theirs[row["start"]].asDict()
        found_here = {name: value for name, value in row.asDict().items() if name != "start"}
        expected = {name: other[name] for name in found_here}
        assert found_here == pytest.approx(expected, rel=1e-7, abs=1e-7, nan_ok=True)

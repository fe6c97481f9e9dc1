"""Rewritten SQL on Spark: plain Spark's rows without shedding, true intervals with it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from penstock import functions as pf
from penstock.jobs.results import answer
from penstock.spark.engine import Engine
from penstock.sql import rewrite
from penstock.sql.aggregates import NO_FORM, UNSCALED, WEIGHTED
from tests.sql.cases import AGGREGATES, SHAPES, SOURCES, WINDOW, Case, aggregate

ROWS = 1500


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[dict[str, DataFrame]]:
    """Three windows of a second: ``v`` is sometimes null, ``n`` a small number."""
    i = sf.col("id")
    base = spark.range(ROWS).select(
        sf.timestamp_seconds(i / 500).alias("ts"),
        (i % 7).cast("int").alias("k"),
        sf.when(i % 11 > 0, sf.rand(1) * 100).alias("v"),
        (i % 13).cast("int").alias("n"),
        sf.rand(2).alias("u"),
        i.alias("seq"),
    )
    s = base.coalesce(1).cache()
    found = {"s": s, "m": s.select("ts", "seq", (sf.col("v") + 10 * sf.col("u")).alias("x"), "k")}
    names = [(k, f"name {k % 3}") for k in range(5)]
    found["z"] = spark.createDataFrame(names, "k int, name string")
    for name, frame in found.items():
        frame.createOrReplaceTempView(name)
    yield found
    s.unpersist()


def gated(tables: dict[str, DataFrame], rates: dict[str, float], seed: int = 0) -> None:
    """Views as a gate leaves them, each tuple kept with its source's rate."""
    for name, rate in rates.items():
        luck = sf.pmod(sf.xxhash64("seq", sf.lit(name), sf.lit(seed)), sf.lit(10_000)) / 10_000
        stamped = tables[name].where(luck < rate)
        stamped.select(
            "*", sf.lit(1 / rate).alias("_weight"), sf.lit(0.001).alias("_sic")
        ).createOrReplaceTempView(f"g_{name}")


def rows(frame: DataFrame, columns: list[str]) -> list[tuple[Any, ...]]:
    found = [tuple(row) for row in frame.select(*(sf.col(f"`{c}`") for c in columns)).collect()]
    return sorted(found, key=str)


def same(one: list[tuple[Any, ...]], two: list[tuple[Any, ...]]) -> bool:
    """Equal, but for the last digits of sums that were added up in another order."""
    return len(one) == len(two) and all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and b is not None else a == b
        for left, right in zip(one, two, strict=True)
        for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("case", SHAPES, ids=lambda case: case.sql)
def test_without_shedding_rows_are_those_of_plain_spark(
    spark: SparkSession, tables: dict[str, DataFrame], case: Case
) -> None:
    """Law 6."""
    gated(tables, {"s": 1.0, "m": 1.0})
    rewritten = case.rewritten()
    plain = spark.sql(rewritten.plain)
    found = answer(spark, rewritten, plain.schema)
    assert found.columns[: len(plain.columns)] == plain.columns
    assert [f.dataType for f in found.schema][: len(plain.columns)] == [
        f.dataType for f in plain.schema
    ]
    if "LIMIT" in case.sql:  # the ending is taken off the plain text, too
        plain = spark.sql(case.sql)
    wanted = rows(plain, plain.columns)
    assert wanted
    assert same(rows(found, plain.columns), wanted)
    if rewritten.aggregated:
        assert all(row["_sic"] == 1.0 for row in found.collect())


def test_without_shedding_every_aggregate_is_plain_sparks(
    spark: SparkSession, tables: dict[str, DataFrame]
) -> None:
    """All aggregates of the table at once, with a condition, by group."""
    gated(tables, {"s": 1.0})
    listed = ", ".join(f"{text} AS x{i}" for i, text in enumerate(AGGREGATES))
    query = f"SELECT window.start, k, {listed} FROM s WHERE n > 2 GROUP BY {WINDOW}, k"
    rewritten = rewrite(query, SOURCES, confidence=0.95)
    plain = spark.sql(query)
    found = answer(spark, rewritten, plain.schema).cache()
    assert same(rows(found, plain.columns), rows(plain, plain.columns))
    marked = {field.name: field.metadata.get("penstock") for field in found.schema}
    for number, text in enumerate(AGGREGATES):
        verdict = aggregate(text, "").verdict
        assert marked[f"x{number}"] == ("unscaled" if verdict == "unscaled" else "weighted")
    certain = [column.name for column in rewritten.columns if column.bounds]
    assert len(certain) > 10
    for row in found.collect():
        for name in certain:
            assert row[f"{name}_low"] == row[f"{name}_high"] == pytest.approx(row[name], rel=1e-12)
    found.unpersist()


def test_a_window_without_survivors_keeps_its_information(
    spark: SparkSession, tables: dict[str, DataFrame]
) -> None:
    """Law 2: nothing is shown, and all SIC is there."""
    gated(tables, {"s": 0.5})
    query = f"SELECT window.start, count(*) AS c FROM s WHERE v > 1000 GROUP BY {WINDOW}"
    rewritten = rewrite(query, SOURCES)
    frame = answer(spark, rewritten, spark.sql(query).schema)
    assert frame.collect() == []
    units = spark.sql(rewritten.sql).collect()
    assert len(units) == 3
    admitted = spark.table("g_s").count()
    assert sum(row["_sic"] for row in units) == pytest.approx(0.001 * admitted)
    assert sum(row["_missing"] for row in units) == pytest.approx(0.001 * admitted)
    assert not any(row["_shown"] for row in units)


INNER = f"SELECT window, k, count(*) AS c FROM s WHERE v > 50 GROUP BY {WINDOW}, k HAVING c > 30"


def test_sub_queries_conserve_information(
    spark: SparkSession, tables: dict[str, DataFrame]
) -> None:
    gated(tables, {"s": 0.5})
    outer = f"SELECT window.start, sum(c) AS c FROM ({INNER}) GROUP BY window"
    units = spark.sql(rewrite(outer, SOURCES).sql).collect()
    admitted = spark.table("g_s").count()
    assert sum(row["_sic"] for row in units) == pytest.approx(0.001 * admitted)


def test_intervals_cover_the_truth(spark: SparkSession, tables: dict[str, DataFrame]) -> None:
    """Law 7: over windows and groups and draws, about 95 %, also for pairs of a join."""
    single = f"""SELECT window.start, k % 2 AS g, count(*) AS a, sum(v) AS b, avg(v) AS c,
        var_pop(v) AS d, stddev(v) AS e, count_if(v > 50) AS f
        FROM s WHERE n > 2 GROUP BY {WINDOW}, k % 2"""
    pairs = """SELECT window.start, covar_pop(s.v, m.x) AS a, count(*) AS b
        FROM s[Range 1 sec], m[Range 1 sec] WHERE s.seq = m.seq"""
    for query, least in ((single, 0.91), (pairs, 0.9)):
        rewritten = rewrite(query, SOURCES, confidence=0.95, one_to_one=True)
        plain = spark.sql(rewritten.plain)
        keys = [column.name for column in rewritten.columns if column.kind == "plain"]
        names = [column.name for column in rewritten.columns if column.bounds]
        truth = {tuple(row[key] for key in keys): row for row in plain.collect()}
        hits = []
        for seed in range(5):
            gated(tables, {"s": 0.5, "m": 0.6}, seed)
            for row in answer(spark, rewritten, plain.schema).collect():
                true = truth[tuple(row[key] for key in keys)]
                hits += [row[f"{n}_low"] <= true[n] <= row[f"{n}_high"] for n in names]
        assert len(hits) >= 30
        assert np.mean(hits) >= least, np.mean(hits)


def test_python_and_sql_agree(spark: SparkSession, tables: dict[str, DataFrame]) -> None:
    """One implementation: ``penstock.functions`` and the rewritten SQL."""
    gated(tables, {"s": 0.3})
    query = """SELECT var_samp(v) AS a, stddev(v) AS b, covar_samp(v, u) AS c, corr(v, u) AS d,
        percentile_approx(v, 0.9) AS e, avg(v) AS f FROM s"""
    (by_sql,) = answer(spark, rewrite(query, SOURCES), spark.sql(query).schema).collect()
    view = spark.table("g_s")
    (by_python,) = view.agg(
        pf.var_samp("v").alias("a"),
        pf.stddev("v").alias("b"),
        pf.covar_samp("v", "u").alias("c"),
        pf.corr("v", "u").alias("d"),
        pf.percentile_approx("v", 0.9).alias("e"),
        pf.avg("v").alias("f"),
    ).collect()
    assert by_python.asDict() == pytest.approx({k: by_sql[k] for k in by_python.asDict()})
    bounded: Row = view.agg(pf.var_pop("v", bounds=True)).collect()[0][0]
    assert bounded.low < bounded.value < bounded.high


@pytest.mark.parametrize("case", SHAPES, ids=lambda case: case.sql)
def test_spark_runs_it_on_streams(
    spark: SparkSession, tables: dict[str, DataFrame], case: Case
) -> None:
    """By the checks that Spark makes before it starts a query."""
    plain = spark.sql(case.rewritten().plain).schema
    ticks = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value AS seq")
    ticks = ticks.selectExpr(
        "ts", "int(seq) AS k", "double(seq) AS v", "int(seq) AS n", "double(seq) AS u", "seq",
        "1.0D AS _weight", "0.1D AS _sic",
    ).withWatermark("ts", "1 second")  # fmt: skip
    ticks.createOrReplaceTempView("g_s")
    ticks.selectExpr("ts", "seq", "v AS x", "k", "_weight", "_sic").createOrReplaceTempView("g_m")
    assert tables
    Engine(spark).check_streamable(answer(spark, case.rewritten(), plain), case.mode)


def test_every_aggregate_of_spark_is_known(spark: SparkSession) -> None:
    """None slips through as if it were a plain function."""
    bridge: Any = spark
    registry = bridge._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry
    iterator, found = registry.expressions().iterator(), set()
    while iterator.hasNext():
        entry = iterator.next()
        if entry._2()._1().getGroup() == "agg_funcs":
            found.add(str(entry._1()))
    unknown = found - set(WEIGHTED) - UNSCALED - NO_FORM - {"grouping", "grouping_id"}
    assert "avg" in found
    assert not unknown, sorted(unknown)

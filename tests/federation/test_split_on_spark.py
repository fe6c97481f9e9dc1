"""Split queries on Spark: without shedding, the rows of one plain query over all the data."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.federation.fragment_plan import SplitQuery
from penstock.federation.query_file import FederatedQuery
from penstock.federation.split import split
from tests.federation.queries import CATALOG, FORWARDED, MACHINES, SECOND, SPLIT, UNION
from tests.federation.run_in_batch import BatchRun

TUPLES_PER_SOURCE = 400
PARTITION = {"copies": 3, "by": "k"}
LARGEST_RELATIVE_ERROR = 1e-9


@pytest.fixture(scope="module")
def tuples(spark: SparkSession) -> dict[str, DataFrame]:
    """Ten seconds of each source, with gaps, nulls and groups that some sites lack."""
    rng = np.random.default_rng(7)
    frames = {}
    for number, name in enumerate(CATALOG):
        rows = [
            (
                datetime.fromtimestamp(float(moment)),
                1000 * number * (name == "none") + seq,
                f"k{rng.integers(0, 3 + number)}",
                None if rng.random() < 0.05 else float(rng.normal(50, 20)) + number / 97,
                float(rng.exponential(50)),
                int(rng.integers(0, 10)),
            )
            for seq, moment in enumerate(np.sort(rng.uniform(1e9, 1e9 + 10, TUPLES_PER_SOURCE)))
        ]
        frames[name] = spark.createDataFrame(rows, MACHINES).cache()
    return frames


def marked(tuples: dict[str, DataFrame]) -> dict[str, DataFrame]:
    return {
        name: rows.withColumn("_weight", sf.lit(1.0)).withColumn("_sic", sf.lit(0.001))
        for name, rows in tuples.items()
    }


def plain(spark: SparkSession, found: SplitQuery, tuples: dict[str, DataFrame]) -> DataFrame:
    for name, rows in tuples.items():
        rows.createOrReplaceTempView(f"`{name}`")
    root = found.fragments[-1].rewritten
    assert root is not None
    return spark.sql(root.plain)


def assert_equal(found: DataFrame, expected: DataFrame) -> None:
    names = expected.columns
    mine, theirs = (
        sorted((list(row) for row in rows.select(*(f"`{n}`" for n in names)).collect()), key=str_of)
        for rows in (found, expected)
    )
    types = [field.dataType for field in found.schema.fields[: len(names)]]
    assert types == [field.dataType for field in expected.schema.fields]
    assert len(theirs) > 0
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert all(is_near(a, b) for a, b in zip(one, other, strict=True)), (one, other)


def str_of(row: list[Any]) -> str:
    return str([f"{x:.6g}" if isinstance(x, float) else x for x in row])


def is_near(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=LARGEST_RELATIVE_ERROR, abs_tol=1e-9)
    return bool(a == b)


@pytest.mark.parametrize("sql", SPLIT, ids=range(len(SPLIT)))
@pytest.mark.parametrize("shape", ["tree", "chain"])
def test_partial_results_merge_to_what_plain_spark_says(
    spark: SparkSession, tuples: dict[str, DataFrame], sql: str, shape: Any
) -> None:
    found = split(FederatedQuery(query="q", sql=sql, shape=shape), CATALOG)
    assert found.unsplit is None
    run = BatchRun(spark, found, CATALOG, marked(tuples))
    assert_equal(run.result(), plain(spark, found, tuples))


@pytest.mark.parametrize("sql", FORWARDED, ids=range(len(FORWARDED)))
def test_what_cannot_be_split_runs_over_forwarded_tuples(
    spark: SparkSession, tuples: dict[str, DataFrame], sql: str
) -> None:
    found = split(FederatedQuery(query="q", sql=sql), CATALOG)
    assert found.unsplit is not None
    run = BatchRun(spark, found, CATALOG, marked(tuples))
    assert_equal(run.result(), plain(spark, found, tuples))


@pytest.mark.parametrize("shape", ["tree", "chain"])
def test_copies_have_each_group_once(
    spark: SparkSession, tuples: dict[str, DataFrame], shape: Any
) -> None:
    sql = (
        f"SELECT window.start, k, avg(cpu) AS cpu, count(*) AS c FROM {UNION} "
        f"{SECOND}, k HAVING count(*) > 3"
    )
    query = FederatedQuery.model_validate(
        {"query": "q", "sql": sql, "shape": shape, "bounds": 0.95, "partition": PARTITION}
    )
    found = split(query, CATALOG)
    assert [f.name for f in found.fragments if f.kind == "merge"] == [
        *("copy-0", "copy-1", "copy-2"),
        "root",
    ]
    run = BatchRun(spark, found, CATALOG, marked(tuples))
    result = run.result()
    assert_equal(result, plain(spark, found, tuples))
    counts = [sum(rows.count() for rows in run.sent[f"copy-{number}"]) for number in range(3)]
    assert sum(count > 0 for count in counts) > 1
    assert set(result.columns) >= {"cpu_low", "cpu_certified", "_sic"}


@pytest.mark.parametrize(
    ("sql", "shape"),
    [
        (f"SELECT window.start, avg(cpu) AS a FROM {UNION} WHERE n > 99 {SECOND}", "tree"),
        (
            f"SELECT window.start, k, avg(cpu) AS a FROM {UNION} {SECOND}, k HAVING max(n) > 99",
            "chain",
        ),
        (
            f"SELECT window.start, sum(n) AS a FROM {UNION} GROUP BY window(ts, '4 s', '1 s')",
            "chain",
        ),
        (
            f"SELECT window.start, sum(n) AS a FROM {UNION} GROUP BY window(ts, '5 s', '2 s')",
            "tree",
        ),
        (f"SELECT window.start, median(n) AS a FROM {UNION} WHERE n > 3 {SECOND}", "tree"),
    ],
)
def test_law_2_the_sic_of_tuples_is_that_of_results(
    spark: SparkSession, tuples: dict[str, DataFrame], sql: str, shape: Any
) -> None:
    """Law 2 over links: filters, windows that slide and batches lose nothing, and add nothing."""
    found = split(
        FederatedQuery(query="q", sql=sql.replace(" s'", " seconds'"), shape=shape), CATALOG
    )
    run = BatchRun(spark, found, CATALOG, marked(tuples))
    rows = run.rows().collect()
    tuples_sic = 3 * TUPLES_PER_SOURCE * 0.001
    assert run.carried() == pytest.approx(tuples_sic)
    assert sum(row["_sic"] for row in rows) == pytest.approx(tuples_sic)
    assert sum(row["_missing"] for row in rows) == pytest.approx(0, abs=1e-12)


def test_what_is_shed_on_the_way_is_missing(
    spark: SparkSession, tuples: dict[str, DataFrame]
) -> None:
    """Every tuple stands for 2 and every link row for 3: of all information a sixth has come."""
    sql = f"SELECT window.start, count(*) AS c FROM {UNION} {SECOND}"
    found = split(FederatedQuery(query="q", sql=sql), CATALOG)
    twice = {name: rows.withColumn("_weight", sf.lit(2.0)) for name, rows in marked(tuples).items()}

    def gate(rows: DataFrame) -> DataFrame:
        return rows.withColumn("_weight", sf.lit(3.0)).withColumn("_sic", sf.col("_carried"))

    rows = BatchRun(spark, found, CATALOG, twice, gate).rows().collect()
    came = sum(row["_sic"] for row in rows)
    assert came / (came + sum(row["_missing"] for row in rows)) == pytest.approx(1 / 6)
    assert sum(row["c"] for row in rows) == 6 * 3 * TUPLES_PER_SOURCE


def test_fragments_that_are_written_out_say_the_same(
    spark: SparkSession, tuples: dict[str, DataFrame]
) -> None:
    """A covariance as a chain: each site adds its sums to those of the one before."""
    own = (
        "SELECT window.start AS at, count(*) AS n, sum(cpu) AS x, sum(mem) AS y, "
        f"sum(cpu * mem) AS xy FROM machines WHERE cpu IS NOT NULL {SECOND}"
    )
    add = "SELECT window.start AS at, sum(n) AS n, sum(x) AS x, sum(y) AS y, sum(xy) AS xy FROM "
    second = "GROUP BY window(at, '1 second')"
    last = "SELECT window.start, sum(xy) / sum(n) - sum(x) / sum(n) * sum(y) / sum(n) AS cov FROM "
    query = FederatedQuery.model_validate(
        {
            "query": "cov",
            "fragments": {
                "a": {"site": "rome", "sql": own},
                "b": {"site": "oslo", "sql": own.replace("FROM machines", "FROM oslo.machines")},
                "ab": {"site": "oslo", "sql": f"{add} a UNION ALL b {second}"},
                "root": {"sql": f"{last} ab {second}"},
            },
        }
    )
    found = split(query, CATALOG)
    assert [f.name for f in found.fragments][-2:] == ["ab", "root"]
    assert found.time_of("root", "ab") == "at"
    run = BatchRun(spark, found, CATALOG, marked(tuples))
    mine = {row["start"]: row["cov"] for row in run.result().collect()}
    whole = tuples["rome.machines"].unionByName(tuples["oslo.machines"])
    theirs = whole.groupBy(sf.window("ts", "1 second")).agg(sf.covar_pop("cpu", "mem").alias("c"))
    expected = {row["window"]["start"]: row["c"] for row in theirs.collect()}
    assert mine == pytest.approx(expected, rel=1e-9)
    sic = sum(row["_sic"] for row in run.rows().collect())
    assert sic == pytest.approx(2 * TUPLES_PER_SOURCE * 0.001)

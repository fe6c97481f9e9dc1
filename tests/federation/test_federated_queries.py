"""Without overload a federated query gives what one Spark query gives over all the data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.federation.query_file import FederatedQuery
from tests.federation.hosts import hosts
from tests.federation.machines import UNION, Machines
from tests.spark.support import wait_until

QUERIES = {
    "avg-all": f"""
        SELECT window.start AS ts, avg(cpu) AS cpu, count(*) AS n, sum(mem) AS mem
        FROM {UNION} GROUP BY window(ts, '1 second')""",
    "by-machine": f"""
        SELECT window.start AS ts, vm, max(cpu) AS most, min(cpu) AS least, avg(mem) AS mem
        FROM {UNION} WHERE cpu > 10 GROUP BY window(ts, '4 seconds', '2 seconds'), vm
        HAVING count(*) > 3""",
    "top-5": f"""
        SELECT window.start AS ts, max_by(vm, cpu, 5) AS machines
        FROM {UNION} GROUP BY window(ts, '1 second')""",
    "cov": f"""
        SELECT window.start AS ts, covar_samp(cpu, mem) AS cov, corr(cpu, mem) AS corr,
               stddev(cpu) AS dev
        FROM {UNION} GROUP BY window(ts, '2 seconds')""",
    "median": f"""
        SELECT window.start AS ts, percentile(cpu, 0.5) AS median
        FROM {UNION} GROUP BY window(ts, '1 second')""",
}
CASES = [(name, "tree") for name in QUERIES] + [("avg-all", "chain"), ("cov", "chain")]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def rows_in(spark: SparkSession, directory: Path) -> int:
    try:
        return spark.read.parquet(str(directory)).count()
    except PySparkException:  # nothing has been written yet
        return 0


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_a_federated_query_equals_one_query_over_all_the_data(
    spark: SparkSession, tmp_path: Path, name: str, shape: str
) -> None:
    machines = Machines(spark, tmp_path)
    expected = machines.answer(QUERIES[name])
    query = FederatedQuery.model_validate(
        {
            "query": name,
            "sql": QUERIES[name],
            "shape": shape,
            "watermark": 100.0,  # so much may one site be ahead of another
            "sink": {"format": "parquet", "path": "out"},
        }
    )
    out = tmp_path / "links" / name / "out"
    with hosts(spark, tmp_path, machines.sources) as federation:
        federation.submit(query)
        federation.wait_until_all_is_read(tmp_path, name)
        machines.close()
        wait_until(lambda: rows_in(spark, out) >= len(expected), 60, "the last windows")
        federation.check()
        ledgers = [host.site.report().ledger_balanced for host in federation.by_name.values()]
    assert all(ledgers)
    found = spark.read.parquet(str(out))
    rows = sorted(found.select(*expected[0].__fields__).collect())
    assert len(rows) == len(expected) > 5
    for row, wanted in zip(rows, expected, strict=True):
        assert all(map(same, row, wanted)), (row, wanted)
    assert found.selectExpr("min(_sic)", "max(_sic)").collect() == [(1.0, 1.0)]

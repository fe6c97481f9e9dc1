"""What Spark tests share: one session, as starting a JVM takes seconds, and a small file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hypothesis import settings as hypothesis_settings
from pyspark.sql import SparkSession

from tests.spark.support import QUICK

for profile, examples in (("thorough", 300), ("quick", 100)):
    hypothesis_settings.register_profile(
        profile, max_examples=examples, deadline=None, derandomize=True
    )
hypothesis_settings.load_profile("thorough")

os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK)
"""Goes to the JVM of every driver, also of programs and commands that tests start."""

if not pyspark.__version__.startswith("4.2."):
    collect_ignore = ["oldest"]
    """Delta has no release for later Sparks yet; ``make oldest`` runs these tests."""

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test that uses the session, so that ``make quick`` can leave it out, and puts
    long tests first, so that none of them is what all the others' workers wait for.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Spark starts its workers with the `python3` of the PATH, which may not know this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master(os.environ.get("PENSTOCK_TEST_MASTER", "local[2]"))
        .appName("penstock-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.executor.extraJavaOptions", QUICK)
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        # It lives for hundreds of queries, whose plans it would keep for a page that nobody sees.
        .config("spark.driver.memory", "2g")
        .config("spark.sql.ui.retainedExecutions", "20")
        .config("spark.ui.retainedJobs", "50")
        .config("spark.ui.retainedStages", "50")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def ten_readings(tmp_path: Path) -> str:
    """Ten readings, one a second."""
    path = tmp_path / "rows.parquet"
    moments = pa.array(range(10)).cast(pa.timestamp("s"))
    pq.write_table(pa.table({"at": moments, "key": [f"k{n}" for n in range(10)]}), path)
    return str(path)

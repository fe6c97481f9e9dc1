"""``penstock bench``: runs benchmarks, says what holds, keeps the raw figures."""

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import __version__ as spark_version
from pyspark.sql import SparkSession

from penstock import __version__
from penstock.cli.command_support import check_seconds
from penstock.lab.bench import (
    best_fixed_rate,
    burst,
    certified,
    fair,
    groups,
    guard_fair,
    guard_latency,
    guard_overhead,
    harness,
    idle,
    latency_held,
    row_sic,
    sic_by_hand,
    sources_and_results,
    transparent,
    truthful,
    wire_cost,
)

BENCHES: dict[str, Callable[..., dict[str, Any]]] = {
    "latency": latency_held.run,
    "capacity": best_fixed_rate.run,
    "burst": burst.run,
    "transparent": transparent.run,
    "idle": idle.run,
    "fair": fair.run,
    "jobs": fair.run_jobs,
    "truthful": truthful.run,
    "coverage": truthful.run_coverage,
    "certified": certified.run,
    "row-sic": row_sic.run,
    "result-sic": sic_by_hand.run,
    "silent-source": sources_and_results.run_silent,
    "nine-results": sources_and_results.run_results,
    "groups": groups.run,
    "wire": wire_cost.run,
    "guard-classes": guard_latency.run_classes,
    "guard-measured": guard_latency.run_measured,
    "guard-fair": guard_fair.run,
    "guard-overhead": guard_overhead.run,
}


def run_benches(names: list[str], seconds: float, directory: Path | None) -> bool:
    """Runs benchmarks in one session, and says whether everything holds."""
    check_seconds(seconds, 90)
    with harness.bench_session() as spark:
        good = [_run(spark, name, seconds, directory) for name in names]
    return all(good)


def _run(spark: SparkSession, name: str, seconds: float, directory: Path | None) -> bool:
    print(f"{name}", file=sys.stderr, flush=True)
    began = time.time()
    return keep(name, {"seconds": seconds, **BENCHES[name](spark, seconds)}, began, directory)


def keep(name: str, figures: dict[str, Any], began: float, directory: Path | None) -> bool:
    """Prints what a benchmark found, writes all of it into a file, and says whether it holds."""
    result: dict[str, Any] = _finite(
        {
            "bench": name,
            "penstock": __version__,
            "spark": spark_version,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            **figures,
            "wall_seconds": time.time() - began,
        }
    )
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(_short(result), indent=2), flush=True)
    return all(result["holds"].values())


def _finite(value: Any) -> Any:
    """Replaces infinity and what is not a number by null, since JSON has neither."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _short(value: Any) -> Any:
    """Leaves out the long lists of batches, which are in the files."""
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items() if not (isinstance(v, list) and len(v) > 8)}
    return [_short(each) for each in value] if isinstance(value, list) else value

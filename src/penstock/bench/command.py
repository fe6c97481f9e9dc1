"""``penstock bench``: runs benchmarks, says what holds, keeps the raw figures."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import __version__ as spark_version

from penstock import __version__
from penstock.bench import (
    burst,
    capacity,
    fair,
    groups,
    guard,
    guard_fair,
    harness,
    latency,
    transparent,
    truthful,
)

BENCHES: dict[str, Callable[..., dict[str, Any]]] = {
    "latency": latency.run,
    "capacity": capacity.run,
    "burst": burst.run,
    "transparent": transparent.run,
    "fair": fair.run,
    "jobs": fair.run_jobs,
    "truthful": truthful.run,
    "coverage": truthful.run_coverage,
    "groups": groups.run,
    "guard-classes": guard.run_classes,
    "guard-measured": guard.run_measured,
    "guard-fair": guard_fair.run,
    "guard-overhead": guard.run_overhead,
}


def run(names: list[str], seconds: float, directory: Path | None) -> bool:
    """Runs them one after another in one session; whether everything holds."""
    spark = harness.session()
    good = True
    for name in names:
        print(f"{name}", file=sys.stderr, flush=True)
        began = time.time()
        result = {
            "bench": name,
            "penstock": __version__,
            "spark": spark_version,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "seconds": seconds,
            **BENCHES[name](spark, seconds),
            "wall_seconds": time.time() - began,
        }
        good = good and all(result["holds"].values())
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps(_short(result), indent=2), flush=True)
    spark.stop()
    return good


def _short(value: Any) -> Any:
    """Without the long lists of batches, which are in the files."""
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items() if not (isinstance(v, list) and len(v) > 8)}
    return value

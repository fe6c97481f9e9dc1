"""Tries each feature on a cluster: python -m tests.spark.clusters.program MASTER SHARED FEATURE...

The answers go to ``SHARED/told.json``, by feature, or why it failed. The program works in a folder
of its own, which it calls by a name that means something else, or nothing, in every other process:
``/proc/self/cwd``. So an executor that would read or write the driver's disk finds nothing there,
as on another machine, although all run on this one.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.clusters.features import FEATURES, Feature, Place, windows
from tests.spark.support import QUICK

OWN = Path("/proc/self/cwd")
KILLED = "killed"


def session(master: str, executors: Path) -> SparkSession:
    executors.mkdir()
    return (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.executor.memory", "640m")
        .config("spark.executor.extraJavaOptions", f"{QUICK} -Djava.io.tmpdir={executors}")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .getOrCreate()
    )


def tried(spark: SparkSession, name: str, feature: Feature, shared: Path) -> dict[str, object]:
    place = Place(shared / name, OWN / name)
    for folder in (place.shared, place.own):
        folder.mkdir()
    began = time.monotonic()
    try:
        found = feature(spark, place)
        return {"works": True, "found": found, "seconds": time.monotonic() - began}
    except Exception as error:
        why = " ".join(str(error).split()) or repr(error)
        return {"works": False, "why": why[:300], "trace": traceback.format_exc()[-6000:]}


def main(master: str, shared: Path, names: list[str]) -> None:
    spark = session(master, shared / "executors")
    told: dict[str, object] = {}
    for name in names:
        feature = FEATURES[name] if name != KILLED else partial(windows, held=shared)
        told[name] = tried(spark, name, feature, shared)
    spark.stop()
    (shared / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])

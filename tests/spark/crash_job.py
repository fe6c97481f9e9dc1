"""A gated, overloaded, windowed job for ``test_crash``: run it, kill it, run it again.

python crash_job.py FOLDER            runs until it is killed
python crash_job.py FOLDER --die      kills itself, after the commit of a batch that shed and
                                      before its ledger entry; the entry is left in witness.json

With --own the program calls ``writer.start()`` itself instead of ``site.start(writer)``.

``run`` with ``stop`` runs for some batches and stops as it should.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock import Site, replay
from penstock import functions as pf
from penstock.spark import loop
from penstock.spark.record.ledger import Entry, Ledger
from tests.spark.support import QUICK, wait_until

BATCHES = 2
"""That a life lasts before it ends by itself."""


class Doomed(Ledger):
    """Dies where an entry should be written."""

    def __init__(self, path: Path | None, witness: Path) -> None:
        super().__init__(path)
        self._witness = witness
        self._seen = 0

    def record(self, entry: Entry) -> None:
        self._seen += 1
        if self._seen >= BATCHES and entry.shed > 0:
            self._witness.write_text(json.dumps(asdict(entry)))
            os.killpg(0, signal.SIGKILL)
        super().record(entry)


def main(folder: Path, *, own: bool, die: bool) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.extraJavaOptions", QUICK)
        .getOrCreate()
    )
    run(spark, folder, own=own, die=die)


def run(
    spark: SparkSession,
    folder: Path,
    *,
    own: bool = False,
    die: bool = False,
    stop: bool = False,
) -> None:
    if die:
        vars(loop).update(Ledger=partial(Doomed, witness=folder / "witness.json"))
    site = Site(spark, interval="400ms", latency="800ms", stw="5s", directory=folder / "site")
    stream = replay(spark, generator="readings", rate=5000, keys=20)
    costly = sf.length(sf.sha2(sf.repeat("payload", 1500), 512))
    out = (
        site.gate(stream, query="q", strata="key", id="_offset")
        .withWatermark("_arrival", "0 seconds")
        .groupBy(sf.window("_arrival", "1 second"), "key")
        .agg(sf.sum(costly).alias("cost"), pf.count("*").alias("count"), pf.sic())
    )
    writer = out.writeStream.format("parquet").option("path", str(folder / "out"))
    known = len(site.ledger.batches("windows"))
    if own:
        writer = writer.queryName("windows").option(
            "checkpointLocation", str(folder / "checkpoint")
        )
        query = writer.trigger(processingTime="400 milliseconds").start()
    else:
        query = site.start(writer, name="windows", checkpoint=folder / "checkpoint")

    def enough() -> bool:
        return not query.isActive or len(site.ledger.batches("windows")) >= known + BATCHES + 1

    wait_until(enough if stop else lambda: not query.isActive, 120)
    site.stop()
    assert query.exception() is None, query.exception()


if __name__ == "__main__":
    main(Path(sys.argv[1]), own="--own" in sys.argv, die="--die" in sys.argv)

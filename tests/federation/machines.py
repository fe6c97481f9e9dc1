"""Readings of machines at several sites, as files: the data of the tests of federated queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

SITES = ("rome", "oslo", "kyoto")
SECONDS, PER_SECOND = 12, 40
COLUMNS = "ts TIMESTAMP, vm STRING, cpu DOUBLE, mem DOUBLE"
UNION = " UNION ALL ".join(f"{site}.machines" for site in SITES)


class Machines:
    """Writes each site's readings into files of its own, and later what closes all windows."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark, self._home = spark, home
        for number, site in enumerate(SITES):
            self._append(site, readings(spark, number).repartition(3).sortWithinPartitions("ts"))
        self.plain = f"(SELECT * FROM parquet.`{home}/data/*`) AS m"
        """All readings, for plain SQL."""

    @property
    def sources(self) -> dict[str, dict[str, Any]]:
        """The sources of each site, as site files have them."""
        return {
            site: {
                "machines": {
                    "format": "files",
                    "path": str(self._home / "data" / site),
                    "schema": COLUMNS,
                    "time": "ts",
                    "options": {"maxFilesPerTrigger": 1},
                }
            }
            for site in SITES
        }

    def answer(self, sql: str) -> list[Row]:
        """Runs a federated query as one plain query over all the readings."""
        return sorted(self._spark.sql(sql.replace(UNION, self.plain)).collect())

    def go_on(self) -> None:
        """Adds more readings of the same time at each site."""
        for number, site in enumerate(SITES):
            self._append(site, readings(self._spark, number + len(SITES)))

    def close(self) -> None:
        """Adds a reading of an hour later at each site."""
        for site in SITES:
            last = "SELECT timestamp_seconds(3600) ts, 'last' vm, 0.5D cpu, 0.5D mem"
            self._append(site, self._spark.sql(last))

    def _append(self, site: str, rows: DataFrame) -> None:
        rows.write.mode("append").parquet(str(self._home / "data" / site))


def readings(spark: SparkSession, site: int) -> DataFrame:
    return spark.range(SECONDS * PER_SECOND).selectExpr(
        f"timestamp_micros(id * {1_000_000 // PER_SECOND} + {site}) AS ts",
        f"concat('vm', pmod(xxhash64(id, {site}), 7)) AS vm",
        f"pmod(xxhash64(id, {site}, 1), 100000) / 1000.0D + id / 1e6D AS cpu",
        f"pmod(xxhash64(id, {site}, 2), 1000) / 10.0D AS mem",
    )

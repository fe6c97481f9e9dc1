"""Keeps settled rows beside the results of a query, and reads both as one.

Each group of windows is a folder of Parquet with a note of which windows it has. It is written
under another name and renamed when it is whole: a reader sees all of it or nothing, and settling
that is killed leaves nothing that counts.
"""

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.errors import PenstockError
from penstock.settle.window_shape import WindowShape
from penstock.spark.engine import Engine

FOLDER = "_settled"
"""In the folder of the results, whose readers leave out what begins with an underscore."""
NOTE = "_note.json"
STAGING = "_staging"
START = "_settled_start"
FORMAT = 1


class WholeFolders:
    """Folders of rows at a place that Spark can write to, of which each counts as a whole."""

    def __init__(self, engine: Engine, place: str) -> None:
        self.place = place
        self._files = engine.files(place)
        self._spark = engine.spark

    def notes(self) -> dict[str, dict[str, Any]]:
        """What each folder says of itself, by its name."""
        names = (name for name in self._files.names("") if not name.startswith(("_", ".")))
        return {name: json.loads(self._files.read(f"{name}/{NOTE}")) for name in sorted(names)}

    def all_of(self, what: str) -> set[int]:
        """All numbers that the notes list under a name, such as the starts of windows."""
        return {number for note in self.notes().values() for number in note[what]}

    def stage(self, rows: DataFrame) -> None:
        """Writes rows that do not count yet."""
        self._files.delete(STAGING)
        rows.write.mode("overwrite").parquet(f"{self.place}/{STAGING}")

    def staged(self) -> DataFrame:
        """The rows that do not count yet."""
        return self._spark.read.parquet(f"{self.place}/{STAGING}")

    def commit(self, name: str, note: dict[str, Any]) -> None:
        """Makes the staged rows count, all at once."""
        self._files.write(f"{STAGING}/{NOTE}", json.dumps({"format": FORMAT, **note}) + "\n")
        self._files.rename(STAGING, name)

    def read(self, names: Iterable[str]) -> DataFrame:
        """The rows in some folders."""
        return self._spark.read.parquet(*(f"{self.place}/{name}" for name in names))


def settled(
    spark: SparkSession, path: str, *, into: str | None = None, format: str = "parquet"
) -> DataFrame:
    """Reads the results of a query with the windows that ``penstock settle`` has settled.

    Rows of settled windows replace all rows that the job had written of them.

    Parameters
    ----------
    spark
        A classic session.
    path
        Where the job has written its results.
    into
        Where settled rows are, if ``penstock settle`` was given another place than the usual one.
    format
        Of the results.
    """
    results = spark.read.format(format).load(path)
    rows = WholeFolders(Engine(spark), into or f"{path}/{FOLDER}")
    notes = rows.notes()
    if not notes:
        return results
    if any(note["format"] != FORMAT for note in notes.values()):
        raise PenstockError(f"{rows.place}: a newer Penstock has settled these: read them with it")
    shape = WindowShape(**next(iter(notes.values()))["shape"])
    starts = [(start,) for start in sorted(rows.all_of("windows"))]
    replaced = spark.createDataFrame(starts, f"{START} bigint")
    kept = results.withColumn(START, shape.start()).join(sf.broadcast(replaced), START, "left_anti")
    return kept.drop(START).unionByName(rows.read(notes))

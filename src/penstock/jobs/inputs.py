"""Turns the sources of a job file into DataFrames, before the gate and behind it."""

import json
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import TimestampType

from penstock.errors import PenstockError
from penstock.hints import hint
from penstock.jobs.load import LoadedJob
from penstock.jobs.model import EVERY_SOURCE, QueryEntry, SourceEntry
from penstock.sources.options import parse
from penstock.sources.replay import register
from penstock.spark.count_windows import count_windows
from penstock.sql.cql import Counted

FILE_FORMATS = ("parquet", "orc", "json", "csv", "text")
IDENTITY_COLUMNS = {"replay": ("_offset",), "kafka": ("topic", "partition", "offset")}
"""For each format, the columns that tell its tuples apart."""


def read(spark: SparkSession, source: SourceEntry, directory: Path) -> DataFrame:
    """Reads a source as it comes, before its gate; relative paths start at ``directory``."""
    kind, options = source.format, dict(source.options)
    path = None if source.path is None else located(source.path, directory)
    if kind == "replay":
        options = _replay(source, path)
        parse(options)  # a ValueError here names the option
        register(spark)
        return spark.readStream.format("replay").options(**options).load()
    if kind == "rate":
        options.setdefault("rowsPerSecond", str(round(source.rate or 1)))
    if kind == "files":
        kind = options.pop("type", "parquet")
    schema = source.ddl
    if kind in FILE_FORMATS and path is not None:
        _present(path)
        if schema is None and not source.static:
            return _inferred(spark, kind, options, path)
    reader = spark.read if source.static else spark.readStream
    reader = reader.format(kind).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(path)


def located(path: str, directory: Path) -> str:
    """Makes a path absolute, and leaves a URL as it is."""
    return path if "://" in path else str((directory / path).absolute())


def site_directory(loaded: LoadedJob) -> Path | None:
    """Finds where the site of a job keeps its ledger, if anywhere."""
    job = loaded.job
    if job.directory is not None:
        return Path(located(job.directory, loaded.directory))
    if job.checkpoint is None:
        return None
    return Path(located(job.checkpoint, loaded.directory)) / "site"


def _present(path: str) -> None:
    if "://" not in path and not Path(path).exists():
        raise ValueError(f"there is no {path!r}")


def _inferred(spark: SparkSession, kind: str, options: Mapping[str, str], path: str) -> DataFrame:
    """Streams files with the schema of those that are there, as Spark infers none for streams."""
    schema = spark.read.format(kind).options(**options).load(path).schema
    return spark.readStream.format(kind).options(**options).schema(schema).load(path)


def _replay(source: SourceEntry, path: str | None) -> dict[str, str]:
    profile = [step.model_dump() for step in source.profile or []]
    given = {
        "path": path,
        "generator": source.generator,
        "time": source.time,
        "rate": source.rate,
        "speed": source.speed,
        "loop": None if source.loop is None else str(source.loop).lower(),
        "profile": json.dumps(profile) if profile else None,
    }
    texts = {name: str(value) for name, value in given.items() if value is not None}
    return texts | source.options


def view_of_rows(parsed: DataFrame, source: SourceEntry, counted: Counted, name: str) -> None:
    """Makes the view of a source in windows of rows, in the order of its event time."""
    windows, partition = counted.windows, []
    columns = {column.lower(): column for column in parsed.columns}
    for column in windows.partition:
        if column.lower() not in columns:
            raise PenstockError(f"{counted.name}: no column {column!r}; {hint(column, columns)}")
        partition.append(columns[column.lower()])
    frame = count_windows(
        parsed, windows.rows, windows.slide, partition=partition, time=source.event_time
    )
    frame.createOrReplaceTempView(f"`{name}`")


def parsed(gated: DataFrame, source: SourceEntry) -> DataFrame:
    """Adds parsing, which a shed tuple does not pay for."""
    if not source.columns:
        return gated
    computed = (sf.expr(text).alias(name) for name, text in source.columns.items())
    return gated.select("*", *computed)


def behind(gated: DataFrame, source: SourceEntry) -> DataFrame:
    """Adds parsing and the watermark."""
    frame = parsed(gated, source)
    if source.event_time is None or source.static:
        return frame
    kinds = {field.name: field.dataType for field in frame.schema}
    if source.event_time not in kinds:
        raise PenstockError(
            f"no column {source.event_time!r}: there are {', '.join(frame.columns)}"
        )
    if not isinstance(kinds[source.event_time], TimestampType):
        raise PenstockError(
            f"the column {source.event_time!r} is no timestamp; compute one under 'columns', "
            "such as timestamp_seconds(x)"
        )
    return frame.withWatermark(source.event_time, f"{round(source.lateness * 1000)} milliseconds")


def identity(stream: DataFrame, source: SourceEntry) -> list[str]:
    """Names the columns that tell the tuples of a source apart."""
    return list(source.id or IDENTITY_COLUMNS.get(source.format) or stream.columns)


def arrival(stream: DataFrame, source: SourceEntry) -> str | Column | None:
    """Finds what says when a tuple arrived; None where the job file leaves that to the gate.

    The gate stands before ``columns``, so that these cannot be named here.
    """
    text, known = source.arrival, stream.columns
    if text is None:
        return None
    if text.isidentifier() and text not in known:
        raise PenstockError(f"no column {text!r} before the gate: there are {', '.join(known)}")
    column = text if text in known else sf.expr(text)
    if not isinstance(stream.select(column).schema[0].dataType, TimestampType):
        raise PenstockError(
            f"{text!r} is no timestamp; write an expression that is one, "
            "such as timestamp_millis(x)"
        )
    return column


def strata(stream: DataFrame, name: str, query: QueryEntry) -> list[str | Column]:
    """Finds what a query is stratified by: columns of the stream, or expressions over them.

    Columns that the job file gives for every source apply to the sources that have them.
    """
    own = query.strata.get(name)
    names = query.strata.get(EVERY_SOURCE, []) if own is None else own
    known = set(stream.columns)
    if own is None and any(text.isidentifier() and text not in known for text in names):
        return []
    return [text if text in known else sf.expr(text) for text in names]

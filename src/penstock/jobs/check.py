"""Asks Spark what only Spark knows about a job file: columns, types, formats, and streaming rules.

Nothing is started. Spark analyses each query twice. Over the sources as they are, the analysis
gives the names and types of the results. The rewritten form is shown to the checks that Spark
makes before it starts a streaming query.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.jobs.inputs import (
    arrival,
    behind,
    identity,
    located,
    parsed,
    read,
    strata,
    view_of_rows,
)
from penstock.jobs.load import LoadedJob, view
from penstock.jobs.model import SourceEntry
from penstock.jobs.results import answer
from penstock.spark import arguments
from penstock.spark.engine import Engine
from penstock.spark.gate.columns import SIC, WEIGHT
from penstock.spark.shared_places import check_shared
from penstock.spark.spark_errors import column_hint, line_of, told
from penstock.sql.cql import Counted

Schemas = Mapping[str, StructType]


def check(spark: SparkSession, loaded: LoadedJob) -> Schemas:
    """Raises the first mistake with its place in the file.

    Returns, for each query, the columns that plain Spark's result would have.
    """
    job = loaded.job
    _writable(loaded, job.checkpoint, ("checkpoint",))
    _shared(spark, loaded)
    streams = {name: _source(spark, loaded, name) for name in job.sources}
    for name in job.queries:
        _strata(loaded, name, streams)
        _concept(loaded, name, streams)
        _sink(spark, loaded, name)
    return {name: _query(spark, loaded, name, streams) for name in job.queries}


def _shared(spark: SparkSession, loaded: LoadedJob) -> None:
    """Refuses a checkpoint in which executors could not keep the state of queries."""
    engine, kept = Engine(spark), loaded.job.checkpoint
    if engine.on_one_machine:
        return
    if kept is None:
        raise loaded.document.error(
            (),
            "'checkpoint' is missing: on a cluster, a directory that all its machines share, such "
            "as hdfs://namenode/penstock",
        )
    try:
        check_shared(engine, "checkpoint", located(kept, loaded.directory))
    except PenstockError as error:
        message = str(error).removeprefix("checkpoint ")
        raise loaded.document.error(("checkpoint",), message) from None


def _source(spark: SparkSession, loaded: LoadedJob, name: str) -> DataFrame:
    source, place = loaded.job.sources[name], ("sources", name)
    if source.format not in ("replay", "files"):
        _require_format(spark, loaded, (*place, "format"), source.format)
    at_time = (*place, "time") if source.time else place
    blamed: tuple[str, ...] = place
    try:
        stream = read(spark, source, loaded.directory)
        stream.select(*identity(stream, source))
        blamed = at_time  # what is refused from here on is the event-time column
        behind(stream, source).createOrReplaceTempView(f"`{name}`")
    except PySparkException as error:
        raise loaded.document.error(place, told(error)) from None
    except ValueError as error:
        raise loaded.document.error(blamed, str(error)) from None
    _arrival(loaded, name, stream)
    return stream


def _arrival(loaded: LoadedJob, name: str, stream: DataFrame) -> None:
    place = ("sources", name, "arrival")
    try:
        arrival(stream, loaded.job.sources[name])
    except PySparkException as error:
        raise loaded.document.error(place, told(error)) from None
    except PenstockError as error:
        raise loaded.document.error(place, str(error)) from None


def _strata(loaded: LoadedJob, name: str, streams: Mapping[str, DataFrame]) -> None:
    query, used = loaded.job.queries[name], loaded.queries[name].sources
    found = False
    for source in used:
        try:
            chosen = strata(streams[source], source, query)
            streams[source].select(*chosen)
            found = found or bool(chosen)
        except PySparkException as error:
            raise loaded.document.error(("queries", name, "strata"), told(error)) from None
    if query.strata and not found:
        known = sorted({column for source in used for column in streams[source].columns})
        wanted = [text for texts in query.strata.values() for text in texts]
        message = f"no source of the query has {wanted[0]!r}; {column_hint(wanted[0], known)}"
        raise loaded.document.error(("queries", name, "strata"), message)


def _concept(loaded: LoadedJob, name: str, streams: Mapping[str, DataFrame]) -> None:
    windows = loaded.job.queries[name].concept
    if windows is None:
        return
    for source in loaded.queries[name].sources:
        try:
            arguments.concept(windows.concept(), streams[source])
        except PenstockError as error:
            place = ("queries", name, "concept")
            message = str(error).removeprefix("concept: ")
            raise loaded.document.error(place, message) from None


def _query(
    spark: SparkSession, loaded: LoadedJob, name: str, streams: Mapping[str, DataFrame]
) -> StructType:
    query, rewritten = loaded.job.queries[name], loaded.queries[name]
    for source in rewritten.sources:
        given = loaded.job.sources[source]
        stamped = streams[source]
        if not given.static:
            stamped = stamped.select("*", sf.lit(1.0).alias(WEIGHT), sf.lit(1.0).alias(SIC))
        if rewritten.counted is not None and not given.static:
            _rows(loaded, name, streams[source], stamped, given, rewritten.counted)
        else:
            behind(stamped, given).createOrReplaceTempView(f"`{view(name, source)}`")
    try:
        plain = spark.sql(rewritten.plain).schema
        Engine(spark).check_streamable(answer(spark, rewritten, plain), query.mode)
    except PySparkException as error:
        line = line_of(query.sql, error)
        raise loaded.document.error(("queries", name, "sql"), told(error), line) from None
    return plain


def _rows(
    loaded: LoadedJob,
    query: str,
    plain: DataFrame,
    stamped: DataFrame,
    source: SourceEntry,
    counted: Counted,
) -> None:
    """Makes the views of a source in windows of rows, as it is and as it is behind a gate."""
    gated = loaded.queries[query].counted_view(view(query, counted.source))
    try:
        for stream, seen in ((plain, counted.name), (stamped, gated)):
            view_of_rows(parsed(stream, source), source, counted, seen)
    except PenstockError as error:
        raise loaded.document.error(("queries", query, "sql"), str(error)) from None


def _sink(spark: SparkSession, loaded: LoadedJob, name: str) -> None:
    query = loaded.job.queries[name]
    sink, place = query.sink, ("queries", name, "sink")
    _require_format(spark, loaded, (*place, "format"), sink.format)
    if sink.format == "memory" and not name.isidentifier():
        message = f"the memory sink makes a table of the query's name, and {name!r} cannot be one"
        raise loaded.document.error((*place, "format"), message)
    _writable(loaded, sink.path, (*place, "path"))
    if sink.format in ("parquet", "orc", "json", "csv", "text", "delta") and not sink.path:
        raise loaded.document.error(place, "'path' is missing")
    if sink.path and query.mode != "append":
        raise loaded.document.error(
            place, f"files are only added to; mode: {query.mode} needs another sink"
        )


def _require_format(
    spark: SparkSession, loaded: LoadedJob, place: tuple[str, ...], name: str
) -> None:
    if name == "memory":  # a word of the stream writer's
        return
    if not Engine(spark).knows_format(name):
        message = f"Spark knows no format {name!r}; is its package in spark.jars.packages?"
        raise loaded.document.error(place, message)


def _writable(loaded: LoadedJob, directory: str | None, place: tuple[str, ...]) -> None:
    if directory is None or "://" in directory:
        return
    path = Path(located(directory, loaded.directory))
    if path.exists() and not path.is_dir():
        raise loaded.document.error(place, f"{path} is a file, not a directory")
    there = next(parent for parent in path.parents if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise loaded.document.error(place, f"cannot write into {there}")

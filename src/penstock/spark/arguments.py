"""Checks what users hand to a site, and says at once what is wrong and what to give instead."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructType, TimestampType

from penstock import policy as policies
from penstock.core.declared import DeclaredSources
from penstock.core.settings import QueryTerms, WindowTerms
from penstock.errors import PenstockError
from penstock.hints import hint
from penstock.spark.gate.columns import SIC, WEIGHT, Gate
from penstock.spark.spark_errors import told, unlogged
from penstock.units import seconds
from penstock.windows.concept import Concept

SOURCE_IDENTITIES = {
    "kafka": ("topic", "partition", "offset"),
    "replay": ("_arrival", "_offset"),
}
"""The columns that tell the tuples of a source apart, for sources known by their columns."""
SOURCE_ARRIVALS = {
    "kafka": ("timestamp", ("topic", "partition", "offset", "timestamp")),
    "replay": ("_arrival", ("_arrival", "_offset")),
}
"""The column that says when a tuple arrived, and the columns by which its source is known."""
WATERMARK_METADATA = "spark.watermarkDelayMs"
"""The key under which Spark notes the watermark in a column's metadata."""


def duration(name: str, value: float | str) -> float:
    """Returns a duration in seconds, which must be longer than 0."""
    found = seconds(value, name)
    if found <= 0:
        raise PenstockError(
            f"{name} must be longer than 0, such as '1 second' or '500ms'; got {value!r}"
        )
    return found


def whole_microseconds(name: str, given: float | str, duration: float) -> None:
    """Refuses a duration that Spark's times cannot tell."""
    if abs(duration * 1e6 - round(duration * 1e6)) > 1e-3:
        raise PenstockError(
            f"{name} must be a whole number of microseconds, such as '10 seconds'; got {given!r}"
        )


def policy(given: str | policies.Policy) -> policies.Policy:
    """Returns the policy of a name, or the policy that was given."""
    if isinstance(given, str):
        return policies.get(given)
    if not callable(getattr(given, "rates", None)):
        raise PenstockError(
            "policy must be a name or an object with a method 'rates', such as 'balance-sic'; "
            f"got {given!r}"
        )
    return given


def headroom(given: float) -> float:
    """Returns the share of a batch's budget that the site plans with."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1:
        raise PenstockError(
            f"headroom must be the share of a budget to plan with, such as 0.9; got {given!r}"
        )
    return float(given)


def switch(name: str, given: bool) -> bool:
    """Returns what is either on or off."""
    if not isinstance(given, bool):
        raise PenstockError(f"{name} must be True or False; got {given!r}")
    return given


def terms(given: Mapping[str, QueryTerms] | None) -> dict[str, QueryTerms]:
    """Returns the terms of each query by name."""
    found = dict(given or {})
    for query, agreed in found.items():
        if not isinstance(agreed, QueryTerms):
            raise PenstockError(
                f"terms[{query!r}] must be terms, such as QueryTerms(weight=2); got {agreed!r}"
            )
    return found


def directory(given: str | Path | None) -> Path | None:
    """Returns a directory that can be written to, and makes it where it is missing."""
    if given is None:
        return None
    if "://" in str(given):
        raise PenstockError(
            f"directory must be a path on the driver's machine, such as '/var/penstock'; got "
            f"{str(given)!r}"
        )
    path = Path(given)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PenstockError(
            f"directory must be one that Penstock can make; got {str(path)!r}: {error.strerror}"
        ) from None
    if not os.access(path, os.W_OK):
        raise PenstockError(
            f"directory must be one that Penstock can write into; got {str(path)!r}"
        )
    return path


def cores(spark: SparkSession) -> int:
    """Returns how many tasks a session runs at a time."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:
        raise PenstockError(
            "spark must be a classic session, such as SparkSession.builder.master(...) makes; got "
            "one whose driver is out of reach, as with Spark Connect"
        ) from None


def columns(
    name: str, given: str | Column | Sequence[str | Column], known: Sequence[str]
) -> tuple[Column, ...]:
    """Returns names and expressions as columns; a name must be among ``known``."""
    if not isinstance(given, str | Column | Sequence):
        raise PenstockError(
            f"{name} must be a column or a list of columns, such as 'id'; got {given!r}"
        )
    listed = [given] if isinstance(given, str | Column) else list(given)
    for item in listed:
        if isinstance(item, str) and item not in known:
            raise PenstockError(f"{name}: the stream has no column {item!r}; {hint(item, known)}")
    return tuple(sf.col(f"`{item}`") if isinstance(item, str) else item for item in listed)


def some_columns(
    name: str, given: str | Column | Sequence[str | Column], known: Sequence[str]
) -> tuple[Column, ...]:
    """Returns columns as ``columns`` does, at least one of them."""
    found = columns(name, given, known)
    if not found:
        raise PenstockError(f"{name} must be at least one column, such as 'id'; got {given!r}")
    return found


def name(query: str | Column) -> str:
    """Returns the name of the query that a concept belongs to."""
    if not isinstance(query, str):
        raise PenstockError(
            "query must be a name where concept is given, such as 'fares', since queries in a "
            f"column share no window; got {query!r}"
        )
    return query


def concept(given: WindowTerms, stream: DataFrame) -> Concept:
    """Returns a concept whose columns are numbers or times of the stream."""
    if not isinstance(given, Concept):
        raise PenstockError(f"concept must be one, such as Concept(window='5m'); got {given!r}")
    for name, text in (("time", given.time), ("value", given.value)):
        if text is not None:
            _check_number(name, text, stream)
    return given


def _check_number(name: str, text: str, stream: DataFrame) -> None:
    try:
        kind = stream.select(sf.expr(text), sf.expr(text).cast("double")).schema[0].dataType
    except PySparkException as error:
        raise PenstockError(
            f"concept: {name} must be a number or a time of the stream; got {text!r}: {told(error)}"
        ) from None
    if isinstance(kind, StringType):
        wanted = "timestamp" if name == "time" else "double"
        raise PenstockError(
            f"concept: {name} must be a number or a time, such as 'cast({text} as {wanted})'; got "
            f"the text {text!r}"
        )


def check_watermark(stream: DataFrame, time: str) -> None:
    """Refuses a stream without a watermark on ``time``, since its windows would never end."""
    if not stream.isStreaming:
        raise PenstockError(
            "process_windows needs a streaming DataFrame, such as spark.readStream...; got a batch"
        )
    columns("time", time, stream.columns)
    if WATERMARK_METADATA not in stream.schema[time].metadata:
        raise PenstockError(
            "time must be a column with a watermark, such as "
            f"stream.withWatermark({time!r}, '1 minute') gives it, or no window would ever end; "
            f"got {time!r}"
        )


def result_columns(schema: str, reserved: Collection[str]) -> tuple[str, ...]:
    """Returns the names in a schema of results, which may not be ``reserved``."""
    names = tuple(struct("schema", schema, "'median double, n int'").names)
    for name in names:
        if name.lower() in reserved:
            raise PenstockError(
                "schema must have other names than every result has "
                f"({', '.join(reserved)}); got {name!r}"
            )
    return names


def struct(role: str, text: str, example: str) -> StructType:
    """Returns columns from a text in Spark's DDL."""
    wanted = f"{role} must be a list of names and types, such as {example}; got {text!r}"
    if not isinstance(text, str):
        raise PenstockError(wanted)
    try:
        found = StructType.fromDDL(text)
    except PySparkException as error:
        raise PenstockError(f"{wanted}: {told(error)}") from None
    if not isinstance(found, StructType):  # a type alone
        raise PenstockError(f"{wanted}, which lacks a name")
    return found


def named(role: str, given: str | Column) -> str | Column:
    """Returns a name, or a column of names."""
    if not isinstance(given, str | Column) or (isinstance(given, str) and not given):
        raise PenstockError(
            f"{role} must be a name or a column of names, such as 'fares'; got {given!r}"
        )
    return given


def whole_number(name: str, given: int, example: str) -> int:
    """Returns a whole number from 1."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise PenstockError(
            f"{name} must be a whole number from 1, such as {example}; got {given!r}"
        )
    return given


def declared(
    source: str | Column, sources: int | None, comes_and_goes: bool
) -> DeclaredSources | None:
    """Returns the sources of a gate that lower the SIC when they fall silent; None for none.

    They are the one that is named, or as many as the user says there are in a column.
    """
    if sources is not None:
        whole_number("sources", sources, "3")
        if comes_and_goes or isinstance(source, str):
            raise PenstockError(
                "sources must be given only where source is a column, and not where sources come "
                f"and go; got {sources}"
            )
        return DeclaredSources(unnamed=sources)
    if switch("comes_and_goes", comes_and_goes) or not isinstance(source, str):
        return None
    return DeclaredSources(frozenset({source}))


def names_of(stream: DataFrame) -> list[str]:
    """Returns the columns of a stream that can be gated."""
    if not stream.isStreaming:
        raise PenstockError(
            "a gate needs a streaming DataFrame, such as spark.readStream...; got a batch, which "
            "has no overload to shed"
        )
    if WEIGHT in stream.columns or SIC in stream.columns:
        raise PenstockError("this stream went through a gate already; gate it only once")
    return list(stream.columns)


def identity(
    given: str | Column | Sequence[str | Column] | None, known: Sequence[str]
) -> tuple[Column, ...]:
    """Returns the columns that tell tuples apart.

    These are the columns that the user gives, or those of a source that is known, or all.
    """
    if given is not None:
        return columns("id", given, known)
    for names in SOURCE_IDENTITIES.values():
        if set(names) <= set(known):
            return columns("id", names, known)
    return columns("id", known, known)


def arrival(stream: DataFrame, given: str | Column | None, known: Sequence[str]) -> Column | None:
    """Returns the column that says when tuples arrived at their source.

    This is the column that the user gives, or that of a source that is known; None elsewhere.
    """
    if given is not None:
        return arrival_column(stream, given, known)
    for column, names in SOURCE_ARRIVALS.values():
        if set(names) <= set(known) and isinstance(stream.schema[column].dataType, TimestampType):
            return sf.col(column)
    return _file_time(stream)


def _file_time(stream: DataFrame) -> Column | None:
    """Returns when a row's file was written, for a stream of files; None for any other."""
    written = sf.col("_metadata.file_modification_time")
    try:
        with unlogged():
            kind = stream.select(written).schema[0].dataType
    except PySparkException:
        return None
    return written if isinstance(kind, TimestampType) else None


def arrival_column(stream: DataFrame, given: str | Column, known: Sequence[str]) -> Column:
    """Returns the column of timestamps that a user gives for the arrival."""
    if not isinstance(given, str | Column):
        raise PenstockError(f"arrival must be one column, such as 'timestamp'; got {given!r}")
    (column,) = columns("arrival", given, known)
    try:
        kind = stream.select(column).schema[0].dataType
    except PySparkException as error:
        raise PenstockError(f"arrival: {told(error)}") from None
    if not isinstance(kind, TimestampType):
        raise PenstockError(
            "arrival must be a timestamp, such as sf.timestamp_millis('ms') makes of milliseconds; "
            f"got a {kind.simpleString()}"
        )
    return column


def gates_of(found: list[Gate]) -> list[Gate]:
    """Returns the gates of a query that is to be started, which must have one at least."""
    if not found:
        raise PenstockError(
            "this query has no gate of this site: pass its source through site.gate(...) first"
        )
    return found

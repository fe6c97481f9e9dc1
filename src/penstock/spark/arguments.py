"""What users hand to a site: refused at once where it makes no sense, with what to do."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructType

from penstock import policy as policies
from penstock.core.settings import QueryTerms, WindowTerms
from penstock.errors import PenstockError
from penstock.hints import hint
from penstock.spark.gate.columns import SIC, WEIGHT, Gate
from penstock.spark.spark_errors import told
from penstock.units import seconds
from penstock.windows.concept import Concept

IDENTITIES = {
    "kafka": ("topic", "partition", "offset"),
    "replay": ("_arrival", "_offset"),
}
"""Columns that tell the tuples of a source apart, of sources that are known by their columns."""


def duration(name: str, value: float | str) -> float:
    try:
        duration = seconds(value)
    except ValueError as error:
        raise PenstockError(f"{name}: {error}") from None
    if duration <= 0:
        raise PenstockError(f"{name}: must be longer than 0, such as '1s' or '500ms'")
    return duration


def policy(given: str | policies.Policy) -> policies.Policy:
    if isinstance(given, str):
        return policies.get(given)
    if not callable(getattr(given, "rates", None)):
        raise PenstockError(
            f"policy: expected a name or an object with a method 'rates', found {given!r}"
        )
    return given


def headroom(given: float) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1:
        raise PenstockError(f"headroom: the share of a budget that is planned, not {given!r}")
    return float(given)


def terms(given: Mapping[str, QueryTerms] | None) -> dict[str, QueryTerms]:
    found = dict(given or {})
    for query, agreed in found.items():
        if not isinstance(agreed, QueryTerms):
            raise PenstockError(f"terms: {query!r} has {agreed!r}; give ps.QueryTerms(weight=...)")
    return found


def directory(given: str | Path | None) -> Path | None:
    """A place that can be written to; made where it is missing."""
    if given is None:
        return None
    path = Path(given)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PenstockError(f"directory: {path}: {error.strerror}") from None
    if not os.access(path, os.W_OK):
        raise PenstockError(f"directory: cannot write into {path}")
    return path


def cores(spark: SparkSession) -> int:
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:
        raise PenstockError(
            "a site needs a classic SparkSession (SparkSession.builder.master(...)); the driver of "
            "a Spark Connect session is out of its reach"
        ) from None


def columns(
    name: str, given: str | Column | Sequence[str | Column], known: Sequence[str]
) -> tuple[Column, ...]:
    """Names and expressions as columns; a name that is not there is refused at once."""
    if not isinstance(given, str | Column | Sequence):
        raise PenstockError(f"{name}: expected a column or a list of them, found {given!r}")
    listed = [given] if isinstance(given, str | Column) else list(given)
    for item in listed:
        if isinstance(item, str) and item not in known:
            raise PenstockError(f"{name}: the stream has no column {item!r}; {hint(item, known)}")
    return tuple(sf.col(f"`{item}`") if isinstance(item, str) else item for item in listed)


def some_columns(
    name: str, given: str | Column | Sequence[str | Column], known: Sequence[str]
) -> tuple[Column, ...]:
    found = columns(name, given, known)
    if not found:
        raise PenstockError(f"{name}: at least one column is needed")
    return found


def name(query: str | Column) -> str:
    """Of the query that a concept belongs to."""
    if not isinstance(query, str):
        raise PenstockError(
            "concept: give query=... as a name; queries in a column share no window"
        )
    return query


def concept(given: WindowTerms, stream: DataFrame) -> Concept:
    """Refused where its columns are not in the stream, or are no numbers and times."""
    if not isinstance(given, Concept):
        raise PenstockError(f"concept: expected ps.Concept(window='5m', ...), found {given!r}")
    for name, text in (("time", given.time), ("value", given.value)):
        if text is not None:
            try:
                kind = stream.select(sf.expr(text), sf.expr(text).cast("double")).schema[0].dataType
            except PySparkException as error:
                reason = told(error)
                raise PenstockError(
                    f"concept: {name}={text!r} is no number here: {reason}"
                ) from None
            if isinstance(kind, StringType):
                raise PenstockError(
                    f"concept: {name}={text!r} is a text; say "
                    f"{name}='cast({text} as {'timestamp' if name == 'time' else 'double'})'"
                )
    return given


def watermarked(stream: DataFrame, time: str) -> None:
    """Refused where nothing would ever say that a window is over."""
    if not stream.isStreaming:
        raise PenstockError("process_windows needs a streaming DataFrame (spark.readStream...)")
    columns("time", time, stream.columns)
    if DELAY not in stream.schema[time].metadata:
        raise PenstockError(
            f"time: {time!r} has no watermark, so no window would ever end: call "
            f"stream.withWatermark({time!r}, '1 minute') before"
        )


def result_columns(schema: str, reserved: Collection[str]) -> tuple[str, ...]:
    """The names in a schema of results."""
    names = tuple(struct("schema", schema, "'median double, n int'").names)
    for name in names:
        if name.lower() in reserved:
            raise PenstockError(f"schema: every result has a column {name!r}; choose another name")
    return names


def struct(role: str, text: str, example: str) -> StructType:
    """Columns as Spark's DDL writes them."""
    if not isinstance(text, str):
        raise PenstockError(f"{role}: a text such as {example}, not {text!r}")
    try:
        found = StructType.fromDDL(text)
    except PySparkException as error:
        raise PenstockError(
            f"{role}: {text!r} is no list such as {example}: {told(error)}"
        ) from None
    if not isinstance(found, StructType):  # a type alone, without a name
        raise PenstockError(f"{role}: {text!r} is no list such as {example}: a name is missing")
    return found


DELAY = "spark.watermarkDelayMs"
"""What Spark writes down with a column that has a watermark."""


def named(role: str, given: str | Column) -> str | Column:
    if not isinstance(given, str | Column) or (isinstance(given, str) and not given):
        raise PenstockError(f"{role}: a name, or a column of names, not {given!r}")
    return given


def strata_limit(given: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise PenstockError(f"max_strata: a whole number from 1, not {given!r}")
    return given


def names_of(stream: DataFrame) -> list[str]:
    """The columns of a stream that can be gated."""
    if not stream.isStreaming:
        raise PenstockError(
            "a gate needs a streaming DataFrame (spark.readStream...); this one is a batch, "
            "and a batch has no overload to shed"
        )
    if WEIGHT in stream.columns or SIC in stream.columns:
        raise PenstockError("this stream went through a gate already; gate it only once")
    return list(stream.columns)


def identity(
    given: str | Column | Sequence[str | Column] | None, known: Sequence[str]
) -> tuple[Column, ...]:
    """The columns that tell tuples apart: as told, or those of a source that is known, or all."""
    if given is not None:
        return columns("id", given, known)
    for names in IDENTITIES.values():
        if set(names) <= set(known):
            return columns("id", names, known)
    return columns("id", known, known)


def gates_of(found: list[Gate]) -> list[Gate]:
    """The gates of a query that is to be started, of which there must be some."""
    if not found:
        raise PenstockError(
            "this query has no gate of this site: pass its source through site.gate(...) first"
        )
    return found

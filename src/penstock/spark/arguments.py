"""What users hand to a site: refused at once where it makes no sense, with what to do."""

import inspect
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StringType, StructType, TimestampType

from penstock import policy as policies
from penstock.core.settings import QueryTerms, WindowTerms
from penstock.errors import PenstockError
from penstock.hints import hint
from penstock.spark.gate.columns import SIC, WEIGHT, Gate
from penstock.spark.spark_errors import told
from penstock.units import seconds
from penstock.windows.concept import Concept


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


NO_ANSWER = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)


def guardable(
    stream: DataFrame, function: object, inputs: Sequence[str], on_error: str
) -> list[str]:
    """The columns of a stream that a function can be guarded on."""
    if not callable(function) or hasattr(function, "evalType"):
        raise PenstockError(
            f"function: expected a plain Python function of a row, found {function!r}"
        )
    called = function if inspect.isroutine(function) else type(function).__call__
    if any(kind(called) for kind in NO_ANSWER):
        raise PenstockError(
            f"function: {function!r} is a coroutine or a generator; return the value itself"
        )
    listed = isinstance(inputs, Sequence) and not isinstance(inputs, str)
    if not listed or not all(isinstance(name, str) for name in inputs):
        raise PenstockError(f"inputs: a list of names such as ['kind'], not {inputs!r}")
    if on_error not in ("fail", "skip"):
        raise PenstockError(f"on_error: 'fail' or 'skip', not {on_error!r}")
    if not stream.isStreaming:
        raise PenstockError(
            "a guard needs a streaming DataFrame (spark.readStream...); on a batch, use mapInArrow"
        )
    columns("inputs", inputs, stream.columns)
    for name in stream.columns:
        if stream.columns.count(name) > 1 or "." in name:
            raise PenstockError(
                f"guard: Spark's mapInArrow takes no two columns of one name, and none with a dot; "
                f"rename {name!r}"
            )
    return list(stream.columns)


def hashed(key: tuple[Column, ...], stream: DataFrame) -> Column:
    """A fingerprint of the key."""
    fingerprint = sf.xxhash64(*key)
    try:
        stream.select(fingerprint)
    except PySparkException as error:
        raise PenstockError(f"key: {told(error)}") from None
    return fingerprint


def moment(stream: DataFrame, given: str | Column, known: Sequence[str]) -> Column:
    """When tuples arrived."""
    if not isinstance(given, str | Column):
        raise PenstockError(f"arrival: one column, not {given!r}")
    (column,) = columns("arrival", given, known)
    kind = stream.select(column).schema[0].dataType
    if not isinstance(kind, TimestampType):
        raise PenstockError(
            f"arrival: a timestamp is needed, and this is a {kind.simpleString()}; "
            "sf.timestamp_millis(...) makes one of milliseconds"
        )
    return column


def driver_address(spark: SparkSession) -> tuple[str, str]:
    """Where to listen, and where executors reach it."""
    conf = spark.sparkContext.getConf()
    host = conf.get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
    return conf.get("spark.driver.bindAddress", host) or host, host


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


def frame_of(writer: DataStreamWriter) -> DataFrame:
    """What is to be written."""
    return cast(DataFrame, cast(Any, writer)._df)


def plan_of(frame: DataFrame) -> str:
    """What Spark makes of it, as text."""
    return str(cast(Any, frame)._jdf.queryExecution().analyzed().toString())


def gates_in(frame: DataFrame, gates: Iterable[Gate]) -> list[Gate]:
    """Those of these gates that a stream went through."""
    plan = plan_of(frame)
    return [gate for gate in gates if f"CollectMetrics {gate.name}," in plan]


def gates_before(stream: DataFrame, gates: Iterable[Gate]) -> list[Gate]:
    """The gates of a stream that is to be guarded, all of one site."""
    if not isinstance(stream, DataFrame):
        raise PenstockError(f"guard: a streaming DataFrame is needed, not {stream!r}")
    found = gates_in(stream, gates)
    if WEIGHT in stream.columns and not found:
        raise PenstockError(
            "this stream went through a gate of another site: call that site's guard(...), or its "
            "SIC would not know of what is shed here"
        )
    return found


def gates_of(
    writer: DataStreamWriter, gates: Iterable[Gate], taken: Collection[Gate]
) -> list[Gate]:
    """The gates of a query that is to be started; ``taken`` are those of other queries."""
    found = gates_in(frame_of(writer), gates)
    if not found:
        raise PenstockError(
            "this query has no gate of this site: pass its source through site.gate(...) first"
        )
    if any(gate is other for gate in found for other in taken):
        raise PenstockError(
            "this gate belongs to another query already; call site.gate(...) for each query"
        )
    running = {gate.keys.query for gate in taken if isinstance(gate.keys.query, str)}
    for gate in found:
        if isinstance(gate.keys.query, str) and gate.keys.query in running:
            raise PenstockError(
                f"a query of the name {gate.keys.query!r} is running: give site.gate(query=...) "
                "another name"
            )
    names = [(gate.keys.query, gate.keys.source) for gate in found if gate.keys.same_value]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)[1]
        raise PenstockError(
            f"two streams of this query are called {twice!r}: give each a name of its own with "
            "site.gate(source=...)"
        )
    return found

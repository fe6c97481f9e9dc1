"""The arguments of ``Site.guard``, checked."""

import inspect
from collections.abc import Callable, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.errors import PenstockError
from penstock.spark import arguments
from penstock.spark.gate.columns import WEIGHT, Gate
from penstock.spark.spark_errors import told

KINDS_WITHOUT_AN_ANSWER = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)
"""Functions of these kinds answer an object that has yet to be run, not a value."""

PORT = "spark.penstock.port"
"""The setting of the session for the port at which tasks ask for a guard's plan: one that a
firewall between executors and driver lets through."""
LARGEST_PORT = 65_535


def guardable(
    stream: DataFrame, function: object, inputs: Sequence[str], on_error: str
) -> list[str]:
    """Returns the columns of a stream on which a function can be guarded."""
    _check_function(function)
    listed = isinstance(inputs, Sequence) and not isinstance(inputs, str)
    if not listed or not all(isinstance(name, str) for name in inputs):
        raise PenstockError(f"inputs must be a list of names, such as ['kind']; got {inputs!r}")
    if on_error not in ("fail", "skip"):
        raise PenstockError(f"on_error must be 'fail' or 'skip'; got {on_error!r}")
    if not stream.isStreaming:
        raise PenstockError(
            "a guard needs a streaming DataFrame, such as spark.readStream...; got a batch, on "
            "which mapInArrow does the same"
        )
    arguments.columns("inputs", inputs, stream.columns)
    for name in stream.columns:
        if stream.columns.count(name) > 1 or "." in name:
            raise PenstockError(
                "the columns of a guarded stream must have different names without a dot, since "
                f"Spark's mapInArrow takes no others; rename {name!r}"
            )
    return list(stream.columns)


def _check_function(function: object) -> None:
    if not callable(function) or hasattr(function, "evalType"):
        raise PenstockError(
            "function must be a plain Python function of a row, such as lambda row: row['n'] + 1; "
            f"got {function!r}"
        )
    called = function if inspect.isroutine(function) else type(function).__call__
    if any(is_of_kind(called) for is_of_kind in KINDS_WITHOUT_AN_ANSWER):
        raise PenstockError(
            "function must return the value itself, such as lambda row: row['n'] + 1; got the "
            f"coroutine or generator {function!r}"
        )


def fingerprint_of(key: tuple[Column, ...], stream: DataFrame) -> Column:
    """Returns the fingerprint of the key, a column of 64 bits."""
    fingerprint = sf.xxhash64(*key)
    try:
        stream.select(fingerprint)
    except PySparkException as error:
        raise PenstockError(f"key: {told(error)}") from None
    return fingerprint


def driver_address(spark: SparkSession) -> tuple[str, str]:
    """Returns the address on which the driver listens, and that at which executors reach it."""
    conf = spark.sparkContext.getConf()
    host = conf.get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
    return conf.get("spark.driver.bindAddress", host) or host, host


def port(spark: SparkSession) -> int:
    """Returns the port at which executors ask for plans; 0 for a free one."""
    told = spark.sparkContext.getConf().get(PORT, "0") or "0"
    if not told.isdigit() or int(told) > LARGEST_PORT:
        raise PenstockError(f"{PORT} must be a port, such as 7300; got {told!r}")
    return int(told)


def gates_before(stream: DataFrame, gates_in: Callable[[DataFrame], list[Gate]]) -> list[Gate]:
    """Returns the gates, all of one site, that a stream to be guarded went through."""
    if not isinstance(stream, DataFrame):
        raise PenstockError(
            f"stream must be a streaming DataFrame, such as spark.readStream...; got {stream!r}"
        )
    found = gates_in(stream)
    if WEIGHT in stream.columns and not found:
        raise PenstockError(
            "this stream went through a gate of another site: call that site's guard(...), or its "
            "SIC would not know of what is shed here"
        )
    return found

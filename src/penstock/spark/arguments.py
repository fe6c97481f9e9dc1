"""What users hand to a site: refused at once where it makes no sense, with what to do."""

from collections.abc import Sequence
from difflib import get_close_matches

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import policy as policies
from penstock.checks import check_policy_rates_lie_between_0_and_1
from penstock.concept import Concept
from penstock.durations import seconds
from penstock.spark.gate import SIC, WEIGHT
from penstock.types import PenstockError


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
    try:
        check_policy_rates_lie_between_0_and_1(given)
    except AssertionError as error:
        name = getattr(given, "name", type(given).__name__)
        raise PenstockError(
            f"policy {name!r}: a rate lies between 0 and 1, but it gave {error}"
        ) from None
    return given


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
    listed = [given] if isinstance(given, str | Column) else list(given)
    for item in listed:
        if isinstance(item, str) and item not in known:
            close = get_close_matches(item, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise PenstockError(f"{name}: the stream has no column {item!r}; {hint}")
    return tuple(sf.col(f"`{item}`") if isinstance(item, str) else item for item in listed)


def name(query: str | Column) -> str:
    """Of the query that a concept belongs to."""
    if not isinstance(query, str):
        raise PenstockError(
            "concept: give query=... as a name; queries in a column share no window"
        )
    return query


def concept(given: Concept, stream: DataFrame) -> Concept:
    """Refused where its columns are not in the stream, or are no numbers and times."""
    for name, text in (("time", given.time), ("value", given.value)):
        if text is not None:
            try:
                stream.select(sf.expr(text).cast("double"))
            except Exception as error:
                reason = str(error).splitlines()[0]
                raise PenstockError(
                    f"concept: {name}={text!r} is no number here: {reason}"
                ) from None
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

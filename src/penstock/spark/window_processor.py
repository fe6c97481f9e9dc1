"""Processes windows as CoD does: any Python function of a window's rows, at a part of the rows.

    medians = process_windows(
        trips, lambda rows: {"fare": float(rows["fare"].median())}, "fare double",
        time="pickup", groups="route", window="30m", slide="10m", keep=0.03,
    )

Aggregates that Spark knows need no raw tuples: put a gate in front of them. A median, a model or a
plot does. The processor stores tuples as they come, and counts each group's. When the watermark
passes a window's end, the counts say how many tuples of each group stay, one scan finds them, and
the function gets each group's rows, with ``_weight``, the number of tuples that each stands for.
``shed`` may be "uniform" or "none" instead, for comparison, behind the same interface. Windows of
time may be replaced by sessions (see ``session_processor``), and groups by the keys of a join.

The state holds at most ``most`` tuples a pane and shard, and drops a pane with the last window that
needs it. It lives in Spark's state store (``transformWithState``, which needs RocksDB there): after
a restart the query continues where it was, and a micro-batch writes only what came in it.
"""

from collections.abc import Sequence
from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.errors import PenstockError
from penstock.spark import arguments
from penstock.spark.gate.keys import group_name
from penstock.spark.losses import ENTERED, LEFT
from penstock.spark.session_processor import SessionProcessor, session_of
from penstock.spark.stored_windows import (
    GROUP,
    IS_RESULT,
    MOMENT,
    SESSION,
    SHARD,
    Function,
    WindowProcessor,
)
from penstock.units import as_share
from penstock.windows.sampling import BETWEEN_SIDES, ByAccuracy, ByJoin, shedder

RESERVED_COLUMNS = ("start", "end", "group", "kept", "arrived", "millis")
"""The columns that every result has, besides those of the function."""
OF_SESSIONS = "session"
"""One more column, where windows are sessions."""
MEASURED_SCHEMA = "kept bigint, arrived bigint, millis double"
STATE_STORE_SETTING = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_numbers = count()


def process_windows(
    stream: DataFrame,
    function: Function,
    schema: str,
    *,
    time: str,
    groups: str | Sequence[str] = (),
    window: float | str | None = None,
    slide: float | str | None = None,
    session: float | str | None = None,
    of: str | Sequence[str] = (),
    join: str | None = None,
    shed: str = "concept",
    keep: float | str = 1.0,
    by: str = "equal",
    error: float | str | None = None,
    confidence: float = 0.95,
    value: str | None = None,
    most: int | None = 1_000_000,
    shards: int = 1,
) -> DataFrame:
    """Returns a stream with a row for each group of each window.

    A row has the columns start, end, group, those that the function returns, and ``kept``,
    ``arrived`` and ``millis``: how many tuples of the window were kept and came, and how long
    shedding and processing took. Behind a gate, the ``_weight`` of a row counts both sheddings.

    Parameters
    ----------
    stream
        A streaming DataFrame with a watermark on ``time``.
    function
        Gets the rows of one group as a pandas DataFrame, and returns a dictionary.
    schema
        The names and types of what the function returns, in Spark's DDL.
    time
        The column of event times; tuples without a time are left out.
    groups
        The columns that tell groups apart.
    window, slide
        The length of windows, and the time from one start to the next.
    session, of
        Instead of a window: a session ends when nothing has come for so long. Each value of the
        columns ``of`` has sessions of its own, and results have a column ``session`` that names it.
        A session begins with its first tuple, and ends so long after its last one.
    join
        Where the stream is a union of two whose tuples are to be joined on ``groups``: the column
        that tells them apart. Keys that are in one of them only get nothing, and are not counted.
    shed
        "concept", "uniform" or "none".
    keep
        The share of a window's tuples to keep, such as 0.05 or "5%".
    by
        How groups share what is kept: "equal" quotas, or "proportional" ones, which are the same
        share of each group and at least one of its tuples.
    error, confidence, value
        Instead of ``keep``: as many tuples of each group as bring the mean of the column ``value``
        within this relative error, such as 0.05 or "5%", with this confidence.
    most
        The number of tuples that the state may hold for a pane and shard; None for all.
    shards
        The number of tasks between which groups are divided. Each keeps the same share of its own
        tuples, and ``kept``, ``arrived`` and ``millis`` are then those of a shard.
    """
    names = arguments.columns("groups", groups, stream.columns)
    arguments.check_watermark(stream, time)
    arguments.whole_number("shards", shards, "2")
    if most is not None:
        arguments.whole_number("most", most, "1_000_000")
    gap, owners = session_of(session, of, stream.columns, window, slide)
    length, step = (gap, gap) if gap else _window(window, slide)
    named = (OF_SESSIONS,) if gap else ()
    results = arguments.result_columns(schema, (*named, *RESERVED_COLUMNS))
    share = as_share("keep", keep)
    kept = shedder(shed, share, by)
    if error is not None or value is not None:
        kept = _accurate(stream, shed, share, error, confidence, value)
    if join is not None:
        kept = _joined(stream, join, names, shed, share, by, error)
    columns = tuple(stream.columns)
    kind = SessionProcessor if gap else WindowProcessor
    processor = kind(function, kept, length, step, most, columns, results, value)
    key = group_name(names)
    group = key if join is None else sf.concat_ws(BETWEEN_SIDES, key, group_name([sf.col(join)]))
    number, asked = next(_numbers), 1.0 if shed == "none" else share
    entered = stream.observe(
        f"{ENTERED}{number}",
        sf.count(sf.lit(1)).alias("rows"),
        sf.count_if(sf.col(time).isNull()).alias("without_time"),
        sf.max(sf.lit(asked)).alias("keep"),
    )
    keyed = entered.where(sf.col(time).isNotNull()).select(
        "*",
        sf.col(time).cast("double").alias(MOMENT),
        group.alias(GROUP),
        sf.pmod(sf.xxhash64(key), sf.lit(shards)).cast("int").alias(SHARD),
        *([group_name(owners).alias(SESSION)] if gap else []),
    )
    session_kind = f"{OF_SESSIONS} string, " if gap else ""
    kinds = (
        f"{session_kind}start timestamp, end timestamp, `group` string, {schema}, {MEASURED_SCHEMA}"
    )
    stream.sparkSession.conf.set(STATE_STORE_SETTING, ROCKSDB)  # running queries keep theirs
    keys = [SHARD, SESSION] if gap else [SHARD]
    processed = keyed.groupBy(*keys).transformWithStateInPandas(
        processor, f"{kinds}, {IS_RESULT} boolean", "append", "EventTime"
    )
    told = ~sf.col(IS_RESULT)
    return (
        processed.observe(
            f"{LEFT}{number}",
            sf.sum(sf.when(told, sf.col("kept"))).alias("kept"),
            sf.sum(sf.when(told, sf.col("arrived"))).alias("arrived"),
        )
        .where(IS_RESULT)
        .drop(IS_RESULT)
    )


def _window(window: float | str | None, slide: float | str | None) -> tuple[float, float]:
    """Returns the length of windows and of the time between them, in seconds."""
    if window is None:
        raise PenstockError("window must be a duration, such as '30m'; or give a session")
    length = arguments.duration("window", window)
    step = length if slide is None else arguments.duration("slide", slide)
    arguments.whole_microseconds("window", window, length)
    arguments.whole_microseconds("slide", window if slide is None else slide, step)
    if abs(length / step - round(length / step)) > 1e-9:
        raise PenstockError(
            "window must be a multiple of slide, such as '10m' of '5m'; got "
            f"{window!r} and {slide!r}"
        )
    return length, step


def _joined(
    stream: DataFrame,
    join: str,
    groups: Sequence[Column],
    shed: str,
    keep: float,
    by: str,
    error: float | str | None,
) -> ByJoin:
    """Returns the shedder for a join, where all that it needs was given."""
    arguments.columns("join", join, stream.columns)
    if not groups or shed != ByJoin.name or error is not None:
        raise PenstockError(
            "join must be given with groups, the keys that are joined, with shed='concept', and "
            f"without error; got shed={shed!r} and error={error!r}"
        )
    return ByJoin(keep, by)


def _accurate(
    stream: DataFrame,
    shed: str,
    keep: float,
    error: float | str | None,
    confidence: float,
    value: str | None,
) -> ByAccuracy:
    """Returns the shedder for an error, where all that it needs was given."""
    if error is None or value is None:
        raise PenstockError(
            "error and value must be given together, such as error='5%' and value='fare'; "
            f"got {error!r} and {value!r}"
        )
    arguments.columns("value", value, stream.columns)
    if shed != ByAccuracy.name or keep < 1.0:
        raise PenstockError(
            "error must be given without keep, and with shed='concept', since it says how many "
            f"tuples stay; got keep={keep!r} and shed={shed!r}"
        )
    bound = as_share("error", error)
    if not 0.0 < bound <= 1.0:
        raise PenstockError(f"error must be a share, such as 0.05 or '5%'; got {error!r}")
    if not 0.0 < confidence < 1.0:
        raise PenstockError(f"confidence must lie between 0 and 1, such as 0.95; got {confidence}")
    return ByAccuracy(bound, confidence)

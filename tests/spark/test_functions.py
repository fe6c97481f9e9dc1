"""``penstock.functions`` beside ``pyspark.sql.functions``: names, values, types, and errors."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from penstock import functions as pf
from penstock.errors import PenstockError

ONE_COLUMN = (
    *("count", "sum", "try_sum", "avg", "mean", "try_avg", "median"),
    *("var_pop", "var_samp", "variance", "std", "stddev", "stddev_pop", "stddev_samp"),
)
TWO_COLUMNS = ("covar_pop", "covar_samp", "corr")
WITH_SHARES = ("percentile", "percentile_approx", "approx_percentile")
WEIGHTED = {*ONE_COLUMN, *TWO_COLUMNS, *WITH_SHARES, "count_if"}
NUMBERS = {
    "tiny": ("tinyint", st.integers(-(2**7), 2**7 - 1)),
    "small": ("smallint", st.integers(-(2**15), 2**15 - 1)),
    "int": ("int", st.integers(-(2**31), 2**31 - 1)),
    "big": ("bigint", st.integers(-(2**60), 2**60)),
    "float": ("float", st.floats(width=32)),
    "double": ("double", st.floats()),
    "money": ("decimal(10,2)", st.integers(-(10**9), 10**9).map(lambda n: Decimal(n) / 100)),
    "vast": (
        "decimal(38,10)",
        st.integers(-(10**31), 10**31).map(lambda n: Decimal(n).scaleb(-10)),
    ),
}
"""By name of a column: its type, and values of which seven have a sum in Spark's type."""
SCHEMA = ", ".join(
    (
        "g int",
        *(f"{name} {kind}" for name, (kind, _) in NUMBERS.items()),
        *("flag boolean", "_weight double", "_sic double"),
    )
)
POOLS = st.tuples(
    *(st.lists(values, min_size=5, max_size=15) for _, values in NUMBERS.values()),
    st.just([True, False]),
)
"""A few values for each column, of which many rows are made."""
NO_ROW = (None,) * (len(NUMBERS) + 1)


def frame_of(spark: SparkSession, groups: Sequence[Sequence[Any]]) -> DataFrame:
    """One partition, so that sums of doubles have one order."""
    rows = [(g, *row, 1.0, 0.1) for g, group in enumerate(groups) for row in group]
    return spark.createDataFrame(rows, SCHEMA).coalesce(1)


def aggregates(functions: Any, name: str) -> list[Column]:
    """All that the module has for a column of numbers."""
    return [
        *(getattr(functions, each)(name) for each in ONE_COLUMN),
        *(getattr(functions, each)(sf.col(name), "double") for each in TWO_COLUMNS),
        functions.percentile(name, 0.3),
        functions.percentile(name, percentage=[0.1, 0.9], frequency=2),
        functions.percentile_approx(col=name, percentage=0.3, accuracy=100),
        functions.percentile_approx(name, (0.1, 0.9)),
        functions.approx_percentile(name, sf.lit(0.5)),
        functions.count_if(sf.col(name) > 1),
    ]


def shape(frame: DataFrame) -> list[tuple[str, DataType, bool]]:
    """Without metadata, in which Spark notes that a name was not the user's."""
    return [(field.name, field.dataType, field.nullable) for field in frame.schema]


def same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return one == two or (math.isnan(one) and math.isnan(two))
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two) and type(one) is type(two)


def test_every_public_name_of_spark_is_there() -> None:
    functions = {name for name, _ in inspect.getmembers(sf, inspect.isfunction)}
    public = {name for name in functions if not name.startswith("_")} | set(sf.__all__)
    assert public > {"countDistinct", "window", "udf", "avg"}
    assert not {name for name in public if not hasattr(pf, name)}
    assert set(pf.__all__) == set(sf.__all__) | {"sic", "within"}
    changed = {name for name in public if getattr(pf, name) is not getattr(sf, name)}
    assert changed == WEIGHTED


@pytest.mark.parametrize("name", sorted(WEIGHTED))
def test_parameters_are_those_of_spark(name: str) -> None:
    theirs = inspect.signature(getattr(sf, name)).parameters
    ours = inspect.signature(getattr(pf, name)).parameters
    added = [each for each in ours if each not in theirs]
    assert added in ([], ["bounds", "confidence"])
    assert list(ours)[: len(theirs)] == list(theirs)
    for each, parameter in theirs.items():
        assert (ours[each].kind, ours[each].default) == (parameter.kind, parameter.default)
    assert all(ours[each].kind is inspect.Parameter.KEYWORD_ONLY for each in added)


@settings(max_examples=1, phases=[Phase.generate])
@given(pools=POOLS, seed=st.integers(0, 2**32))
def test_where_nothing_was_shed_it_is_spark(
    spark: SparkSession, pools: tuple[list[Any], ...], seed: int
) -> None:
    """In value, in type and in name: for all types, nulls, empty groups and odd doubles."""
    if _raises_on_constants(spark):
        with setting(spark, "spark.sql.ansi.enabled", "false"):
            _agree_on_all(spark, pools, seed)
    else:
        _agree_on_all(spark, pools, seed)


def _raises_on_constants(spark: SparkSession) -> bool:
    """Whether this Spark's ``corr`` divides by zero where a column has one value, as 4.2 does."""
    try:
        spark.sql("SELECT corr(1.0D, id) FROM range(3)").collect()
    except ArithmeticException:
        return True
    return False


def _agree_on_all(spark: SparkSession, pools: tuple[list[Any], ...], seed: int) -> None:
    draw = Random(seed)
    groups = [[_row(draw, pools) for _ in range(draw.randint(1, 7))] for _ in range(160)]
    frame = frame_of(spark, [*groups, [NO_ROW], [NO_ROW, NO_ROW]]).cache()
    for name in NUMBERS:
        agree(frame.groupBy("g"), name)
    frame.unpersist()


def _row(draw: Random, pools: tuple[list[Any], ...]) -> tuple[Any, ...]:
    return tuple(None if draw.random() < 0.2 else draw.choice(pool) for pool in pools)


@pytest.mark.parametrize("name", ["int", "double", "money"])
def test_where_nothing_came_it_is_spark(spark: SparkSession, name: str) -> None:
    agree(frame_of(spark, []).groupBy(), name)


def agree(grouped: GroupedData, name: str) -> None:
    """Spark's aggregates of a column and ours, of the same rows in the same order."""
    theirs, ours = aggregates(sf, name), aggregates(pf, name)
    both = grouped.agg(*theirs, *ours)
    fields, size = shape(both)[-2 * len(ours) :], len(ours)
    assert fields[size:] == fields[:size]
    for row in both.collect():
        values = tuple(row)[-2 * size :]
        for wanted, found, field in zip(values[:size], values[size:], fields[:size], strict=True):
            assert same(wanted, found), (field, wanted, found)


def test_counts_of_anything(spark: SparkSession) -> None:
    frame = frame_of(spark, [[NO_ROW, (*NO_ROW[:-1], True), (*NO_ROW[:-1], False)]])

    def counts(f: Any) -> list[Column]:
        structs = (f.count(sf.struct("tiny", "flag")), f.count(sf.lit(None)))
        return [f.count("*"), f.count(sf.lit(1)), f.count("flag"), f.count_if("flag"), *structs]

    ours, theirs = frame.agg(*counts(pf)), frame.agg(*counts(sf))
    assert shape(ours) == shape(theirs)
    assert ours.collect() == theirs.collect()


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def test_an_overflow_is_that_of_spark(spark: SparkSession) -> None:
    large = "SELECT 9223372036854775807 AS n, 1.0D AS _weight FROM range(3)"
    frame = spark.sql(large)
    for functions in (sf, pf):
        with pytest.raises(ArithmeticException, match="overflow"):
            frame.agg(functions.sum("n")).collect()
    assert frame.agg(pf.try_sum("n")).collect() == frame.agg(sf.try_sum("n")).collect()
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        frame = spark.sql(large)
        assert frame.agg(pf.sum("n")).collect() == frame.agg(sf.sum("n")).collect()
    one = spark.sql("SELECT 9223372036854775807 AS n, 2.0D AS _weight")
    assert one.agg(pf.try_sum("n")).collect()[0][0] is None


def test_estimates_have_the_types_of_spark(spark: SparkSession) -> None:
    rows = [(0, 3, Decimal("1.10"), 1.5, 0.1), (0, 4, Decimal("2.25"), 2.5, 0.1)]
    frame = spark.createDataFrame(
        rows, "g int, n int, m decimal(10,2), _weight double, _sic double"
    )

    def results(f: Any) -> list[Column]:
        averages = (f.avg("m"), f.avg("n"), f.percentile("n", 0.5, sf.lit(3)))
        approximate = (f.percentile_approx("n", [0.0, 1.0]), f.percentile_approx("m", 0.9))
        return [f.count("*"), f.sum("n"), f.sum("m"), *averages, *approximate]

    assert shape(frame.agg(*results(pf))) == shape(frame.agg(*results(sf)))
    total = 1.5 * 1.10 + 2.5 * 2.25
    found = tuple(frame.agg(*results(pf)).collect()[0])
    assert found[:3] == (4, 15, Decimal("7.28"))  # 14.5 and 7.275, rounded
    assert float(found[3]) == pytest.approx(total / 4, abs=1e-6)
    assert found[4:] == (14.5 / 4, 4.0, [3, 4], Decimal("2.25"))
    bounded = frame.agg(pf.sum("m", bounds=True)).collect()[0][0]
    assert bounded.low < float(bounded.value) < bounded.high


def test_the_frequency_of_the_user_multiplies_the_weight(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(1.0, 2.0, 5), (2.0, 2.0, 1), (3.0, 1.0, 8)], "x double, _weight double, times int"
    )
    repeated = sf.explode(sf.array_repeat("x", (sf.col("_weight") * sf.col("times")).cast("int")))
    expected = frame.select(repeated.alias("x")).agg(sf.percentile("x", 0.5)).collect()
    assert frame.agg(pf.percentile("x", 0.5, sf.col("times"))).collect()[0][0] == expected[0][0]


# --- names -------------------------------------------------------------------------------------

_INFIX: list[Callable[[Column, Column], Column]] = [
    *(Column.__add__, Column.__sub__, Column.__mul__, Column.__truediv__, Column.__mod__),
    *(Column.__lt__, Column.__le__, Column.__gt__, Column.__ge__, Column.eqNullSafe),
]
_LEAVES = st.sampled_from(["tiny", "big", "double", "`float`", "s.y", 1, 2**40, 0.5, True]).map(
    lambda leaf: lambda: sf.col(leaf) if isinstance(leaf, str) else sf.lit(leaf)
)
_Made = Callable[[], Column]


def _number(x: Column) -> Column:
    return x.cast("double")


def _grow(inner: st.SearchStrategy[_Made]) -> st.SearchStrategy[_Made]:
    infix = st.tuples(st.sampled_from(_INFIX), inner, inner).map(
        lambda made: lambda: _number(made[0](_number(made[1]()), _number(made[2]())))
    )
    conditions = st.tuples(inner, inner, inner).map(
        lambda made: (
            lambda: sf.when(
                made[0]().isNotNull() & ~made[1]().cast("string").isin("a", "it's"),
                _number(made[2]()),
            ).otherwise(sf.lit(0.0))
        )
    )
    calls = st.tuples(
        st.sampled_from([sf.abs, sf.sqrt, sf.exp, sf.floor, sf.isnull, sf.signum, sf.negative]),
        inner,
    ).map(lambda made: lambda: made[0](_number(made[1]())))
    texts = inner.map(
        lambda made: lambda: sf.length(sf.concat(made().cast("string"), sf.lit("-,'x"))) + 1
    )
    return st.one_of(infix, conditions, calls, texts)


@settings(max_examples=5, phases=[Phase.generate])
@given(st.lists(st.recursive(_LEAVES, _grow, max_leaves=6), min_size=20, max_size=20))
def test_a_column_has_the_name_that_spark_gives_it(spark: SparkSession, made: list[_Made]) -> None:
    stamped = frame_of(spark, []).withColumn("s", sf.struct(sf.lit(1).alias("y")))
    theirs = stamped.agg(*(sf.count(column()) for column in made)).columns
    assert stamped.agg(*(pf.count(column()) for column in made)).columns == theirs


@pytest.mark.parametrize(
    "column",
    [
        lambda: sf.col("s")["y"],
        lambda: sf.from_json("t", "a int")["a"],
        lambda: sf.col("t").like("p%") | sf.col("t").rlike("p") | sf.col("t").startswith("'"),
        lambda: sf.col("t").try_cast("decimal(10,2)"),
        lambda: sf.split("t", ",")[0],
        lambda: sf.create_map(sf.lit("k"), sf.lit(1))["k"],
        lambda: sf.bitwise_not("n") + sf.col("n").bitwiseAND(3) - sf.lit(-1) ** 2,
        lambda: sf.expr("n"),
        lambda: sf.expr("*"),
        lambda: sf.col("*"),
    ],
)
def test_names_of_other_arguments(spark: SparkSession, column: _Made) -> None:
    frame = spark.sql("SELECT 1 AS n, 'p' AS t, named_struct('y', 2) AS s, 1.0D AS _weight")
    assert frame.agg(pf.count(column())).columns == frame.agg(sf.count(column())).columns


# --- what a user can mend ----------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(WEIGHTED))
def test_lost_stamps_are_said_in_words(spark: SparkSession, name: str) -> None:
    """Whether a select lost them or there never was a gate."""
    arguments: tuple[Any, ...] = ("flag",) if name == "count_if" else ("int",)
    arguments += ("double",) if name in TWO_COLUMNS else (0.5,) if name in WITH_SHARES else ()
    frame = frame_of(spark, []).select("g", "int", "double", "flag")
    with pytest.raises(AnalysisException, match="keep _weight and _sic in every select"):
        frame.groupBy("g").agg(getattr(pf, name)(*arguments))
    with pytest.raises(AnalysisException, match="or use the functions of pyspark"):
        frame.withColumn("over_weight", sf.lit(1.0)).select(getattr(pf, name)(*arguments))


def test_an_error_is_a_share(spark: SparkSession) -> None:
    del spark  # columns need a session
    with pytest.raises(
        PenstockError, match=r"^error must be above 0, such as 0.05 or '5%'; got 0$"
    ):
        pf.within("x", error=0)
    with pytest.raises(
        PenstockError, match=r"^error must be a share, such as 0.05 or '5%'; got 'a'"
    ):
        pf.within("x", error="a")

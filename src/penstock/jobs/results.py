"""Gives the result of a rewritten query the columns of plain SQL, and says how good they are.

What ``penstock.sql.rewrite`` gives has every row with its marks. This module observes the SIC of
all rows, then drops what plain SQL would not show (law 2), and gives columns the names and the
types that plain Spark gives them (law 6): a weighted sum of integers is an integer again. A column
says in its metadata (``penstock``) whether it is weighted, unscaled, or derived from estimates.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegralType, StructField, StructType

from penstock.spark.weighted_columns import completeness
from penstock.sql.relations import MARKS, MISSING, SHOWN, SIC, WEIGHT
from penstock.sql.rewrite import BOUND_SUFFIXES, Rewritten


def answer(
    spark: SparkSession,
    query: Rewritten,
    plain: StructType,
    observed: str | None = None,
    came: str | None = None,
) -> DataFrame:
    """Runs the rewritten query over its views; ``plain`` is the schema that it has without weights.

    ``observed`` names the metrics that tell a batch's result SIC, empty units included: the
    information that came (``sic``), the information that was meant to come (``meant``), the
    number of units, and the number of units that are not shown. ``came`` names a further column
    with the SIC that reached a row, which tells better than ``_sic`` where two runs of a query are
    compared: what never came is missing from it.
    """
    frame = _marked(spark, query, plain)
    if observed is not None:
        frame = frame.observe(
            observed,
            sf.sum(SIC).alias("sic"),
            sf.sum(sf.col(SIC) + sf.col(MISSING)).alias("meant"),
            sf.count(sf.lit(1)).alias("units"),
            sf.count_if(~sf.col(SHOWN)).alias("hidden"),
        )
    extra = [] if came is None else [sf.col(SIC).alias(came)]
    frame = frame.where(SHOWN).select(
        *_shown(query, plain), *_quality(query), *_ends(query, plain), *extra
    )
    if query.order:
        names = {
            column.name: field.name for column, field in zip(query.columns, plain, strict=False)
        }
        frame = frame.orderBy(*(_sorted(names.get(name, name), down) for name, down in query.order))
    return frame if query.limit is None else frame.limit(query.limit)


def derived_rows(spark: SparkSession, query: Rewritten, plain: StructType) -> DataFrame:
    """Runs a rewritten query for somebody who goes on with its rows: hidden ones and all marks."""
    marked = _marked(spark, query, plain)
    return marked.select(*_shown(query, plain), *_ends(query, plain), *MARKS)


def _marked(spark: SparkSession, query: Rewritten, plain: StructType) -> DataFrame:
    """Returns the columns by their places, those of intervals, and the marks."""
    ends = [f"_{end}" for end in _names_of_ends(query, plain)]
    named = [*(f"_{number}" for number in range(len(plain.fields))), *ends, *MARKS]
    whole = spark.sql(query.sql)
    return whole.toDF(*(f"_part_{i}" for i in range(query.atoms)), *named).select(
        *(f"`{name}`" for name in named)
    )


def _names_of_ends(query: Rewritten, plain: StructType) -> list[str]:
    shown = zip(query.columns, plain, strict=False)  # a star is no column, and has no bounds
    return [field.name + end for column, field in shown if column.bounds for end in BOUND_SUFFIXES]


def _shown(query: Rewritten, plain: StructType) -> list[Column]:
    kinds = dict(enumerate(column.kind for column in query.columns))
    return [
        _as_plain(sf.col(f"_{number}"), field, kinds.get(number, "plain"))
        for number, field in enumerate(plain)
    ]


def _ends(query: Rewritten, plain: StructType) -> list[Column]:
    return [sf.col(f"`_{end}`").alias(end) for end in _names_of_ends(query, plain)]


def _quality(query: Rewritten) -> list[Column]:
    """Estimates how complete an aggregate is; says what a tuple is worth, and stands for."""
    if query.aggregated:
        return [completeness(sf.col(SIC), sf.col(MISSING)).alias(SIC)]
    return [sf.col(SIC), sf.col(WEIGHT)]


def _sorted(name: str, descending: bool) -> Column:
    column = sf.col(f"`{name}`")
    return column.desc() if descending else column.asc()


def _as_plain(column: Column, field: StructField, kind: str) -> Column:
    """Gives a column plain Spark's name and type; its metadata says what became of an aggregate."""
    if isinstance(field.dataType, IntegralType):
        column = sf.when(column.isNotNull(), sf.round(column))
    column = column.cast(field.dataType)
    if kind == "plain":  # which may be the event time, whose metadata is Spark's
        return column.alias(field.name)
    return column.alias(field.name, metadata={"penstock": kind})

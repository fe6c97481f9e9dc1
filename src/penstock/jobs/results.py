"""Gives the result of a rewritten query the columns of plain SQL, and says how good they are.

What ``penstock.sql.rewrite`` gives has every row with its marks. This module observes the SIC of
all rows, then drops what plain SQL would not show (law 2), and gives columns the names and the
types that plain Spark gives them (law 6): a weighted sum of integers is an integer again. A column
says in its metadata (``penstock``) whether it is weighted, unscaled, or derived from estimates.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegralType, StructField, StructType

from penstock.sql.relations import MARKS, MEANT, SHOWN, SIC, WEIGHT
from penstock.sql.rewrite import HIGH_SUFFIX, LOW_SUFFIX, Rewritten


def answer(
    spark: SparkSession, query: Rewritten, plain: StructType, observed: str | None = None
) -> DataFrame:
    """Runs the rewritten query over its views; ``plain`` is the schema that it has without weights.

    ``observed`` names the metrics that tell a batch's result SIC, empty units included: the
    information that came (``sic``), the information that was meant to come (``meant``), the
    number of units, and the number of units that are not shown.
    """
    shown = zip(query.columns, plain, strict=False)  # a star is no column, and has no bounds
    ends = [
        field.name + end
        for column, field in shown
        if column.bounds
        for end in (LOW_SUFFIX, HIGH_SUFFIX)
    ]
    kinds = dict(enumerate(column.kind for column in query.columns))
    places = [f"_{number}" for number in range(len(plain.fields))]
    named = [*places, *(f"_{end}" for end in ends), *MARKS]
    whole = spark.sql(query.sql)
    frame = whole.toDF(*(f"_part_{i}" for i in range(query.atoms)), *named).select(
        *(f"`{name}`" for name in named)
    )
    if observed is not None:
        frame = frame.observe(
            observed,
            sf.sum(SIC).alias("sic"),
            sf.sum(MEANT).alias("meant"),
            sf.count(sf.lit(1)).alias("units"),
            sf.count_if(~sf.col(SHOWN)).alias("hidden"),
        )
    frame = frame.where(SHOWN).select(
        *(
            _as_plain(sf.col(place), field, kinds.get(number, "plain"))
            for number, (place, field) in enumerate(zip(places, plain, strict=True))
        ),
        *_quality(query),
        *(sf.col(f"`_{end}`").alias(end) for end in ends),
    )
    if query.order:
        names = {
            column.name: field.name for column, field in zip(query.columns, plain, strict=False)
        }
        frame = frame.orderBy(*(_sorted(names.get(name, name), down) for name, down in query.order))
    return frame if query.limit is None else frame.limit(query.limit)


def _quality(query: Rewritten) -> list[Column]:
    """Says how complete an aggregate is, or what a tuple is worth and how many it stands for."""
    if query.aggregated:
        return [sf.try_divide(SIC, MEANT).alias(SIC)]
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

"""Gives a fragment what it reads: the sources of its site and the links from other fragments.

Both go through gates of their own. A source carries its share of the query's SIC; the rows of a
link bring along what went into them.
"""

from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType, TimestampType

from penstock.errors import PenstockError
from penstock.federation.fragment_plan import (
    CARRIED,
    DERIVED_MARKS,
    PlannedFragment,
    SplitQuery,
    view_of,
)
from penstock.federation.link import LinkName, Links
from penstock.federation.messages import FragmentOrder
from penstock.federation.site_file import SiteFile
from penstock.jobs.inputs import arrival, behind, identity, read
from penstock.spark.site import Site
from penstock.sql import Rewritten

TICK = "_tick"
"""The column of a link that marks rows which only move its watermark: where a sender divides its
rows between receivers, one that gets none would not know how late it is."""
ARRIVED = "_arrived"
"""The column of a link that says since when the tuples behind a row had been waiting at most."""


class FragmentInputs:
    """Reads the sources and links of one fragment behind gates of a site."""

    def __init__(
        self, site: Site, file: SiteFile, directory: Path, links: Links, order: FragmentOrder
    ) -> None:
        self._site, self._spark = site, site.spark
        self._file, self._directory = file, directory
        self._links, self._order = links, order

    def sources(self, split: SplitQuery, fragment: PlannedFragment) -> DataFrame:
        """Returns the union of the fragment's sources, behind their gates."""
        gated = [self._source(name, split.declared, fragment) for name in fragment.sources]
        return reduce(lambda one, other: one.unionByName(other), gated)

    def link(self, split: SplitQuery, fragment: PlannedFragment, relation: str) -> DataFrame:
        """Returns the rows of a relation behind their gate, with the weight that it stamped.

        They have a watermark: a sender may be so late.
        """
        order = self._order
        name = LinkName(order.query.query, fragment.name, relation, order.replica)
        stream = self._links.read(self._spark, name, self._columns(fragment, relation))
        gated = self._site.gate(
            stream,
            query=order.query.query,
            source=f"{relation} of {fragment.name}",
            carries=CARRIED,
            arrival=ARRIVED,
        )
        time = split.time_of(fragment.name, relation) or first_timestamp(stream.schema)
        delay = f"{round(order.query.watermark * 1000)} milliseconds"
        rows = gated.drop(ARRIVED).withWatermark(time, delay)
        return self._links.once(_without_ticks(rows, time))

    def make_views(self, split: SplitQuery, fragment: PlannedFragment) -> None:
        """Makes the views through which a fragment with state reads."""
        for name in fragment.sources:
            frame = self._source(name, split.declared, fragment)
            _as_view(frame, view_of(split.query, fragment.name, name))
        for relation in fragment.inputs:
            frame = self.link(split, fragment, relation)
            _as_view(frame, view_of(split.query, fragment.name, relation))

    def plain_schema(self, rewritten: Rewritten, fragment: PlannedFragment) -> StructType:
        """Returns the columns of plain SQL's result, by running it over nothing."""
        tables = {name: source.columns for name, source in self._order.catalog.items()}
        for relation in fragment.inputs:
            hidden = (*DERIVED_MARKS.values(), ARRIVED, TICK)
            sent = self._spark.createDataFrame([], self._columns(fragment, relation))
            shown = sent.drop(*hidden).schema
            tables.setdefault(relation, columns_of(shown))
        for name, columns in tables.items():
            _as_view(self._spark.createDataFrame([], columns), name)
        return self._spark.sql(rewritten.plain).schema

    def _columns(self, fragment: PlannedFragment, relation: str) -> str:
        """Returns the columns of a link: all of its senders write the same."""
        return self._order.schemas[fragment.inputs[relation][0]]

    def _source(self, name: str, of_sources: int, fragment: PlannedFragment) -> DataFrame:
        entry = self._file.sources.get(name)
        if entry is None:
            raise PenstockError(f"the site {self._file.site!r} has no source {name!r}")
        stream = read(self._spark, entry, self._directory)
        gated = self._site.gate(
            stream,
            query=self._order.query.query,
            source=f"{name} of {fragment.name}",
            id=identity(stream, entry),
            arrival=arrival(stream, entry),
            of_sources=of_sources,
        )
        return behind(gated, entry)


def with_tick(some: DataFrame, rows: DataFrame, time: str) -> DataFrame:
    """Adds to some of a sender's rows one that has nothing but the latest time of all of them."""
    tick = rows.agg(sf.max(time).alias(time)).where(sf.col(time).isNotNull())
    marked = tick.withColumn(TICK, sf.lit(True))
    return some.unionByName(marked, allowMissingColumns=True)


def _without_ticks(rows: DataFrame, time: str) -> DataFrame:
    """Drops ticks behind the watermark that they have moved.

    The condition looks at the time, so that Spark does not move it in front of the watermark.
    """
    is_tick = sf.coalesce(sf.col(TICK), sf.lit(False))
    return rows.where(sf.when(is_tick, sf.col(time).isNull()).otherwise(sf.lit(True))).drop(TICK)


def columns_of(schema: StructType) -> str:
    """Returns the columns of a schema as CREATE TABLE has them.

    >>> columns_of(StructType().add("a", "integer").add("b", "double"))
    '`a` int, `b` double'
    """
    return ", ".join(map(_column, schema))


def _column(field: StructField) -> str:
    return f"`{field.name}` {field.dataType.simpleString()}"


def _as_view(frame: DataFrame, name: str) -> None:
    frame.createOrReplaceTempView(f"`{name}`")


def first_timestamp(schema: StructType) -> str:
    """Returns the column that is the event time of rows, where nobody says which."""
    for field in schema:
        if isinstance(field.dataType, TimestampType):
            return field.name
    raise PenstockError(
        "a fragment that others read, and a root with replicas, must have a timestamp among its "
        "columns, such as window.start AS ts"
    )

"""Who a tuple is to a gate: the query, source and group that it counts for, and its identity."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from zlib import crc32

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.core.types import OTHER_GROUPS, Stratum

SEPARATOR = "\x1f"
SALT = 0x5EED
"""So that decisions do not follow from hashes that the job itself may use."""


def salt_of(source: str) -> int:
    """A Java int, for a stream of this name."""
    return SALT ^ (crc32(source.encode()) >> 1)


@dataclass(frozen=True)
class Keys:
    """Where a tuple's query, source, group and identity are found."""

    query: Column | str
    source: Column | str
    strata: tuple[Column, ...]
    identity: tuple[Column, ...]

    @property
    def only(self) -> Stratum | None:
        """The stratum, where there is only one."""
        if self.strata or not self.same_value:
            return None
        return Stratum(str(self.query), str(self.source))

    @property
    def same_value(self) -> bool:
        """All tuples are worth the same: one query, one source."""
        return isinstance(self.query, str) and isinstance(self.source, str)

    @property
    def others(self) -> Stratum:
        """Stands for tuples that were not told apart; a name that is a column is left empty."""
        query, source = (n if isinstance(n, str) else "" for n in (self.query, self.source))
        return Stratum(query, source, OTHER_GROUPS)

    def may_be(self, stratum: Stratum) -> bool:
        """Whether tuples of this stream can be counted for it."""
        return all(
            isinstance(mine, Column) or its in (mine, "")
            for mine, its in ((self.query, stratum.query), (self.source, stratum.source))
        )

    def fingerprint(self) -> Column:
        """Of what varies in this stream; constants tell no tuples apart."""
        named = [_text(name) for name in (self.query, self.source) if isinstance(name, Column)]
        return sf.xxhash64(*_null_safe((*named, *self.strata)))

    def fingerprint_in(self, stream: DataFrame) -> Column | None:
        """The same for a stream further down; None where it has lost the columns."""
        if self.only is not None:
            return sf.lit(0).cast("bigint")
        try:
            stream.select(self.fingerprint())
        except AnalysisException:
            return None
        return self.fingerprint()

    def name(self, *before: Column) -> Column:
        """``before``, query, source and group; different strata have different names."""
        names = (_text(_column(self.query)), _text(_column(self.source)))
        parts = (*before, *names, group_name(self.strata))
        return sf.concat_ws(SEPARATOR, *parts)

    def draw(self, other: int = 0) -> Column:
        """Evenly spread over 63 bits, a function of the stream's name and the tuple's identity.

        Of the name, since tuples that are joined may have the same identity in both streams:
        the weight of a pair is the product of two weights only if they were decided apart. With
        an ``other`` number, another draw.
        """
        salt = sf.lit(salt_of(self.others.source) ^ other)
        return sf.shiftrightunsigned(sf.xxhash64(salt, *_null_safe(self.identity)), 1)


def group_name(columns: Sequence[Column]) -> Column:
    """Different groups have different names, whatever their columns hold."""
    return sf.concat_ws(",", *(_part(column, len(columns)) for column in columns))


def _column(value: Column | str) -> Column:
    return sf.lit(value) if isinstance(value, str) else value


def _text(column: Column) -> Column:
    return sf.coalesce(column.cast("string"), sf.lit(""))


def _part(column: Column, of: int) -> Column:
    """Of a group's name: null is ``\\N``, as in Hive, and what could be mistaken is escaped."""
    mistakable = r"([\\,])" if of > 1 else r"([\\])"
    escaped = sf.regexp_replace(column.cast("string"), mistakable, r"\\$1")
    return sf.coalesce(escaped, sf.lit(r"\N"))


def _null_safe(columns: Sequence[Column]) -> list[Column]:
    """A hash skips nulls, so that (null, a) and (a, null) would be one; say which is which."""
    if len(columns) < 2:
        return list(columns)
    nulls = reduce(
        lambda bits, pair: (
            bits + sf.when(pair[1].isNull(), sf.lit(2 ** pair[0])).otherwise(sf.lit(0))
        ),
        enumerate(columns),
        sf.lit(0),
    )
    return [*columns, nulls]

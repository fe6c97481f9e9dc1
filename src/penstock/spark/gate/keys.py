"""Tells which query, source and group a tuple counts for, and what its identity is."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from zlib import crc32

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.core.types import OTHER_GROUPS, Stratum

SEPARATOR = "\x1f"
HASH_SALT = 0x5EED
"""Keeps the gate's decisions independent of hashes that the job itself may use."""


def salt_of(source: str) -> int:
    """Returns the salt of a stream's hashes, a Java int made of the stream's name."""
    return HASH_SALT ^ (crc32(source.encode()) >> 1)


@dataclass(frozen=True)
class Keys:
    """Says where a tuple's query, source, group and identity are found."""

    query: Column | str
    source: Column | str
    strata: tuple[Column, ...]
    identity: tuple[Column, ...]

    @property
    def only(self) -> Stratum | None:
        """Returns the stratum, where the stream has only one."""
        if self.strata or not self.same_value:
            return None
        return Stratum(str(self.query), str(self.source))

    @property
    def same_value(self) -> bool:
        """Says whether all tuples are worth the same: one query, one source."""
        return isinstance(self.query, str) and isinstance(self.source, str)

    @property
    def others(self) -> Stratum:
        """Returns the stratum of tuples that were not told apart.

        Where the query or the source is a column, its name in this stratum is empty.
        """
        query, source = (n if isinstance(n, str) else "" for n in (self.query, self.source))
        return Stratum(query, source, OTHER_GROUPS)

    def may_be(self, stratum: Stratum) -> bool:
        """Says whether tuples of this stream can count for a stratum."""
        return all(
            isinstance(mine, Column) or its in (mine, "")
            for mine, its in ((self.query, stratum.query), (self.source, stratum.source))
        )

    def fingerprint(self) -> Column:
        """Hashes what varies in this stream; constants tell no tuples apart."""
        named = [_text(name) for name in (self.query, self.source) if isinstance(name, Column)]
        return sf.xxhash64(*_null_safe((*named, *self.strata)))

    def fingerprint_in(self, stream: DataFrame) -> Column | None:
        """Returns the fingerprint for a stream further down; None where it has lost the columns."""
        if self.only is not None:
            return sf.lit(0).cast("bigint")
        try:
            stream.select(self.fingerprint())
        except AnalysisException:
            return None
        return self.fingerprint()

    def name(self, *before: Column) -> Column:
        """Joins ``before``, query, source and group; different strata have different names."""
        names = (_text(_column(self.query)), _text(_column(self.source)))
        parts = (*before, *names, group_name(self.strata))
        return sf.concat_ws(SEPARATOR, *parts)

    def draw(self, other: int = 0) -> Column:
        """Returns a number that is spread evenly over 63 bits, made of stream and identity.

        The stream's name is part of it, since tuples that are joined may have the same identity in
        both streams: the weight of a pair is the product of two weights only if the gates decided
        apart. Each number ``other`` gives another draw.
        """
        salt = sf.lit(salt_of(self.others.source) ^ other)
        return sf.shiftrightunsigned(sf.xxhash64(salt, *_null_safe(self.identity)), 1)


def group_name(columns: Sequence[Column]) -> Column:
    """Names a group; different groups have different names, whatever their columns hold."""
    return sf.concat_ws(",", *(_part(column, len(columns)) for column in columns))


def _column(value: Column | str) -> Column:
    return sf.lit(value) if isinstance(value, str) else value


def _text(column: Column) -> Column:
    return sf.coalesce(column.cast("string"), sf.lit(""))


def _part(column: Column, of: int) -> Column:
    """Returns one part of a group's name: null is ``\\N``, as in Hive; separators are escaped."""
    mistakable = r"([\\,])" if of > 1 else r"([\\])"
    escaped = sf.regexp_replace(column.cast("string"), mistakable, r"\\$1")
    return sf.coalesce(escaped, sf.lit(r"\N"))


def _null_safe(columns: Sequence[Column]) -> list[Column]:
    """Adds a column that says which of the others are null.

    A hash skips nulls, so that (null, a) and (a, null) would be one.
    """
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

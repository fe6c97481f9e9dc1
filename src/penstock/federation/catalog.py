"""Looks up sources of sites in a catalog, and checks that those of one union fit together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from penstock.federation.messages import LentSource
from penstock.hints import hint
from penstock.sql import SqlError
from penstock.sql.grammar import Grammar, text

LONGEST_SHOWN_LETTERS = 200
"""Of columns that cannot be read, in the message."""


@dataclass(frozen=True)
class SiteSource:
    """Is a source of the catalog."""

    site: str
    source: str
    columns: tuple[tuple[str, str], ...]
    """Names and types."""
    time: str | None

    @property
    def name(self) -> str:
        """Its full name."""
        return f"{self.site}.{self.source}"


def full_name(catalog: Mapping[str, LentSource], parts: Sequence[str]) -> str:
    """Returns the name of the catalog for what stands behind FROM, in any case."""
    wanted = ".".join(parts)
    if len(parts) != 2:
        example = next(iter(catalog), "rome.machines")
        raise SqlError(f"{wanted}: sources are called site.source, such as {example}")
    spelt = {name.lower(): name for name in catalog}
    if wanted.lower() not in spelt:
        sites = {name.partition(".")[0].lower() for name in catalog}
        if not catalog:
            raise SqlError(f"unknown source {wanted!r}: no site lends any")
        lends = "" if parts[0].lower() in sites else f"; no site {parts[0]!r} lends anything"
        raise SqlError(f"unknown source {wanted!r}: {hint(wanted, catalog)}{lends}")
    return spelt[wanted.lower()]


def source_of(catalog: Mapping[str, LentSource], name: str, site: str) -> SiteSource:
    """Returns the source of a full name, of which the site is known."""
    lent = catalog[name]
    return SiteSource(
        name[: len(site)], name[len(site) + 1 :], columns_of(name, lent.columns), lent.time
    )


def columns_of(name: str, ddl: str) -> tuple[tuple[str, str], ...]:
    """Reads columns as in CREATE TABLE."""
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect=Grammar)
    except (sqlglot.errors.SqlglotError, RecursionError):
        shown = ddl[:LONGEST_SHOWN_LETTERS]
        raise SqlError(f"{name}: its columns must be as in CREATE TABLE; got {shown!r}") from None
    columns = [column for column in table.this.expressions if isinstance(column, exp.ColumnDef)]
    if any("`" in column.name for column in columns):  # it would end the name in our own SQL
        raise SqlError(f"{name}: the name of a column must not have a backquote in it")
    return tuple((column.name, text(column.args["kind"])) for column in columns)


def check_union(sources: Sequence[SiteSource]) -> None:
    """Refuses a union of sources whose columns or event times differ."""
    first, *others = sources
    for other in others:
        if _lower(first.time) != _lower(other.time):
            raise SqlError(
                f"{first.name} has the event time {first.time or '(none)'}, and {other.name} has "
                f"{other.time or '(none)'}: sources of a UNION ALL must have one; name it alike "
                "under 'columns' of the source"
            )
        mine, theirs = (_shape(source.columns) for source in (first, other))
        if mine != theirs:
            raise SqlError(
                f"{first.name} has the columns {_told(first)}, and {other.name} has "
                f"{_told(other)}: sources of a UNION ALL must have the same, in one order"
            )


def _shape(columns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name.lower(), kind.lower()) for name, kind in columns]


def _told(source: SiteSource) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in source.columns)


def _lower(name: str | None) -> str | None:
    return None if name is None else name.lower()

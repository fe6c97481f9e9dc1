"""Plans the fragments of a query that somebody has written out.

The SQL of a fragment reads sources of its site, ``machines`` or ``rome.machines``, and other
fragments by their names; ``FROM rome UNION ALL oslo`` lets both send through one link.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.federation.catalog import full_name
from penstock.federation.derived_rows import with_links_read
from penstock.federation.endings import check_ending
from penstock.federation.federated_sql import (
    FederatedSql,
    plain_text,
    read_sql,
    with_unions_written,
)
from penstock.federation.fragment_names import Names
from penstock.federation.fragment_order import in_order
from penstock.federation.fragment_plan import LINKS, PlannedFragment, SplitQuery, view_of
from penstock.federation.messages import LentSource
from penstock.federation.query_file import ANY_SITE, ROOT, FederatedQuery, FragmentEntry
from penstock.hints import hint
from penstock.sql import Source, SqlError
from penstock.sql.relations import inputs
from penstock.sql.rewrite import rewrite_tree


@dataclass(frozen=True)
class _Text:
    """Holds what the SQL of a fragment reads."""

    name: str
    site: str
    found: FederatedSql
    sources: tuple[str, ...]
    """Full names."""
    fragments: tuple[str, ...]


def split_written(query: FederatedQuery, catalog: Mapping[str, LentSource]) -> SplitQuery:
    """Plans each fragment; a mistake names the fragment."""
    entries = query.fragments or {}
    if query.partition is not None:
        raise SqlError("partition: only 'sql' is divided into copies, not fragments")
    if query.bounds is not None:
        raise SqlError(
            "bounds: fragments that are written out do not tell how sure their rows are; give "
            "'sql' instead, which Penstock splits, or leave 'bounds' out"
        )
    texts = {name: _read(name, entry, entries, catalog) for name, entry in entries.items()}
    order = in_order({name: each.fragments for name, each in texts.items()})
    times = {name: _time_of(name, entries[name], texts) for name in order}
    planned = tuple(_planned(query, texts[name], times, catalog) for name in order)
    declared = {source for each in texts.values() for source in each.sources}
    return SplitQuery(query.query, planned, len(declared))


def _read(
    name: str,
    entry: FragmentEntry,
    entries: Mapping[str, FragmentEntry],
    catalog: Mapping[str, LentSource],
) -> _Text:
    names = {each.lower(): each for each in entries}
    sites: dict[str, str] = {}

    def resolve(parts: Sequence[str]) -> str:
        wanted = ".".join(parts)
        qualified = list(parts) if len(parts) > 1 else [entry.site, *parts]
        is_source = ".".join(qualified).lower() in {source.lower() for source in catalog}
        if wanted.lower() in names and is_source:
            raise SqlError(f"{wanted} is a fragment and a source; rename the fragment")
        if wanted.lower() in names:
            return names[wanted.lower()]
        if len(parts) == 1 and not is_source:
            lent = [source for source in catalog if source.startswith(f"{entry.site}.")]
            raise SqlError(f"unknown table {wanted!r}: {hint(wanted, [*entries, *lent])}")
        source = full_name(catalog, qualified)
        sites[source] = source[: len(qualified[0])]
        return source

    try:
        found = read_sql(entry.sql, resolve)
    except SqlError as error:
        raise _of(name, error) from None
    sources = tuple(dict.fromkeys(read for read in found.reads if read in sites))
    site = _site_of(name, entry, [sites[source] for source in sources])
    fragments = tuple(dict.fromkeys(read for read in found.reads if read not in sites))
    if not found.reads:
        raise SqlError(f"fragments.{name}.sql: it reads no source and no fragment")
    return _Text(name, site, found, sources, fragments)


def _site_of(name: str, entry: FragmentEntry, sites: Sequence[str]) -> str:
    """Returns where a fragment has to run: where its sources are."""
    wanted = set(sites) if entry.site == ANY_SITE else {entry.site, *sites}
    if len({site.lower() for site in wanted}) > 1:
        raise SqlError(
            f"fragments.{name}: it cannot run at {' and '.join(sorted(wanted))}; let a fragment at "
            "each read the sources there, and send to this one"
        )
    return next(iter(wanted), ANY_SITE)


def _of(name: str, error: SqlError) -> SqlError:
    return SqlError(f"fragments.{name}.sql: {error}", error.line)


def _time_of(name: str, entry: FragmentEntry, texts: Mapping[str, _Text]) -> str | None:
    """Returns the event time of what a fragment sends: the column that readers window by."""
    if entry.time is not None or name == ROOT:
        return entry.time
    used = {
        column.lower(): column
        for reader in texts.values()
        for table, names in reader.found.tables.items()
        if name in names
        for column in _window_columns(reader.found.tree, table)
    }
    if len(used) > 1:
        raise SqlError(
            f"fragments.{name}: others window its rows by {' and '.join(used.values())}; give it "
            "'time', the column that is their event time"
        )
    return next(iter(used.values()), None)


def _window_columns(tree: exp.Query, table: str) -> list[str]:
    """Returns the columns of a table that a query has windows over."""
    columns = []
    for call in tree.find_all(exp.Anonymous):
        select = call.parent_select
        if str(call.this).lower() != "window" or not isinstance(select, exp.Select):
            continue
        there = [item.alias_or_name for item in inputs(select) if item.name == table]
        column = call.expressions[0] if call.expressions else None
        if there and isinstance(column, exp.Column) and column.table in ("", *there):
            columns.append(column.name)
    return columns


def _planned(
    query: FederatedQuery,
    written: _Text,
    times: Mapping[str, str | None],
    catalog: Mapping[str, LentSource],
) -> PlannedFragment:
    found = _with_links(written)
    names, links, sources = Names(set()), {}, {}
    for table, reads in found.tables.items():
        is_source = table in written.sources
        local = table[len(written.site) + 1 :] if is_source else reads[0]
        relation = names.new(LINKS if len(reads) > 1 else local)
        view = view_of(query.query, written.name, relation)
        time = catalog[table].time if is_source else times[reads[0]]
        sources[table] = Source(view, time, marked=not is_source)
        if not is_source:
            links[relation] = reads
    try:
        rewritten = rewrite_tree(found.tree.copy(), sources)
        check_ending(rewritten)
    except SqlError as error:
        raise _of(written.name, error) from None
    views = {source.view for source in sources.values() if source.marked}
    rewritten = replace(
        rewritten,
        plain=plain_text(rewritten.plain, found.tables),
        sql=with_links_read(rewritten.sql, views),
        sources=(*written.sources, *written.fragments),
    )
    return PlannedFragment(
        written.name,
        written.site,
        "written",
        tuple(source[len(written.site) + 1 :] for source in written.sources),
        links,
        rewritten=rewritten,
        time=times[written.name],
    )


def _with_links(written: _Text) -> FederatedSql:
    """Returns the query with a table for each link: unions that are none are written out."""
    found, links = written.found, set(written.fragments)
    apart = {
        table: reads
        for table, reads in found.tables.items()
        if len(reads) > 1 and (found.repeats or not set(reads) <= links)
    }
    return with_unions_written(found, apart)

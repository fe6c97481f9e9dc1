"""Forwards tuples to the root where a query cannot be computed from partial results."""

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from penstock.federation.catalog import SiteSource
from penstock.federation.derived_rows import with_links_read
from penstock.federation.federated_sql import FederatedSql, plain_text, with_unions_written
from penstock.federation.fragment_names import Names
from penstock.federation.fragment_plan import (
    BATCH,
    CARRIED,
    CARRIED_MISSING,
    LINKS,
    SENT_WEIGHT,
    PlannedFragment,
    view_of,
)
from penstock.federation.query_file import ANY_SITE, ROOT, FederatedQuery
from penstock.sql import Source
from penstock.sql.pieces import is_star
from penstock.sql.relations import SHOWN, SIC, WEIGHT
from penstock.sql.rewrite import rewrite_tree

_SENT = (
    f"{WEIGHT} AS {SENT_WEIGHT}",
    f"{SIC} AS {CARRIED}",
    f"{SIC} * ({WEIGHT} - 1.0D) AS {CARRIED_MISSING}",
    f"true AS {SHOWN}",
)


def forwarded(
    query: FederatedQuery, found: FederatedSql, unions: Mapping[str, list[SiteSource]]
) -> tuple[PlannedFragment, ...]:
    """Returns one leaf for each source, and a root that runs the query over what they send.

    The sources of a union share a link. Where a source is read twice each has its own.
    """
    if found.repeats:
        found = with_unions_written(found, {t: n for t, n in found.tables.items() if len(n) > 1})
        known = {source.name: source for union in unions.values() for source in union}
        unions = {table: [known[table]] for table in found.tables}
    relations = {
        table: LINKS if len(unions) == 1 else f"{LINKS}-{number + 1}"
        for number, table in enumerate(unions)
    }
    views = {table: view_of(query.query, ROOT, name) for table, name in relations.items()}
    whole = rewrite_tree(
        found.tree.copy(),
        {
            table: Source(views[table], sources[0].time, marked=True)
            for table, sources in unions.items()
        },
        confidence=query.bounds,
    )
    names, leaves, inputs = Names({ROOT}), [], {}
    needed = _names_in(found.tree)
    for table, sources in unions.items():
        made = [_leaf(source, needed, names) for source in sources]
        leaves += made
        inputs[relations[table]] = tuple(leaf.name for leaf in made)
    reads = tuple(source.name for sources in unions.values() for source in sources)
    whole = replace(
        whole,
        plain=plain_text(whole.plain, found.tables),
        sql=with_links_read(whole.sql, set(views.values())),
        sources=reads,
    )
    return (*leaves, PlannedFragment(ROOT, ANY_SITE, "merge", inputs=inputs, rewritten=whole))


def _leaf(source: SiteSource, needed: set[str] | None, names: Names) -> PlannedFragment:
    wanted = None if needed is None else {*needed, (source.time or "").lower()}
    columns = [name for name, _ in source.columns if wanted is None or name.lower() in wanted]
    items = [*(f"`{name}`" for name in columns), *_SENT]
    return PlannedFragment(
        names.new(f"{source.site}-{source.source}"),
        source.site,
        "forward",
        (source.source,),
        batch_sql=f"SELECT {', '.join(items)} FROM `{BATCH}`",
        time=source.time,
    )


def _names_in(tree: exp.Query) -> set[str] | None:
    """Returns all names in a query, which may be those of columns; None where it wants them all."""
    stars = (item for select in tree.find_all(exp.Select) for item in select.expressions)
    if any(is_star(item) for item in stars):
        return None
    return {str(name.this).lower() for name in tree.find_all(exp.Identifier)}

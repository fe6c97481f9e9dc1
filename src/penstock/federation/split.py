"""Cuts a federated query into fragments, each of which one site can run (THEMIS, section 5.2).

An aggregate over sources of several sites becomes partial results at each site, and a merge at the
root: a tree, or a chain if the query says so. What cannot be merged is forwarded, tuple by tuple.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.federation import written_fragments
from penstock.federation.catalog import SiteSource, check_union, full_name, source_of
from penstock.federation.copies import into_copies
from penstock.federation.endings import check_ending
from penstock.federation.federated_sql import FederatedSql, plain_text, read_sql
from penstock.federation.forwarding import forwarded
from penstock.federation.fragment_names import Names
from penstock.federation.fragment_plan import (
    BATCH,
    LINKS,
    TIME,
    PlannedFragment,
    SplitQuery,
    view_of,
)
from penstock.federation.messages import LentSource
from penstock.federation.query_file import ANY_SITE, ROOT, FederatedQuery
from penstock.sql import Source, SqlError
from penstock.sql.mergeable import UnmergeableError
from penstock.sql.partial import PartialQuery, cut
from penstock.sql.rewrite import rewrite_tree


def split(query: FederatedQuery, catalog: Mapping[str, LentSource]) -> SplitQuery:
    """Cuts a query; ``catalog`` has the sources that sites lend, as ``site.source``.

    Raises an ``SqlError`` that says what is wrong with the query.
    """
    if query.sql is None:
        return written_fragments.split_written(query, catalog)
    found, sources = _read(query.sql, catalog)
    unions = {table: [sources[name] for name in found.tables[table]] for table in found.tables}
    for union in unions.values():
        check_union(union)
    try:
        fragments, why = _merged(query, found, unions), None
    except UnmergeableError as error:
        fragments, why = forwarded(query, found, unions), str(error)
        if query.partition is not None:
            raise SqlError(f"partition: there are no groups to divide, since {why}") from None
    check_ending(fragments[-1].rewritten)
    return SplitQuery(query.query, fragments, len(set(found.reads)), why)


def _read(
    sql: str, catalog: Mapping[str, LentSource]
) -> tuple[FederatedSql, dict[str, SiteSource]]:
    sources: dict[str, SiteSource] = {}

    def resolve(parts: Sequence[str]) -> str:
        name = full_name(catalog, parts)
        sources[name] = source_of(catalog, name, parts[0])
        return name

    found = read_sql(sql, resolve)
    if not found.reads:
        raise SqlError("the query reads no source; FROM names one, such as rome.machines")
    return found, sources


@dataclass(frozen=True)
class _Branch:
    """Holds one union of sources, the link that its partial results take, and what runs."""

    relation: str
    sources: list[SiteSource]
    partial: PartialQuery


def _merged(
    query: FederatedQuery, found: FederatedSql, unions: Mapping[str, list[SiteSource]]
) -> tuple[PlannedFragment, ...]:
    """Returns the fragments of a query whose aggregates merge."""
    if found.repeats:
        raise UnmergeableError("a source is read more than once")
    times = {table: Source(table, sources[0].time) for table, sources in unions.items()}
    whole = rewrite_tree(found.tree.copy(), times, confidence=query.bounds, over_parts=True)
    relayed, branches = query.shape == "chain", []
    for number, table in enumerate(unions):
        relation = LINKS if len(unions) == 1 else f"{LINKS}-{number + 1}"
        link = view_of(query.query, ROOT, relation)
        whole, partial = cut(whole, table, link, BATCH, relayed=relayed)
        branches.append(_Branch(relation, unions[table], partial))
    whole = replace(whole, plain=plain_text(whole.plain, found.tables))
    whole = replace(whole, sources=tuple(found.reads))
    names, leaves, inputs = Names({ROOT}), [], {}
    for branch in branches:
        made = (_chain if relayed else _tree)(branch, names)
        leaves += made
        heard = {name for each in made for names in each.inputs.values() for name in names}
        inputs[branch.relation] = tuple(each.name for each in made if each.name not in heard)
    root = PlannedFragment(ROOT, ANY_SITE, "merge", inputs=inputs, rewritten=whole)
    if query.partition is None:
        return (*leaves, root)
    if len(branches) > 1:
        raise SqlError("partition: a query with several merges cannot be divided into copies")
    return into_copies(query, found.tree, leaves, root, branches[0].partial)


def _tree(branch: _Branch, names: Names) -> list[PlannedFragment]:
    """Returns a leaf for each site."""
    sites = dict.fromkeys(source.site for source in branch.sources)
    return [_leaf(branch, site, names) for site in sites]


def _leaf(branch: _Branch, site: str, names: Names) -> PlannedFragment:
    mine = tuple(source.source for source in branch.sources if source.site == site)
    leaf = branch.partial.leaf
    return PlannedFragment(names.new(site), site, "partial", mine, batch_sql=leaf, time=TIME)


def _chain(branch: _Branch, names: Names) -> list[PlannedFragment]:
    """Returns a leaf for each site and, behind the first, a relay that adds it to those before."""
    first, *others = _tree(branch, names)
    made, last = [first], first
    for leaf in others:
        last = PlannedFragment(
            names.new(f"{leaf.site}-relay"),
            leaf.site,
            "relay",
            inputs={LINKS: (last.name, leaf.name)},
            batch_sql=branch.partial.relay,
            time=TIME,
        )
        made += [leaf, last]
    return made

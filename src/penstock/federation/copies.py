"""Divides the groups of a merge among copies of it (thesis, section 4.4.2 and figure 4.5).

The leaves are the router: each sends a partial row to the copy that its group belongs to. The root
collects what the copies have.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.federation.derived_rows import with_links_read
from penstock.federation.fragment_names import Names
from penstock.federation.fragment_plan import LINKS, PlannedFragment, view_of
from penstock.federation.query_file import ANY_SITE, ROOT, FederatedQuery
from penstock.sql import Source, SqlError, rewrite
from penstock.sql.grammar import parse
from penstock.sql.partial import KEY_PREFIX, PartialQuery
from penstock.sql.selects import signature


def into_copies(
    query: FederatedQuery,
    tree: exp.Query,
    senders: Sequence[PlannedFragment],
    merge: PlannedFragment,
    partial: PartialQuery,
) -> tuple[PlannedFragment, ...]:
    """Returns the fragments with copies of the merge, and a root that collects."""
    assert query.partition is not None
    assert merge.rewritten is not None
    count = query.partition.copies
    key = f"{KEY_PREFIX}{_key_of(query.partition.by, tree, partial)}"
    routes = f"pmod(xxhash64({key}), {count})"
    names = Names({ROOT, *(sender.name for sender in senders)})
    copies = [_copy(query, merge, names.new(f"copy-{number}")) for number in range(count)]
    last = {name for names in merge.inputs.values() for name in names}
    routed = (replace(each, routes=routes) if each.name in last else each for each in senders)
    return (*routed, *copies, _collector(query, copies))


def _key_of(by: str, tree: exp.Query, partial: PartialQuery) -> int:
    """Returns the number of the group column that is meant."""
    try:
        wanted = parse(f"SELECT {by} FROM x").selects
    except SqlError:
        wanted = []
    aliases = {
        item.alias.lower(): signature(item.this)
        for select in tree.find_all(exp.Select)
        for item in select.expressions
        if item.alias
    }
    known = [signature(parse(f"SELECT {key} FROM x").selects[0]) for key in partial.keys]
    for found in {signature(item) for item in wanted[:1]}, {aliases.get(by.lower(), "")}:
        for name in found:
            if name in known:
                return known.index(name)
    there = f"there are {', '.join(partial.keys)}" if partial.keys else "there is none"
    raise SqlError(f"partition: by must be a column of GROUP BY; got {by!r}; {there}")


def _copy(query: FederatedQuery, merge: PlannedFragment, name: str) -> PlannedFragment:
    assert merge.rewritten is not None
    roots, own = (f"`{view_of(query.query, fragment, LINKS)}`" for fragment in (ROOT, name))
    sql = merge.rewritten.sql.replace(roots, own)
    return replace(merge, name=name, rewritten=replace(merge.rewritten, sql=sql))


def _collector(query: FederatedQuery, copies: Sequence[PlannedFragment]) -> PlannedFragment:
    """Returns the root that passes on what copies have found, under the same names."""
    result = copies[0].rewritten
    assert result is not None
    view = view_of(query.query, ROOT, LINKS)
    passed = rewrite(f"SELECT * FROM {LINKS}", {LINKS: Source(view, marked=True)})
    collected = replace(result, sql=with_links_read(passed.sql, {view}), atoms=0)
    inputs = {LINKS: tuple(copy.name for copy in copies)}
    return PlannedFragment(ROOT, ANY_SITE, "merge", inputs=inputs, rewritten=collected)

"""Rewrites plain SQL into SQL over gated streams.

Every relation of the rewritten query carries four columns more, its *marks*:

- ``_weight``: how many tuples a row stands for; 1 for the row of an aggregate,
- ``_sic`` and ``_missing``: the information that reached the row, and an estimate of what was shed
  of it, so that the share of the first is how complete it is; sums of both are conserved (law 2),
  also over sliding windows, which share them,
- ``_shown``: whether plain SQL would show the row.

A WHERE or HAVING drops no row: it is a condition on aggregates and part of ``_shown``, so that a
window whose tuples are all filtered out still has its SIC. ``penstock.jobs.results`` reads the
marks of a result first and drops rows then. There are three exceptions, where it could not: behind
a join and in front of sessions, which other tuples would make longer, conditions stay where they
are, and a query without aggregates keeps its WHERE (its gate has counted before).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from sqlglot import exp

from penstock import estimates as weighted
from penstock.estimates import JUST_ABOVE_ONE
from penstock.estimates_over_parts import over_parts
from penstock.sql import aggregates, cql
from penstock.sql.aggregates import SQL, Formula, call, enclosed, filtered, name_of
from penstock.sql.grammar import SqlError, parse, text
from penstock.sql.pieces import (
    all_of,
    atoms_of,
    guarded,
    has_aggregates,
    has_sessions,
    has_some,
    has_windows,
    inlined,
    is_star,
    multiplies,
    output_name,
    set_where,
    settle_groups,
    starred,
    streamable,
    tables_of,
    take_ending,
    unfiltered,
    where_of,
)
from penstock.sql.refuse import refuse
from penstock.sql.relations import Relation, Source, by_name, inputs
from penstock.sql.sliding import windows_of_tuple
from penstock.sql.stages import KeepingAlgebra

BOUND_SUFFIXES = ("_low", "_high", "_n", "_certified")
"""What the columns of an interval are called after: its ends, the effective number of tuples behind
it, and whether it may be trusted."""


@dataclass(frozen=True)
class Column:
    """Is a column of the result; ``kind`` is plain, weighted, unscaled or derived."""

    name: str
    kind: str
    bounds: bool = False


@dataclass(frozen=True)
class Rewritten:
    """Holds a query that was rewritten, and what its result looks like."""

    plain: str
    """The query as Spark would run it without Penstock."""
    sql: str
    """The same over gated streams, with marks."""
    columns: tuple[Column, ...]
    aggregated: bool
    """Whether rows of the result are made of many tuples."""
    windowed: bool
    """Whether it has time windows, so that its results become final."""
    sources: tuple[str, ...]
    atoms: int = 0
    """How many columns come first that the others are made of."""
    order: tuple[tuple[str, bool], ...] = ()
    """Columns to sort the result by, and whether they descend."""
    limit: int | None = None
    counted: cql.Counted | None = None
    """The table of windows of rows that it reads in place of a source, if it does; it is called
    so over the sources as they are, and ``counted_view`` behind their gates."""

    def counted_view(self, view: str) -> str:
        """Names the view of windows of rows over the view of their source."""
        assert self.counted is not None
        return f"{view}{self.counted.windows.text}"


def rewrite(
    query: str,
    sources: Mapping[str, Source],
    *,
    confidence: float | None = None,
    one_to_one: bool = False,
) -> Rewritten:
    """Rewrites a query over these sources; with a confidence, its result has intervals.

    ``one_to_one`` promises that no tuple of a join has more than one partner; intervals behind a
    join of streams are sound only then.
    """
    return rewrite_tree(parse(query), sources, confidence=confidence, one_to_one=one_to_one)


def rewrite_tree(
    query: exp.Query,
    sources: Mapping[str, Source],
    *,
    confidence: float | None = None,
    one_to_one: bool = False,
    over_parts: bool = False,
) -> Rewritten:
    """Rewrites a query that was parsed.

    With ``over_parts`` it is made of sums where it can be, with the error of parts shed whole in
    its intervals: it cannot be run before ``penstock.sql.partial`` has cut it.
    """
    counted = cql.counted(query)
    if counted is not None and over_parts:
        raise SqlError(f"{counted.name}: rows are counted at one site; a window of time has parts")
    tree = cql.expand(query, {name: source.time for name, source in sources.items()})
    known = _with_counted(sources, counted)
    used = refuse(tree, known)
    plain = text(tree)
    order, limit = take_ending(tree)
    made = _Rewriting(known, confidence, one_to_one, over_parts).of_query(tree.copy(), {}, top=True)
    _check_names(made.columns)
    if counted is not None:
        used = _named_once(used, counted, sources)
    return Rewritten(
        plain=plain,
        sql=text(made.tree),
        columns=tuple(made.columns),
        aggregated=made.estimates,
        windowed=has_windows(tree) or counted is not None,
        sources=tuple(used),
        atoms=made.atoms,
        order=order,
        limit=limit,
        counted=counted,
    )


def _with_counted(
    sources: Mapping[str, Source], counted: cql.Counted | None
) -> Mapping[str, Source]:
    """Returns the sources with the table of windows of rows, which is gated like its source."""
    if counted is None:
        return sources
    found = by_name(sources, counted.source)
    if not found.sampled:
        raise SqlError(f"{counted.name}: {counted.source} is no stream, so that no rows come")
    return {**sources, counted.name: Source(f"{found.view}{counted.windows.text}")}


def _named_once(
    used: Sequence[str], counted: cql.Counted, sources: Mapping[str, Source]
) -> list[str]:
    """Returns the sources that a query reads, where one is read in windows of rows."""
    names = {name.lower(): name for name in sources}
    if any(name != counted.name and sources[name].sampled for name in used):
        raise SqlError(f"{counted.name}: a query with a window of rows can read no other stream")
    return [names[counted.source.lower()] if name == counted.name else name for name in used]


def _check_names(columns: Sequence[Column]) -> None:
    """Refuses a column that has the name of a part of another's interval."""
    names = {column.name.lower() for column in columns}
    for column in columns:
        for suffix in BOUND_SUFFIXES if column.bounds else ():
            if (column.name + suffix).lower() in names:
                raise SqlError(
                    f"{column.name + suffix}: the interval of {column.name} has a column of this "
                    "name; give yours another one with AS"
                )


@dataclass
class _Made:
    """Holds a rewritten query, and what its rows are; see ``Relation``."""

    tree: exp.Query
    estimates: bool
    sampled: bool
    paired: bool
    columns: list[Column] = field(default_factory=list)
    atoms: int = 0


@dataclass(frozen=True)
class _Rewriting:
    sources: Mapping[str, Source]
    confidence: float | None
    one_to_one: bool
    over_parts: bool = False

    def of_query(self, tree: exp.Query, known: dict[str, _Made], *, top: bool = False) -> _Made:
        """Rewrites a query; ``known`` has the common tables around it."""
        known = dict(known)
        for common in tree.ctes:
            made = self.of_query(common.this, known)
            common.set("this", made.tree)
            known[common.alias.lower()] = made
        if isinstance(tree, exp.Subquery):
            made = self.of_query(tree.this, known, top=top)
            tree.set("this", made.tree)
            return replace(made, tree=tree)
        if isinstance(tree, exp.Union):
            return self._of_union(tree, known)
        assert isinstance(tree, exp.Select)
        return self._of_select(tree, known, top)

    def _of_union(self, tree: exp.Union, known: dict[str, _Made]) -> _Made:
        left, right = self.of_query(tree.left, known), self.of_query(tree.right, known)
        if left.estimates != right.estimates:
            raise SqlError("UNION ALL: one side has aggregates and the other has tuples")
        tree.set("this", left.tree)
        tree.set("expression", right.tree)
        twice = tables_of(left.tree) & tables_of(right.tree)
        return replace(left, tree=tree, paired=left.paired or right.paired or bool(twice))

    def _of_select(self, select: exp.Select, known: dict[str, _Made], top: bool) -> _Made:
        relations = [self._relation(item, known) for item in inputs(select)]
        if has_aggregates(select):
            return self._aggregated(select, relations, top)
        return self._tuples(select, relations, top)

    def _relation(self, item: exp.Expr, known: dict[str, _Made]) -> Relation:
        if isinstance(item, exp.Subquery):
            made = self.of_query(item.this, known)
            item.set("this", made.tree)
            return Relation.derived(item.alias, made.estimates, made.sampled, made.paired)
        assert isinstance(item, exp.Table)
        alias = item.alias_or_name
        if item.name.lower() in known:
            made = known[item.name.lower()]
            return Relation.derived(alias, made.estimates, made.sampled, made.paired)
        source = by_name(self.sources, item.name)
        item.set("this", exp.to_identifier(source.view, quoted=True))
        item.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        if source.marked:
            return Relation.derived(alias, estimates=False, sampled=True, paired=False)
        return Relation.stream(alias) if source.sampled else Relation.static(alias)

    # --- aggregates --------------------------------------------------------------------------

    def _aggregated(self, select: exp.Select, relations: Sequence[Relation], top: bool) -> _Made:
        marked = reduce(Relation.joined, relations).divided(windows_of_tuple(select))
        condition = all_of(where_of(select), marked.shown)
        if len(relations) > 1 or has_sessions(select):
            set_where(select, condition)
            condition = None
        else:
            select.set("where", None)
        settle_groups(select, condition)
        some = has_some(select, condition)
        marked = replace(marked, paired=marked.paired or multiplies(select))
        columns, items, extra = [], [], []
        for number, item in enumerate(select.expressions):
            column, value, ends = self._item(item, number, marked, condition, some, top)
            columns.append(column)
            items.append(value)
            extra += ends
        shown = all_of(some, self._having(select, marked, condition))
        select.set("having", None)
        answers = [*items, *extra, *marked.summed(shown)]
        atoms, answers = atoms_of(answers) if top else ([], answers)
        select.set("expressions", [*atoms, *answers])
        return _Made(select, True, marked.sampled, False, columns, len(atoms))

    def _having(
        self, select: exp.Select, marked: Relation, condition: exp.Expr | None
    ) -> exp.Expr | None:
        having = select.args.get("having")
        if having is None:
            return None
        return exp.paren(self._weighed(inlined(having.this, select), marked, condition))

    def _item(
        self,
        item: exp.Expr,
        number: int,
        marked: Relation,
        condition: exp.Expr | None,
        some: exp.Expr | None,
        top: bool,
    ) -> tuple[Column, exp.Expr, list[exp.Expr]]:
        name, body = output_name(item), item.unalias()
        value = self._weighed(body, marked, condition)
        kinds = {self._kind(node, marked) for node in body.walk() if name_of(node)}
        kind = next((k for k in ("unscaled", "derived", "weighted") if k in kinds), "plain")
        if kinds and some is not None and not name_of(unfiltered(body)[0]):
            value = call("if", some, value, exp.null())  # it may divide by a count
        rewritten = exp.alias_(value, name, quoted=True, copy=False)
        ends: list[exp.Expr] = []
        if top and self.confidence is not None and kind == "weighted":
            ends = self._ends(name, number, body, marked, condition)
        return Column(name, kind, bool(ends)), rewritten, ends

    def _kind(self, node: exp.Expr, marked: Relation) -> str:
        if not marked.sampled:
            return "plain"
        return "derived" if marked.estimates else aggregates.estimate(node, marked.weight)[1]

    def _ends(
        self,
        name: str,
        number: int,
        body: exp.Expr,
        marked: Relation,
        condition: exp.Expr | None,
    ) -> list[exp.Expr]:
        """Returns the columns of an interval, where the column is one aggregate alone."""
        aggregate, own = unfiltered(body)
        if name_of(aggregate) is None:
            return []
        found, _ = aggregates.estimate(aggregate, marked.weight)
        if found.variance is None:
            return []
        if marked.paired and not self.one_to_one:
            raise SqlError(
                "bounds: behind a join an interval is sound only if no tuple has more than one "
                "partner, and so in one row; if so, say one_to_one: true"
            )
        assert self.confidence is not None
        keeping = KeepingAlgebra(str(number))
        if self.over_parts:
            found = over_parts(keeping, found)
        assert found.size is not None
        low, high = weighted.bounds(SQL, found, self.confidence)
        scope = all_of(condition, own)
        ends = [filtered(end.node, scope) for end in (low, high, found.size)]
        shed = SQL.call("max", Formula(marked.weight)) > JUST_ABOVE_ONE
        trusted = filtered(weighted.certified(SQL, found).node, scope)
        ends.append(call("if", shed.node, trusted, exp.true()))
        kept = (exp.alias_(filtered(body, scope), at) for at, body in keeping.kept.items())
        named = zip(ends, BOUND_SUFFIXES, strict=True)
        shown = (exp.alias_(end, name + suffix, quoted=True, copy=False) for end, suffix in named)
        return [*kept, *shown]

    def _weighed(self, tree: exp.Expr, marked: Relation, condition: exp.Expr | None) -> exp.Expr:
        """Returns an expression with its aggregates in their weighted forms."""

        def weigh(node: exp.Expr) -> exp.Expr:
            found, own = unfiltered(node)
            if name_of(found) is None:
                return node
            if marked.estimates or not marked.sampled:
                value = streamable(found)
            else:
                value = self._value(aggregates.estimate(found, marked.weight)[0]).node
            return enclosed(filtered(value, all_of(condition, own)))

        return tree.transform(weigh)

    def _value(self, found: aggregates.Estimate) -> Formula:
        if self.over_parts and found.of_sums is not None:
            return found.of_sums
        return found.value

    # --- tuples --------------------------------------------------------------------------------

    def _tuples(self, select: exp.Select, relations: Sequence[Relation], top: bool) -> _Made:
        marked = reduce(Relation.joined, relations).divided(windows_of_tuple(select))
        condition = all_of(where_of(select), marked.shown)
        stays = len(relations) > 1 or (top and marked.shown is None)
        if stays:
            set_where(select, condition)
        else:
            select.set("where", None)
        guard = None if stays else condition
        items, columns = [], []
        for item in select.expressions:
            if is_star(item):
                items += starred(item, relations, select)
            else:
                columns.append(Column(output_name(item), "plain"))
                items.append(
                    exp.alias_(guarded(item.unalias(), guard), output_name(item), quoted=True)
                )
        marks = marked.passed(guard)
        select.set("expressions", [*items, *marks])
        paired = marked.paired or multiplies(select)
        return _Made(select, marked.estimates, marked.sampled, paired, columns)

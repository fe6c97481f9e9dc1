"""Plain SQL in, SQL over gated streams out.

Every relation of the rewritten query carries four columns more, its *marks*:

- ``_weight``: how many tuples a row stands for; 1 for the row of an aggregate,
- ``_sic`` and ``_meant``: the information that reached the row, and what was meant for it, so that
  their quotient is how complete it is; sums of both are conserved (law 2),
- ``_shown``: whether plain SQL would show the row.

A WHERE or HAVING drops no row: it is a condition on aggregates and part of ``_shown``, so that a
window whose tuples are all filtered out still has its SIC. Whoever reads the result looks at the
marks first and drops then (``penstock.spark.answers``). Two exceptions, where nobody downstream
could look: behind a join conditions stay where they are, and a query without aggregates keeps its
WHERE (its gate has counted before).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from sqlglot import exp

from penstock import weighted
from penstock.sql import aggregates, cql
from penstock.sql.aggregates import SQL, call, enclosed, filtered, is_aggregate, name_of
from penstock.sql.grammar import SqlError, parse, text
from penstock.sql.refuse import refuse
from penstock.sql.relations import Relation, Source, by_name, inputs

LOW, HIGH, ATOM = "_low", "_high", "part_"


@dataclass(frozen=True)
class Column:
    """A column of the result. ``kind`` is plain, weighted, unscaled or derived (of estimates)."""

    name: str
    kind: str
    bounds: bool = False


@dataclass(frozen=True)
class Rewritten:
    plain: str
    """The query as Spark would run it without Penstock."""
    sql: str
    """The same over gated streams, with marks."""
    columns: tuple[Column, ...]
    aggregated: bool
    """Whether rows of the result are made of many tuples."""
    sources: tuple[str, ...]
    atoms: int = 0
    """How many columns come first that the others are made of."""
    order: tuple[tuple[str, bool], ...] = ()
    """Columns to sort the result by, and whether they descend."""
    limit: int | None = None


def rewrite(
    query: str,
    sources: Mapping[str, Source],
    *,
    confidence: float | None = None,
    one_to_one: bool = False,
) -> Rewritten:
    """Rewrites a query over these sources; with a confidence, with intervals.

    ``one_to_one`` promises that no tuple of a join has more than one partner; intervals behind a
    join of streams are sound only then.
    """
    tree = cql.expand(parse(query), {name: source.time for name, source in sources.items()})
    used = refuse(tree, sources)
    plain = text(tree)
    order, limit = _ending(tree)
    made = _Rewriting(sources, confidence, one_to_one).of_query(tree.copy(), {}, top=True)
    return Rewritten(
        plain=plain,
        sql=text(made.tree),
        columns=tuple(made.columns),
        aggregated=made.estimates,
        sources=tuple(used),
        atoms=made.atoms,
        order=order,
        limit=limit,
    )


@dataclass
class _Made:
    """A rewritten query, and what its rows are; see ``Relation``."""

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

    def of_query(self, tree: exp.Query, known: dict[str, _Made], *, top: bool = False) -> _Made:
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
        twice = _tables(left.tree) & _tables(right.tree)
        return replace(left, tree=tree, paired=left.paired or right.paired or bool(twice))

    def _of_select(self, select: exp.Select, known: dict[str, _Made], top: bool) -> _Made:
        relations = [self._relation(item, known) for item in inputs(select)]
        if _aggregates(select):
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
        return Relation.stream(alias) if source.sampled else Relation.static(alias)

    # --- aggregates --------------------------------------------------------------------------

    def _aggregated(self, select: exp.Select, relations: Sequence[Relation], top: bool) -> _Made:
        marked = reduce(Relation.joined, relations)
        condition = _all(_where(select), marked.shown)
        if len(relations) > 1:
            _keep_where(select, condition)
            condition = None
        else:
            select.set("where", None)
        some = _some(select, condition)
        marked = replace(marked, paired=marked.paired or _multiplies(select))
        columns, items, extra = [], [], []
        for item in select.expressions:
            column, value, ends = self._item(item, marked, condition, some, top)
            columns.append(column)
            items.append(value)
            extra += ends
        shown = _all(some, self._having(select, marked, condition))
        select.set("having", None)
        answers = [*items, *extra, *marked.summed(shown)]
        atoms, answers = _atoms(answers) if top else ([], answers)
        select.set("expressions", [*atoms, *answers])
        return _Made(select, True, marked.sampled, False, columns, len(atoms))

    def _having(
        self, select: exp.Select, marked: Relation, condition: exp.Expr | None
    ) -> exp.Expr | None:
        having = select.args.get("having")
        if having is None:
            return None
        return exp.paren(self._weighed(_inlined(having.this, select), marked, condition))

    def _item(
        self,
        item: exp.Expr,
        marked: Relation,
        condition: exp.Expr | None,
        some: exp.Expr | None,
        top: bool,
    ) -> tuple[Column, exp.Expr, list[exp.Expr]]:
        name, body = _name(item), item.unalias()
        value = self._weighed(body, marked, condition)
        kinds = {self._kind(node, marked) for node in body.walk() if name_of(node)}
        kind = next((k for k in ("unscaled", "derived", "weighted") if k in kinds), "plain")
        if kinds and some is not None and not name_of(_call(body)[0]):
            value = call("if", some, value, exp.null())  # it may divide by a count
        rewritten = exp.alias_(value, name, quoted=True)
        ends: list[exp.Expr] = []
        if top and self.confidence is not None and kind == "weighted":
            ends = self._ends(name, body, marked, condition)
        return Column(name, kind, bool(ends)), rewritten, ends

    def _kind(self, node: exp.Expr, marked: Relation) -> str:
        if not marked.sampled:
            return "plain"
        return "derived" if marked.estimates else aggregates.estimate(node, marked.weight)[1]

    def _ends(
        self,
        name: str,
        body: exp.Expr,
        marked: Relation,
        condition: exp.Expr | None,
    ) -> list[exp.Expr]:
        """``name_low`` and ``name_high``, where the column is one aggregate and nothing else."""
        aggregate, own = _call(body)
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
        low, high = weighted.bounds(SQL, found, self.confidence)
        scope = _all(condition, own)
        return [
            exp.alias_(filtered(end.node, scope), name + suffix, quoted=True)
            for end, suffix in ((low, LOW), (high, HIGH))
        ]

    def _weighed(self, tree: exp.Expr, marked: Relation, condition: exp.Expr | None) -> exp.Expr:
        """An expression with its aggregates in their weighted forms."""

        def weigh(node: exp.Expr) -> exp.Expr:
            found, own = _call(node)
            if name_of(found) is None:
                return node
            if marked.estimates or not marked.sampled:
                value = _streamable(found)
            else:
                value = aggregates.estimate(found, marked.weight)[0].value.node
            return enclosed(filtered(value, _all(condition, own)))

        return tree.copy().transform(weigh)

    # --- tuples --------------------------------------------------------------------------------

    def _tuples(self, select: exp.Select, relations: Sequence[Relation], top: bool) -> _Made:
        marked = reduce(Relation.joined, relations)
        condition = _all(_where(select), marked.shown)
        stays = len(relations) > 1 or (top and marked.shown is None)
        if stays:
            _keep_where(select, condition)
        else:
            select.set("where", None)
        guard = None if stays else condition
        items, columns = [], []
        for item in select.expressions:
            if _is_star(item):
                items += _starred(item, relations, select)
            else:
                columns.append(Column(_name(item), "plain"))
                items.append(exp.alias_(_guarded(item.unalias(), guard), _name(item), quoted=True))
        marks = marked.passed(guard)
        select.set("expressions", [*items, *marks])
        paired = marked.paired or _multiplies(select)
        return _Made(select, marked.estimates, marked.sampled, paired, columns)


# --- small things --------------------------------------------------------------------------------


def _aggregates(select: exp.Select) -> bool:
    if select.args.get("group"):
        return True
    parts = [*select.expressions, *([select.args["having"]] if select.args.get("having") else [])]
    return any(name_of(node) for part in parts for node in part.walk())


def _multiplies(select: exp.Select) -> bool:
    """Whether it makes several rows of one."""
    return bool(select.args.get("laterals")) or any(
        str(node.this).lower() in ("explode", "posexplode", "inline", "stack")
        for node in select.find_all(exp.Anonymous)
    )


def _tables(tree: exp.Expr) -> set[str]:
    return {table.name.lower() for table in tree.find_all(exp.Table)}


def _some(select: exp.Select, condition: exp.Expr | None) -> exp.Expr | None:
    """Whether a group has a tuple that meets the condition; None where it must have."""
    if condition is None or not select.args.get("group"):
        return None
    count = exp.Anonymous(this="count", expressions=[exp.Star()])
    return exp.GT(this=filtered(count, condition), expression=exp.convert(0))


def _call(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """A call and the condition of its FILTER, if any."""
    if isinstance(node, exp.Filter):
        return node.this, node.expression.this
    return node, None


def _streamable(aggregate: exp.Expr) -> exp.Expr:
    """An aggregate of estimates: as it is, but Spark has no DISTINCT on streams."""
    if aggregates.is_distinct(aggregate):
        return aggregates.estimate(aggregate, exp.convert(1))[0].value.node
    return aggregate.copy()


def _atoms(items: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Each aggregate once, under a name, and what is made of them.

    Formulas repeat their sums; Spark optimizes the query again for every micro-batch.
    """
    names: dict[str, str] = {}
    atoms: list[exp.Expr] = []

    def named(node: exp.Expr) -> exp.Expr:
        aggregate = node.this if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) else node
        if not is_aggregate(_call(aggregate)[0]):
            return node
        key = text(node)
        if key not in names:
            names[key] = f"_{ATOM}{len(names)}"
            atoms.append(exp.alias_(node.copy(), names[key]))
        return exp.column(names[key])

    return atoms, [item.transform(named) for item in items]


def _all(*conditions: exp.Expr | None) -> exp.Expr | None:
    """All of them, as one condition."""
    there = [condition.copy() for condition in conditions if condition is not None]
    return exp.and_(*there) if there else None


def _where(select: exp.Select) -> exp.Expr | None:
    where = select.args.get("where")
    return where.this if where else None


def _keep_where(select: exp.Select, condition: exp.Expr | None) -> None:
    select.set("where", exp.Where(this=condition) if condition is not None else None)


def _inlined(having: exp.Expr, select: exp.Select) -> exp.Expr:
    """HAVING with names of the result replaced by what they stand for."""
    named = {item.alias.lower(): item.this for item in select.expressions if item.alias}

    def inline(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in named:
            return exp.paren(named[node.name.lower()].copy())
        return node

    return having.copy().transform(inline)


def _name(item: exp.Expr) -> str:
    """What Spark would call it, or nearly; answers get Spark's own names in the end."""
    named = isinstance(item, exp.Alias | exp.Column | exp.Dot)
    return item.alias_or_name if named else text(item)


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (
        isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    )


def _starred(item: exp.Expr, relations: Sequence[Relation], select: exp.Select) -> list[exp.Expr]:
    """``*`` without marks."""
    if isinstance(item, exp.Star) and (item.args.get("except_") or item.args.get("replace")):
        raise SqlError("* EXCEPT and * REPLACE: name the columns instead")
    table = item.args.get("table")
    if table is None and any(join.args.get("using") for join in select.args.get("joins") or []):
        raise SqlError("SELECT * over JOIN ... USING: name the columns instead")
    wanted = [r for r in relations if table is None or r.alias.lower() == table.name.lower()]
    return [_star_of(relation) for relation in wanted]


def _star_of(relation: Relation) -> exp.Expr:
    hidden = [exp.to_identifier(name) for name in relation.marks]
    star = exp.Star(except_=hidden) if hidden else exp.Star()
    if not relation.alias:
        return star
    return exp.Column(this=star, table=exp.to_identifier(relation.alias))


def _guarded(body: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """Not computed for a row that is not shown: it may be what the condition protects from."""
    if condition is None or isinstance(body, exp.Column | exp.Literal | exp.Dot):
        return body.copy()
    if isinstance(body, exp.Anonymous) and str(body.this).lower() in ("window", "explode"):
        return body.copy()
    return call("if", condition, body, exp.null())


def _ending(tree: exp.Query) -> tuple[tuple[tuple[str, bool], ...], int | None]:
    """Takes ORDER BY and LIMIT off: they come last, after rows that are not shown have gone."""
    order, limit = tree.args.get("order"), tree.args.get("limit")
    names = [_name(item) for item in tree.selects]
    terms = []
    for term in order.expressions if order else []:
        body = term.this
        if isinstance(body, exp.Literal) and body.is_int and 0 < int(body.this) <= len(names):
            name = names[int(body.this) - 1]
        else:
            name = body.name if isinstance(body, exp.Column) else text(body)
        if name not in names:
            raise SqlError(f"ORDER BY {text(body)}: sort by a column of the result")
        terms.append((name, bool(term.args.get("desc"))))
    tree.set("order", None)
    tree.set("limit", None)
    if limit is None:
        return tuple(terms), None
    if not (isinstance(limit.expression, exp.Literal) and limit.expression.is_int):
        raise SqlError("LIMIT: expected a whole number")
    return tuple(terms), int(limit.expression.this)

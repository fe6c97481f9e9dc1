"""Cuts a rewritten aggregate into partial results for each micro-batch, and their merge.

``rewrite`` has made every answer of a SELECT out of a few aggregates. A *leaf* computes these for
the tuples of one batch: a row for each group and *pane*, the greatest common divisor of a window's
length and slide, so that sliding windows can be put together. A *relay* merges rows of one batch.
The *merge* does so for windows, and computes the answers.

The SIC of a pane's tuples goes into as many windows as each of them would, with an even share.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd

from sqlglot import exp

from penstock.estimates_over_parts import BETWEEN, BETWEEN_FOURTH
from penstock.sql.aggregates import Formula, call
from penstock.sql.grammar import parse_rewritten, text
from penstock.sql.mergeable import Merge, UnmergeableError, merge_of
from penstock.sql.pieces import ATOM_PREFIX, GROUPINGS, atoms_of
from penstock.sql.relations import MISSING, SIC, WEIGHT
from penstock.sql.rewrite import Rewritten
from penstock.sql.selects import aggregate_over, local, signature
from penstock.sql.sliding import span_of, windows_of_tuple
from penstock.sql.stages import KEPT_PREFIX, in_stages

PART_TIME, KEY_PREFIX, BETWEEN_PREFIX = "_time", "_key_", "_between_"
CARRIED, CARRIED_MISSING = "_carried", "_carried_missing"
INFORMATION = (CARRIED, CARRIED_MISSING)
"""The columns of a partial row that say what information went into it."""


@dataclass(frozen=True)
class PartialQuery:
    """Holds what leaves and relays run; both read one view, whose name is in the text."""

    leaf: str
    relay: str
    keys: tuple[str, ...]
    """What the columns ``_key_0`` ... hold, as SQL over the tuples."""


def cut(
    found: Rewritten, view: str, link: str, batch: str, *, relayed: bool = False
) -> tuple[Rewritten, PartialQuery]:
    """Cuts the aggregate over a view; it is read through the view ``link`` of partial rows then.

    ``found`` was rewritten ``over_parts``. ``batch`` is the view that leaves and relays read.
    Where rows are ``relayed``, they carry what intervals need of weights on the way.
    """
    tree = parse_rewritten(found.sql)
    select = aggregate_over(tree, view)
    on_top = select is tree
    made = _Cut.of(select, link, batch, relayed)
    merged = made.merge()
    if on_top:
        return replace(found, sql=text(merged), atoms=0), made.partial()
    select.replace(merged)
    return replace(found, sql=text(tree)), made.partial()


@dataclass(frozen=True)
class _Cut:
    """Holds the parts of one aggregate: its groups, its aggregates, and what is made of them."""

    select: exp.Select
    window: exp.Expr
    keys: list[exp.Expr]
    merges: list[Merge]
    answers: list[exp.Expr]
    between: list[exp.Expr]
    """Products of sums, over columns of a partial row."""
    link: str
    batch: str
    relayed: bool

    @classmethod
    def of(cls, select: exp.Select, link: str, batch: str, relayed: bool) -> "_Cut":
        """Finds the parts of a SELECT."""
        select = local(select)
        window, keys = _groups(select)
        groups = {f"{KEY_PREFIX}{number}": key for number, key in enumerate(keys)}
        groups["window"] = window
        atoms, answers = atoms_of(_answers(select))
        answers = [_named_groups(answer, groups) for answer in answers]
        merges = [merge_of(atom.this, f"{ATOM_PREFIX}{i}") for i, atom in enumerate(atoms)]
        told = {f"{ATOM_PREFIX}{i}": merge.told for i, merge in enumerate(merges)}
        between, answers = _between(answers)
        answers = [answer.transform(_swap, told) for answer in answers]
        return cls(select, window, keys, merges, answers, between, link, batch, relayed)

    def partial(self) -> PartialQuery:
        keys = tuple(text(key) for key in self.keys)
        return PartialQuery(text(self._leaf()), text(self._relay()), keys)

    def _leaf(self) -> exp.Expr:
        time = self.window.expressions[0]
        leaf = self.select.copy()
        (table,) = _tables(leaf)
        table.set("this", exp.to_identifier(self.batch, quoted=True))
        derived = table.parent_select is not leaf
        missing = _column(MISSING) if derived else _column(SIC) * (_column(WEIGHT) - 1.0)
        values = [
            *zip(self._key_names(), self.keys, strict=True),
            *((f"{ATOM_PREFIX}{i}", merge.leaf) for i, merge in enumerate(self.merges)),
            *((name, exp.cast(exp.convert(0.0), "double")) for name in self._between_names()),
            (CARRIED, call("sum", exp.column(SIC))),
            (CARRIED_MISSING, call("sum", missing.node)),
        ]
        leaf.set(
            "expressions", [_as(call("max", time), PART_TIME), *(_as(b, n) for n, b in values)]
        )
        leaf.set("group", exp.Group(expressions=[self._pane(time), *_copies(self.keys)]))
        leaf.set("having", None)
        return leaf

    def _relay(self) -> exp.Expr:
        time, keys = exp.column(PART_TIME), self._key_columns()
        values = [*self._merged(), *self._information(None)]
        relay = exp.select(_as(call("max", time), PART_TIME), *keys, *values)
        group = exp.Group(expressions=[self._pane(time), *_copies(keys)])
        relay.set("group", group)
        return relay.from_(exp.to_table(f"`{self.batch}`", dialect="spark"))

    def merge(self) -> exp.Select:
        """Returns the SELECT over partial rows that has the answers."""
        window = self.window.copy()
        window.expressions[0].replace(exp.column(PART_TIME))
        keys = self._key_columns()
        inner = exp.select("window", *keys)
        inner.set("group", exp.Group(expressions=[window, *_copies(keys)]))
        windows = windows_of_tuple(inner)
        inner.set("expressions", [*inner.expressions, *self._merged(), *self._information(windows)])
        inner = inner.from_(exp.to_table(f"`{self.link}`", dialect="spark"))
        kept = {item.alias: item.this for item in self.answers if _is_kept(item)}
        answers = [item for item in self.answers if not _is_kept(item)]
        return in_stages(answers, kept, inner)

    def _merged(self) -> Iterator[exp.Expr]:
        for number, merge in enumerate(self.merges):
            yield _as(merge.merged.copy(), f"{ATOM_PREFIX}{number}")
        for number, product in enumerate(self.between):
            name = f"{BETWEEN_PREFIX}{number}"
            here = Formula(call("coalesce", product, exp.convert(0.0)))
            before = _column(WEIGHT) * _column(name)
            yield _as(call("sum", (before + here if self.relayed else here).node), name)

    def _information(self, windows: exp.Expr | None) -> Iterator[exp.Expr]:
        """Returns the information of merged rows: rows that were shed had as much as those here."""
        carried, missing = _column(CARRIED), _column(CARRIED_MISSING)
        shed = missing + (_column(WEIGHT) - 1.0) * (carried + missing)
        for name, value in zip(INFORMATION, (carried, shed), strict=True):
            share = value if windows is None else value / Formula(windows)
            yield _as(call("sum", share.node), name)

    def _pane(self, time: exp.Expr) -> exp.Expr:
        length, slide, start = span_of(self.window)
        pane = gcd(length, slide) or length
        spans = [f"{number} microseconds" for number in (pane, pane, start % pane)]
        return call("window", time, *(exp.Literal.string(span) for span in spans))

    def _key_names(self) -> list[str]:
        return [f"{KEY_PREFIX}{number}" for number in range(len(self.keys))]

    def _key_columns(self) -> list[exp.Expr]:
        return [exp.column(name) for name in self._key_names()]

    def _between_names(self) -> list[str]:
        count = len(self.between) if self.relayed else 0
        return [f"{BETWEEN_PREFIX}{number}" for number in range(count)]


def _column(name: str) -> Formula:
    return Formula(exp.column(name))


def _as(body: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(body, name)


def _copies(nodes: list[exp.Expr]) -> list[exp.Expr]:
    return [node.copy() for node in nodes]


def _tables(tree: exp.Expr) -> list[exp.Table]:
    return list(tree.find_all(exp.Table))


def _is_kept(item: exp.Expr) -> bool:
    return item.alias.startswith(KEPT_PREFIX)


def _groups(select: exp.Select) -> tuple[exp.Expr, list[exp.Expr]]:
    """Returns the window that a SELECT groups by, and the rest of its groups."""
    group = select.args.get("group")
    if group is None or group.find(*GROUPINGS):
        raise UnmergeableError("only GROUP BY of a window and columns is merged")
    windows: list[exp.Expr] = []
    keys: list[exp.Expr] = []
    for term in group.expressions:
        is_window = isinstance(term, exp.Anonymous) and str(term.this).lower() == "window"
        (windows if is_window else keys).append(term)
    if len(windows) != 1 or len(windows[0].expressions) < 2:
        raise UnmergeableError("only GROUP BY window(time, '1 second') is merged")
    if any(str(key.this).lower() == "session_window" for key in keys):
        raise UnmergeableError("sessions, which batches cut, cannot be merged")
    return windows[0], keys


def _answers(select: exp.Select) -> list[exp.Expr]:
    """Returns the columns of a SELECT without its aggregates' own, with the merge's information."""
    bodies = {item.alias: item.this for item in select.expressions}
    own = [item for item in select.expressions if not item.alias.startswith(ATOM_PREFIX)]
    information = {SIC: CARRIED, MISSING: CARRIED_MISSING}
    answers = []
    for item in own:
        if item.alias in information:
            value = call("double", exp.column(information[item.alias]))
            answers.append(_as(value, item.alias))
        else:
            answers.append(item.transform(_swap, bodies))
    return answers


def _swap(node: exp.Expr, bodies: dict[str, exp.Expr]) -> exp.Expr:
    """Replaces the name of an aggregate by what it stands for."""
    if isinstance(node, exp.Column) and node.name.startswith(ATOM_PREFIX) and node.name in bodies:
        return bodies[node.name].copy()
    return node


def _named_groups(answer: exp.Expr, groups: dict[str, exp.Expr]) -> exp.Expr:
    """Returns an answer in which groups have the names that the merge gives them."""
    names = {signature(group): name for name, group in groups.items()}
    looks = {_look(group) for group in groups.values()}

    def named(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Identifier) or _look(node) not in looks:
            return node
        name = names.get(signature(node))
        return node if name is None else exp.column(name)

    return answer.transform(named)


def _look(node: exp.Expr) -> tuple[type[exp.Expr], str]:
    """Returns what is seen at once: where it differs, a signature, which takes long, does too."""
    return type(node), str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def _between(answers: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Returns the products of sums over parts, each once, and answers that have their names."""
    weight = _column(WEIGHT)
    extra = weight * (weight - 1.0)
    names: dict[str, str] = {}
    products: list[exp.Expr] = []

    def named(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Anonymous) or node.this not in (BETWEEN, BETWEEN_FOURTH):
            return node
        key = text(node)
        if key not in names:
            names[key] = f"{BETWEEN_PREFIX}{len(names)}"
            factors = [Formula(factor) for factor in node.expressions]
            if node.this == BETWEEN:
                product = extra * factors[0] * factors[1]
            else:
                square = extra * factors[0] * factors[0]
                product = square * square
            products.append(product.node)
        return exp.column(names[key])

    return products, [answer.transform(named) for answer in answers]

"""Lists what becomes of each aggregate: weighted, passed as it is, or refused.

A rewriting is one small function. It takes the call and the weight of a tuple, and returns an
estimate.
"""

from collections.abc import Callable, Sequence

from sqlglot import exp

from penstock import estimates as weighted
from penstock.estimates import Weighted
from penstock.sql.grammar import SqlError, text


class Formula:
    """Is an expression that arithmetic puts into brackets, so that it means what it looks like.

    Formulas share their parts, and nodes of a query cannot: so it makes its nodes when it is asked
    for them. To copy them at each step of a formula took most of the time of a rewriting.
    """

    def __init__(self, made: exp.Expr | Callable[[], exp.Expr]) -> None:
        self._made = made

    @property
    def node(self) -> exp.Expr:
        """The expression, in nodes that nothing else has."""
        return self._made.copy() if isinstance(self._made, exp.Expr) else self._made()

    def __add__(self, other: "Formula | float") -> "Formula":
        return self._with(exp.Add, other)

    def __sub__(self, other: "Formula | float") -> "Formula":
        return self._with(exp.Sub, other)

    def __mul__(self, other: "Formula | float") -> "Formula":
        return self._with(exp.Mul, other)

    def __truediv__(self, other: "Formula | float") -> "Formula":
        return self._with(exp.Div, other)

    def __gt__(self, other: "Formula | float") -> "Formula":
        return self._with(exp.GT, other)

    def _with(self, kind: type[exp.Binary], other: "Formula | float") -> "Formula":
        right = other if isinstance(other, Formula) else Formula(exp.convert(other))
        return Formula(lambda: kind(this=enclosed(self.node), expression=enclosed(right.node)))


def enclosed(node: exp.Expr) -> exp.Expr:
    """Puts brackets around an operator with two sides."""
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Calls a function by its name."""
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


class SqlAlgebra:
    """Builds formulas as nodes of a query."""

    def call(self, name: str, *arguments: Formula) -> Formula:
        """Calls a function of Spark SQL."""
        return Formula(lambda: exp.Anonymous(this=name, expressions=[a.node for a in arguments]))

    def literal(self, value: float | None) -> Formula:
        """Returns a constant."""
        return Formula(exp.convert(value))


SQL = SqlAlgebra()
Estimate = Weighted[Formula]
Rewriting = Callable[[Sequence[Formula], Formula], Estimate]


def _count(arguments: Sequence[Formula], weight: Formula) -> Estimate:
    for argument in arguments:
        if not isinstance(argument.node, exp.Star | exp.Literal):  # COUNT(*), COUNT(1)
            weight = SQL.call("nvl2", argument, weight, SQL.literal(None))
    return weighted.count(SQL, weight)


def _count_if(arguments: Sequence[Formula], weight: Formula) -> Estimate:
    return weighted.count(SQL, SQL.call("if", arguments[0], weight, SQL.literal(None)))


def _sum(arguments: Sequence[Formula], weight: Formula) -> Estimate:
    return weighted.total(SQL, arguments[0], weight)


def _mean(arguments: Sequence[Formula], weight: Formula) -> Estimate:
    return weighted.mean(SQL, arguments[0], weight)


def _variance(sample: bool) -> Rewriting:
    return lambda arguments, weight: weighted.variance(SQL, arguments[0], weight, sample=sample)


def _deviation(sample: bool) -> Rewriting:
    return lambda arguments, weight: weighted.deviation(SQL, arguments[0], weight, sample=sample)


def _covariance(sample: bool) -> Rewriting:
    return lambda arguments, weight: weighted.covariance(
        SQL, arguments[0], arguments[1], weight, sample=sample
    )


def _correlation(arguments: Sequence[Formula], weight: Formula) -> Estimate:
    return weighted.correlation(SQL, arguments[0], arguments[1], weight)


def _percentile(name: str) -> Rewriting:
    return lambda arguments, weight: weighted.percentile(
        SQL, name, arguments[0], weight, *arguments[1:]
    )


WEIGHTED: dict[str, tuple[Rewriting, int]] = {
    "count": (_count, 1),
    "count_if": (_count_if, 1),
    "sum": (_sum, 1),
    "try_sum": (_sum, 1),
    "avg": (_mean, 1),
    "mean": (_mean, 1),
    "try_avg": (_mean, 1),
    "var_pop": (_variance(sample=False), 1),
    "var_samp": (_variance(sample=True), 1),
    "variance": (_variance(sample=True), 1),
    "stddev_pop": (_deviation(sample=False), 1),
    "stddev_samp": (_deviation(sample=True), 1),
    "stddev": (_deviation(sample=True), 1),
    "std": (_deviation(sample=True), 1),
    "covar_pop": (_covariance(sample=False), 2),
    "covar_samp": (_covariance(sample=True), 2),
    "corr": (_correlation, 2),
    "percentile_approx": (_percentile("percentile_approx"), 2),
    "approx_percentile": (_percentile("percentile_approx"), 2),
    "percentile": (_percentile("percentile"), 2),
    "median": (_percentile("median"), 1),
}
"""The rewriting, and how many arguments it needs at least."""

_NUMBERS = ("bigint", "double", "float")
_SETS = ("intersection", "sketch", "union")
_SKETCHES = frozenset(
    {
        *("hll_sketch_agg", "hll_union_agg", "count_min_sketch"),
        *("bitmap_construct_agg", "bitmap_or_agg", "bitmap_and_agg"),
        *("approx_top_k", "approx_top_k_accumulate", "approx_top_k_combine"),
        *(f"kll_{what}_agg_{kind}" for what in ("merge", "sketch") for kind in _NUMBERS),
        *(f"theta_{what}_agg" for what in _SETS),
        *(f"tuple_{what}_agg_{kind}" for what in _SETS for kind in ("double", "integer")),
    }
)

UNSCALED = _SKETCHES | frozenset(
    {
        *("min", "max", "min_by", "max_by", "mode", "approx_count_distinct"),
        *("first", "first_value", "last", "last_value", "any_value"),
        *("collect_list", "collect_set", "collect_union", "array_agg", "listagg", "string_agg"),
        *("bool_and", "every", "bool_or", "some", "any", "bit_and", "bit_or", "bit_xor"),
    }
)
"""Told of the admitted tuples as they are: a missing maximum cannot be guessed."""

NO_FORM = frozenset(
    {
        "measure",
        "skewness",
        "kurtosis",
        "histogram_numeric",
        "percentile_cont",
        "percentile_disc",
        "regr_count",
        "regr_avgx",
        "regr_avgy",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
    }
)
"""Aggregates of Spark that have no weighted form here."""

_INNER = frozenset(
    {
        "sum",
        "max",
        "var_pop",
        "var_samp",
        "stddev_pop",
        "stddev_samp",
        "covar_pop",
        "covar_samp",
        "corr",
        "percentile_approx",
        "percentile",
        "median",
        "collect_set",
    }
)
"""Aggregates that rewritten forms are made of."""


def name_of(node: exp.Expr) -> str | None:
    """Returns the name of an aggregate in lower case; None for anything else."""
    if isinstance(node, exp.Any):  # the parser takes ANY(x) for a quantifier
        return "any"
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    return name if name in WEIGHTED or name in UNSCALED or name in NO_FORM else None


def is_aggregate(node: exp.Expr) -> bool:
    """Says whether a node is an aggregate, as users write it or in a rewritten form."""
    inner = isinstance(node, exp.Anonymous) and str(node.this).lower() in _INNER
    return inner or name_of(node) is not None


def is_distinct(node: exp.Expr) -> bool:
    """Says whether a call has DISTINCT."""
    return any(isinstance(argument, exp.Distinct) for argument in node.expressions)


def estimate(node: exp.Expr, weight: exp.Expr) -> tuple[Estimate, str]:
    """Returns what a call becomes, and its kind: weighted or unscaled."""
    name = name_of(node) or ""
    if is_distinct(node):
        return Weighted(Formula(_count_distinct(node, name))), "unscaled"
    if name in NO_FORM:
        raise SqlError(f"{name}: this aggregate has no weighted form, so shedding would bias it")
    if name in UNSCALED:
        return Weighted(Formula(node.copy())), "unscaled"
    rewriting, least = WEIGHTED[name]
    if len(node.expressions) < least:
        raise SqlError(f"{text(node)}: {name} takes {least} argument{'s' * (least > 1)}")
    return rewriting([Formula(x) for x in node.expressions], Formula(weight)), "weighted"


def _count_distinct(node: exp.Expr, name: str) -> exp.Expr:
    """Collects distinct values and counts them, since Spark cannot count them on a stream."""
    (distinct,) = node.expressions
    if name != "count":
        raise SqlError(f"{text(node)}: Spark has no {name}(DISTINCT) on a stream")
    values: Sequence[exp.Expr] = distinct.expressions
    wanted = values[0] if len(values) == 1 else call("struct", *values)
    for value in values:
        wanted = call("nvl2", value, wanted, exp.null())
    return call("bigint", call("size", call("collect_set", wanted)))


def filtered(tree: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """Returns the expression with each of its aggregates over tuples that meet a condition."""
    if condition is None:
        return tree

    def wrap(node: exp.Expr) -> exp.Expr:
        if not is_aggregate(node):
            return node
        return exp.Filter(this=node.copy(), expression=exp.Where(this=condition.copy()))

    return tree.transform(wrap)

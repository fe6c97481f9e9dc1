"""Adds the error of parts that were shed whole to estimates that are made of partial results.

A part of weight W that adds t to an estimate adds ``W(W-1) t²`` to the variance of its error,
beside W times what tuples that were shed before add: sampling in two stages (Särndal, Swensson and
Wretman, Model Assisted Survey Sampling, 1992, section 4.3). To first order t is a sum of sums over
the part, with coefficients that are known once all parts have come, so that products of sums are
enough: ``BETWEEN``.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import combinations_with_replacement
from operator import add

from penstock.estimates import Algebra, E, Influence, Weighted

BETWEEN, BETWEEN_FOURTH = "between_parts", "between_parts_fourth"
"""Two calls that no engine has: ``Σ W(W-1) a b`` for sums a and b of a part, and
``Σ W²(W-1)² a⁴``. ``penstock.sql.partial`` makes sums over parts of them."""
KEPT = "kept"
"""A call that stands around what is used again and again, so that it is computed once."""


def over_parts(f: Algebra[E], found: Weighted[E]) -> Weighted[E]:
    """Returns the estimate from sums over parts, some of which may have been shed whole.

    Where none was, its interval is the one it had before.
    """
    found = replace(found, value=found.value if found.of_sums is None else found.of_sums)
    if found.influence is None or found.variance is None or found.doubt is None:
        return found
    assert found.strain is not None
    assert found.size is not None
    parts = found.influence()
    squares = _kept(f, f.call("coalesce", f.call(BETWEEN, parts.mass, parts.mass), f.literal(0.0)))
    fourths = f.call(BETWEEN_FOURTH, parts.mass)
    doubt = _kept(f, f.call("least", _share(f, fourths, squares * squares), f.literal(1.0)))
    before = [_kept(f, each) for each in (found.variance, found.doubt, found.strain, found.size)]
    added = _kept(f, _between(f, parts, doubt))
    whole = before[0] + added
    shares = [_kept(f, _share(f, each, whole)) for each in (before[0], added)]
    mixed = shares[0] * shares[0] * before[1] + shares[1] * shares[1] * doubt
    if parts.tail > 1.0:
        mixed = f.call("least", mixed * parts.tail, f.literal(1.0))
    skewed = _kept(f, reduce(add, map(_skewness(f), (before[2], doubt), shares)))
    smaller = f.call("try_divide", squares, parts.mass * parts.mass)
    size = f.literal(1.0) / (f.literal(1.0) / before[3] + smaller)
    return replace(
        found,
        centre=_kept(f, f.call("double", found.value)),
        variance=_kept(f, f.call("if", added > 0.0, whole, before[0])),
        doubt=_kept(f, f.call("if", added > 0.0, mixed, before[1])),
        strain=f.call("if", added > 0.0, skewed * skewed, before[2]),
        lean=None if found.lean is None else _lean(f, found.lean, added, shares[0]),
        size=_kept(f, f.call("if", squares > 0.0, size, before[3])),
    )


def _kept(f: Algebra[E], x: E) -> E:
    return f.call(KEPT, x)


def _between(f: Algebra[E], parts: Influence[E], doubt: E) -> E:
    """Returns the variance that parts shed whole add; each fitted estimate uses one of them up."""
    products: list[E] = []
    for (one, a), (two, b) in combinations_with_replacement(parts.terms, 2):
        product = f.call(BETWEEN, a, b)
        for coefficient in (one, two):
            product = product if coefficient is None else coefficient * product
        products.append(product if a is b else product * 2.0)
    spread = reduce(add, products)
    if parts.squared_scale is not None:
        spread = f.call("try_divide", spread, parts.squared_scale)
    if parts.fitted:
        spread = spread / f.call("greatest", doubt * -float(parts.fitted) + 1.0, f.literal(0.5))
    return f.call("greatest", f.call("coalesce", spread, f.literal(0.0)), f.literal(0.0))


def _share(f: Algebra[E], part: E, whole: E) -> E:
    return f.call("coalesce", f.call("try_divide", part, whole), f.literal(0.0))


def _lean(f: Algebra[E], before: E, added: E, share: E) -> E:
    """Returns the skewness of an error of which a share of the variance leans."""
    kept = _kept(f, before)
    return f.call("if", added > 0.0, kept * share * f.call("sqrt", share), kept)


def _skewness(f: Algebra[E]) -> Callable[[E, E], E]:
    """Returns what a term of an error with this strain and share of the variance adds to it."""

    def skewness(strain: E, share: E) -> E:
        skewed: E = f.call("sqrt", strain * share) * share
        return skewed

    return skewness

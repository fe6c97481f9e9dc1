"""Reads the documents of ``penstock plan``: demands in, an allocation out.

The checks are written by hand rather than with a schema library, so that ``import penstock`` and
its command stay light. Every message names the place in the document.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock import policy as policies
from penstock.core.demand import Demand, Queries
from penstock.core.fairness import jain
from penstock.errors import PenstockError
from penstock.hints import hint

_DOCUMENT_KEYS = ("policy", "capacity", "queries")
_QUERY_KEYS = ("id", "sic", "weight", "floor", "ceiling", "strata")
_STRATUM_KEYS = ("id", "tuples", "sic", "cost")
LARGEST_NUMBER = 1e100
"""No product of two numbers up to this overflows."""


def allocate(text: str, policy: str | None = None) -> dict[str, Any]:
    """Reads a document of demands, divides its capacity, and says who gets what."""
    document = _parse(text)
    _keys(document, _DOCUMENT_KEYS, "the document")
    named = _text(document.get("policy", "balance-sic"), "policy")
    chosen = named if policy is None else policy
    capacity = _number(document, "capacity", "the document")
    queries = _list(document, "queries", "the document")
    if not queries:
        raise PenstockError("queries must have at least one query; got an empty list")
    places = [f"queries[{i}]" for i in range(len(queries))]
    strata: list[tuple[int, dict[str, Any], str]] = []
    for index, (query, place) in enumerate(zip(queries, places, strict=True)):
        _keys(query, _QUERY_KEYS, place)
        mine = _list(query, "strata", place)  # empty where nothing of the query waits
        inner = [f"{place}.strata[{k}]" for k in range(len(mine))]
        for stratum, where in zip(mine, inner, strict=True):
            _keys(stratum, _STRATUM_KEYS, where)
            strata.append((index, stratum, where))
        _unique(mine, inner)
    _unique(queries, places)
    demand = Demand.of(
        Queries.of(
            [_number(q, "sic", p, 0.0) for q, p in zip(queries, places, strict=True)],
            [_number(q, "weight", p, 1.0, _weight) for q, p in zip(queries, places, strict=True)],
            [_number(q, "floor", p, 0.0) for q, p in zip(queries, places, strict=True)],
            [_number(q, "ceiling", p, math.inf) for q, p in zip(queries, places, strict=True)],
        ),
        [index for index, _, _ in strata],
        [_number(s, "tuples", p) for _, s, p in strata],
        [_number(s, "sic", p) for _, s, p in strata],
        [_number(s, "cost", p, 1.0) for _, s, p in strata],
    )
    try:
        rule = policies.get(chosen)
    except PenstockError as error:
        raise PenstockError(f"policy: {error}") from None
    return _answer(queries, demand, rule.rates(demand, capacity))


def _answer(queries: list[dict[str, Any]], demand: Demand, rates: Any) -> dict[str, Any]:
    reached = demand.reached(rates)
    kept = demand.tuples * rates
    answers: list[dict[str, Any]] = [
        {"id": query["id"], "sic": float(sic), "strata": []}
        for query, sic in zip(queries, reached, strict=True)
    ]
    names = [stratum["id"] for query in queries for stratum in query["strata"]]
    for name, index, rate, keep in zip(names, demand.query, rates, kept, strict=True):
        answers[index]["strata"].append({"id": name, "rate": float(rate), "kept": float(keep)})
    return {
        "used": demand.spent(rates),
        "jain": jain(reached),
        "mean_sic": float(np.mean(reached)),
        "queries": answers,
    }


def _parse(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise PenstockError(
            f"line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}"
        ) from None
    except RecursionError:
        raise PenstockError("the document: nested far too deeply") from None
    except ValueError:
        raise PenstockError("the document: a number has thousands of digits") from None
    return _mapping(document, "the document")


class _Object(dict[str, Any]):
    """Is an object of the document, which remembers a key that stands in it twice."""

    twice: str | None = None


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    members = _Object(pairs)
    names = [name for name, _ in pairs]
    members.twice = next((name for name in names if names.count(name) > 1), None)
    return members


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PenstockError(f"{place} must be an object, such as {{...}}; got {_shown(value)}")
    return value


def _keys(value: Any, known: Sequence[str], place: str) -> None:
    if isinstance(value, _Object) and value.twice is not None:
        raise PenstockError(f"{place}: the key {value.twice!r} is given twice")
    for key in _mapping(value, place):
        if key not in known:
            raise PenstockError(f"{place}: unknown key {key!r}; {hint(key, known)}")


def _list(parent: Mapping[str, Any], key: str, place: str) -> list[dict[str, Any]]:
    if key not in parent:
        raise PenstockError(f"{place}: {key!r} is missing")
    value = parent[key]
    where = key if place == "the document" else f"{place}.{key}"
    if not isinstance(value, list):
        raise PenstockError(f"{where} must be a list, such as [...]; got {_shown(value)}")
    return value


def _unique(items: Sequence[Mapping[str, Any]], places: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for item, place in zip(items, places, strict=True):
        if "id" not in item:
            raise PenstockError(f"{place}: 'id' is missing")
        name = _text(item["id"], f"{place}.id")
        if name in seen:
            raise PenstockError(f"{place}.id: {name!r} is already the id of {seen[name]}")
        seen[name] = place


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise PenstockError(f'{place} must be a name in quotes, such as "q1"; got {_shown(value)}')
    return value


def _not_negative(value: float) -> str | None:
    return "0 or more, such as 10" if value < 0 else None


def _weight(value: float) -> str | None:
    if value <= 0:
        return "above 0, such as 2"
    return None if 1e-6 <= value <= 1e6 else "between 1e-6 and 1e6, such as 2"


def _number(
    parent: Mapping[str, Any],
    key: str,
    place: str,
    default: float | None = None,
    wrong: Callable[[float], str | None] = _not_negative,
) -> float:
    where = key if place == "the document" else f"{place}.{key}"
    if key not in parent:
        if default is None:
            raise PenstockError(f"{place}: {key!r} is missing")
        return default
    value = parent[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PenstockError(f"{where} must be a number, such as 10; got {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise PenstockError(f"{where} must be finite, such as 10; got {_shown(value)}")
    if number > LARGEST_NUMBER:
        raise PenstockError(f"{where} must be at most {LARGEST_NUMBER:g}; got {_shown(value)}")
    if (expected := wrong(number)) is not None:
        raise PenstockError(f"{where} must be {expected}; got {_shown(value)}")
    return number


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."

"""Generators make up the rows of a replayed stream; `recording` reads them from a file.

The rule: a row depends on its number (and the seed) alone, never on when or where it is read, so
that a range which is read again after a crash is the same range. Nothing here runs per row in
Python, and no process makes a block twice: `generator` caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock import arrow as pa
from penstock.errors import PenstockError

BLOCK_ROWS = 16_384
"""The rows that a generator makes at once."""
POOL_BLOCKS = 8
"""The blocks that a pooled generator makes before it begins again with the first."""
DISTRIBUTIONS = ("gaussian", "uniform", "exponential")
"""The distributions of values that `Measurements` knows, besides a mix of all."""
TYPE_NAMES = {int: "a whole number", float: "a number"}
"""What messages call the types of options that a text may fail to become."""


class RecordBatch(Protocol):
    """The part of `pyarrow.RecordBatch` that Penstock uses; PyArrow has no type stubs."""

    @property
    def num_rows(self) -> int: ...
    def column(self, i: str) -> Any: ...
    def slice(self, offset: int, length: int) -> RecordBatch: ...


class RowGenerator(Protocol):
    """An endless stream in blocks of one size; `block(n)` depends on n and the seed alone."""

    @property
    def schema(self) -> str: ...
    def block(self, number: int) -> RecordBatch: ...


def blocks_between(made: RowGenerator, start: int, stop: int) -> Iterator[RecordBatch]:
    """Yields the rows [start, stop) of a generator, as slices of its blocks."""
    size = made.block(0).num_rows
    while start < stop:
        number, skip = divmod(start, size)
        length = min(size - skip, stop - start)
        yield made.block(number).slice(skip, length)
        start += length


class Pooled:
    """A generator that makes `POOL_BLOCKS` blocks, on first use, and then goes round.

    Row n is row n mod 131,072 of the pool: a row costs a slice, and a benchmark measures its job
    instead of its source. What must not repeat is `_offset`, the tuple's identity.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._pool: dict[int, RecordBatch] = {}

    def block(self, number: int) -> RecordBatch:
        place = number % POOL_BLOCKS
        if place not in self._pool:
            self._pool[place] = self.make(place, np.random.default_rng([self._seed, place]))
        return self._pool[place]

    def make(self, place: int, rng: np.random.Generator) -> RecordBatch:
        """Makes block number `place` of the pool."""
        raise NotImplementedError


class Readings(Pooled):
    """Sensor readings as a broker delivers them: a key, and a JSON payload yet to be parsed.

    Key k is drawn with weight (k + 1) ** -skew (Zipf). A key has a unit and a mean of its own,
    log-normal between keys, and its values are log-normal around that mean: skewed, as costs and
    latencies are.
    """

    schema = "key STRING, payload STRING"

    def __init__(self, seed: int = 0, keys: int = 5000, skew: float = 1.1) -> None:
        super().__init__(seed)
        _require(keys >= 1, "keys", "a whole number from 1, such as 5000", keys)
        _require(0 <= skew < np.inf, "skew", "a number from 0, such as 1.1", skew)
        rng = np.random.default_rng(seed)
        self._chances = zipf_weights(keys, skew)
        self._names = pa.array([f"k{key:05d}" for key in range(keys)])
        self._means = rng.lognormal(3.0, 1.0, keys)
        self._units = rng.integers(0, 4, keys)

    def make(self, place: int, rng: np.random.Generator) -> RecordBatch:
        picks = draw_places(self._chances, BLOCK_ROWS, rng)
        names = self._names.take(pa.array(picks))
        values = np.round(self._means[picks] * rng.lognormal(-0.18, 0.6, BLOCK_ROWS), 3)
        units = pa.array(["ms", "kW", "bar", "lux"]).take(pa.array(self._units[picks]))
        payload = _json(
            {
                '"id":': place * BLOCK_ROWS + np.arange(BLOCK_ROWS),
                ',"key":"': names,
                '","value":': values,
                ',"unit":"': units,
                '","note":"calibrated at the site, batch ': rng.integers(10**8, 10**9, BLOCK_ROWS),
                ' of the autumn series"': pa.array([""] * BLOCK_ROWS),
            }
        )
        batch: RecordBatch = pa.RecordBatch.from_arrays([names, payload], ["key", "payload"])
        return batch


class Keyed(Pooled):
    """Many queries in one stream, with sources of very different rates: a test of fairness.

    Each query has 1 to 3 sources; the weights of the sources are log-uniform and span exactly a
    factor of 100 between the slowest and the fastest. A query's values are normal around its mean.
    """

    schema = "query STRING, source STRING, value DOUBLE"

    def __init__(self, seed: int = 0, queries: int = 200) -> None:
        super().__init__(seed)
        _require(queries >= 1, "queries", "a whole number from 1, such as 200", queries)
        rng = np.random.default_rng(seed)
        counts = rng.integers(1, 4, queries)
        self._query = np.repeat(np.arange(queries), counts)
        exponents = rng.random(len(self._query))
        spread = max(float(np.ptp(exponents)), 1e-9)
        self._chances = 100.0 ** ((exponents - exponents.min()) / spread)
        self._queries = pa.array([f"q{query:03d}" for query in self._query])
        self._sources = pa.array([f"s{n}" for count in counts for n in range(1, count + 1)])
        self._means = rng.uniform(10.0, 100.0, queries)

    def make(self, place: int, rng: np.random.Generator) -> RecordBatch:
        del place  # it is in the state of `rng`
        picks = draw_places(self._chances, BLOCK_ROWS, rng)
        values = self._means[self._query[picks]] + 5.0 * rng.standard_normal(BLOCK_ROWS)
        rows = pa.array(picks)
        batch: RecordBatch = pa.RecordBatch.from_arrays(
            [self._queries.take(rows), self._sources.take(rows), pa.array(values)],
            ["query", "source", "value"],
        )
        return batch


class Measurements(Pooled):
    """Nodes that report a value and their free memory: the sources of THEMIS' table 1.

    Values have mean 50 (THEMIS, section 7): gaussian with deviation 10, uniform between 0 and 100,
    or exponential; a mixed stream draws the distribution of each tuple. A node adds a little of its
    own, so that one node is better than another. Free memory is in KB, for three in four of the
    nodes above 100,000 most of the time.
    """

    schema = "node STRING, value DOUBLE, free DOUBLE"

    def __init__(self, seed: int = 0, nodes: int = 20, distribution: str = "mixed") -> None:
        super().__init__(seed)
        _require(nodes >= 1, "nodes", "a whole number from 1, such as 20", nodes)
        known = ("mixed", *DISTRIBUTIONS)
        rule = f"one of {', '.join(known)}"
        _require(distribution in known, "distribution", rule, distribution)
        rng = np.random.default_rng(seed)
        self._kinds = [distribution] if distribution != "mixed" else list(DISTRIBUTIONS)
        self._names = pa.array([f"n{node:03d}" for node in range(nodes)])
        self._own = rng.normal(0.0, 5.0, nodes)
        self._own -= self._own.mean()
        self._free = np.where(np.arange(nodes) % 4 == 3, 80_000.0, 150_000.0)

    def make(self, place: int, rng: np.random.Generator) -> RecordBatch:
        del place
        nodes = rng.integers(0, len(self._own), BLOCK_ROWS)
        values = draw(self._kinds, rng, BLOCK_ROWS) + self._own[nodes]
        free = self._free[nodes] + rng.normal(0.0, 10_000.0, BLOCK_ROWS)
        columns = [self._names.take(pa.array(nodes)), pa.array(values), pa.array(free)]
        batch: RecordBatch = pa.RecordBatch.from_arrays(columns, ["node", "value", "free"])
        return batch


def draw(kinds: Sequence[str], rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Draws values of mean 50, each from one of these distributions."""
    drawn = {
        "gaussian": lambda: rng.normal(50.0, 10.0, size),
        "uniform": lambda: rng.uniform(0.0, 100.0, size),
        "exponential": lambda: rng.exponential(50.0, size),
    }
    values: NDArray[np.float64] = np.choose(
        rng.integers(0, len(kinds), size), [drawn[kind]() for kind in kinds]
    )
    return values


class Rides(Pooled):
    """Taxi rides: few routes are popular, and fares differ by route (CoD, figure 1)."""

    schema = "route STRING, fare DOUBLE"

    def __init__(self, seed: int = 0, routes: int = 200, skew: float = 1.0) -> None:
        super().__init__(seed)
        _require(routes >= 1, "routes", "a whole number from 1, such as 200", routes)
        rng = np.random.default_rng(seed)
        self._chances = zipf_weights(routes, skew)
        self._names = pa.array([f"r{route:04d}" for route in range(routes)])
        self._means = rng.lognormal(2.5, 0.5, routes)

    def make(self, place: int, rng: np.random.Generator) -> RecordBatch:
        del place
        picks = draw_places(self._chances, BLOCK_ROWS, rng)
        fares = np.round(self._means[picks] * rng.lognormal(-0.02, 0.2, BLOCK_ROWS), 2)
        columns = [self._names.take(pa.array(picks)), pa.array(fares)]
        batch: RecordBatch = pa.RecordBatch.from_arrays(columns, ["route", "fare"])
        return batch


BUILT_IN: dict[str, Callable[..., RowGenerator]] = {
    "readings": Readings,
    "keyed": Keyed,
    "measurements": Measurements,
    "rides": Rides,
}


def find_generator(spec: str) -> Callable[..., RowGenerator]:
    """Returns the factory that `spec` names: one of `BUILT_IN`, or `package.module:callable`."""
    if spec in BUILT_IN:
        return BUILT_IN[spec]
    module, colon, name = spec.partition(":")
    if not colon:
        known = ", ".join(BUILT_IN)
        raise PenstockError(
            f"option 'generator' must be one of {known}, or a callable of your own, such as "
            f"'package.module:callable'; got {spec!r}"
        )
    try:
        factory = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise PenstockError(
            "option 'generator' must name what can be imported, such as "
            f"'package.module:callable'; got {spec!r}: {error}"
        ) from error
    if not callable(factory):
        raise PenstockError(
            "option 'generator' must name a callable, such as 'package.module:callable'; got "
            f"{spec!r}, which is a {type(factory).__name__}"
        )
    made: Callable[..., RowGenerator] = factory
    return made


def generator_options(factory: Callable[..., RowGenerator]) -> dict[str, Any]:
    """Returns the options of a generator, with their defaults: its keyword parameters."""
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return {p.name: p.default for p in signature(factory).parameters.values() if p.kind in named}


@lru_cache(maxsize=4)
def generator(spec: str, seed: int, options: tuple[tuple[str, str], ...]) -> RowGenerator:
    """Returns a generator, which a process builds once.

    Texts become the type of the parameter's default.
    """
    factory = find_generator(spec)
    takes = generator_options(factory)
    given = {name.lower(): text for name, text in options}
    chosen = {n: d for n, d in takes.items() if n != "seed" and n.lower() in given}
    arguments = {n: _convert(n, given[n.lower()], default) for n, default in chosen.items()}
    return factory(**arguments, **({"seed": seed} if "seed" in takes else {}))


def zipf_weights(ranks: int, skew: float) -> NDArray[np.float64]:
    """How often each rank comes by Zipf's law, not normalised; a skew of 0 is uniform.

    >>> zipf_weights(4, 1.0).tolist()
    [1.0, 0.5, 0.3333333333333333, 0.25]
    """
    weights: NDArray[np.float64] = np.arange(1, ranks + 1, dtype=np.float64) ** -skew
    return weights


def draw_places(
    weights: NDArray[np.float64], size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """So many indices, each drawn with its weight."""
    steps = np.cumsum(weights)
    places = np.searchsorted(steps, rng.random(size) * steps[-1], side="right")
    picks: NDArray[np.int64] = np.minimum(places, len(weights) - 1)
    return picks


def _json(parts: Mapping[str, Any]) -> Any:
    """Joins JSON texts, column by column: the literal before each value, and the values."""
    pieces: list[Any] = ["{"]
    for literal, values in parts.items():
        pieces += [literal, pa.array(values).cast(pa.string())]
    compute = import_module("pyarrow.compute")
    return compute.binary_join_element_wise(*pieces, "}", "")


def _convert(name: str, text: str, default: object) -> object:
    """Returns the text of an option as a value of the same type as its default."""
    kind = type(default) if isinstance(default, int | float) else str
    try:
        return text.lower() in ("true", "1") if kind is bool else kind(text)
    except ValueError:
        raise PenstockError(
            f"option {name!r} must be {TYPE_NAMES[kind]}, such as {default}; got {text!r}"
        ) from None


def _require(holds: bool, name: str, rule: str, value: object) -> None:
    if not holds:
        raise PenstockError(f"option {name!r} must be {rule}; got {value!r}")

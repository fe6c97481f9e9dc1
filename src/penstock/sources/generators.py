"""What row n of a replayed stream contains, if it is made up; of a file, see `recording`.

The rule: a row depends on its number (and the seed) alone, never on when or where it is read, so
that a range which is read again after a crash is the same range. Nothing here runs per row in
Python, and nothing is generated twice in one process: `generator` caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

# pyarrow has no type stubs; what is used of a batch is stated by the protocol below.
pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")

BLOCK_ROWS = 16_384
POOL_BLOCKS = 8


class RecordBatch(Protocol):
    """The part of `pyarrow.RecordBatch` that is used."""

    @property
    def num_rows(self) -> int: ...
    def column(self, i: str) -> Any: ...
    def slice(self, offset: int, length: int) -> RecordBatch: ...


class Generator(Protocol):
    """An endless stream in blocks of one size; `block(n)` depends on n and the seed alone."""

    @property
    def schema(self) -> str: ...
    def block(self, number: int) -> RecordBatch: ...


def blocks_between(made: Generator, start: int, stop: int) -> Iterator[RecordBatch]:
    """The rows [start, stop) of a generator, as slices of its blocks."""
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
        """Block number `place` of the pool."""
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
        _require(keys >= 1, "keys", "must be at least 1", keys)
        _require(0 <= skew < np.inf, "skew", "must be 0 or more", skew)
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
        _require(queries >= 1, "queries", "must be at least 1", queries)
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


DISTRIBUTIONS = ("gaussian", "uniform", "exponential")


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
        _require(nodes >= 1, "nodes", "must be at least 1", nodes)
        known = ("mixed", *DISTRIBUTIONS)
        _require(
            distribution in known, "distribution", f"is one of {', '.join(known)}", distribution
        )
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
    """Values of mean 50, each of one of these distributions."""
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
        _require(routes >= 1, "routes", "must be at least 1", routes)
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


BUILT_IN: dict[str, Callable[..., Generator]] = {
    "readings": Readings,
    "keyed": Keyed,
    "measurements": Measurements,
    "rides": Rides,
}


def find_generator(spec: str) -> Callable[..., Generator]:
    """The factory that `spec` names: one of `BUILT_IN`, or `package.module:callable`."""
    if spec in BUILT_IN:
        return BUILT_IN[spec]
    module, colon, name = spec.partition(":")
    if not colon:
        known = ", ".join(BUILT_IN)
        raise ValueError(
            f"option 'generator': {spec!r} is not one of {known}, nor package.module:callable"
        )
    try:
        factory = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"option 'generator': cannot load {spec!r}: {error}") from error
    if not callable(factory):
        raise ValueError(f"option 'generator': {spec!r} is not callable")
    made: Callable[..., Generator] = factory
    return made


def generator_options(factory: Callable[..., Generator]) -> dict[str, Any]:
    """The options that a generator takes, with their defaults: its keyword parameters."""
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return {p.name: p.default for p in signature(factory).parameters.values() if p.kind in named}


@lru_cache(maxsize=4)
def generator(spec: str, seed: int, options: tuple[tuple[str, str], ...]) -> Generator:
    """A generator, built once a process. Texts become the type of the parameter's default."""
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
    """JSON texts, column by column: the literal before each value, and the values."""
    pieces: list[Any] = ["{"]
    for literal, values in parts.items():
        pieces += [literal, pa.array(values).cast(pa.string())]
    return pc.binary_join_element_wise(*pieces, "}", "")


def _convert(name: str, text: str, default: object) -> object:
    kind = type(default) if isinstance(default, int | float) else str
    try:
        return text.lower() in ("true", "1") if kind is bool else kind(text)
    except ValueError:
        raise ValueError(f"option {name!r}: {text!r} is not a {kind.__name__}") from None


def _require(holds: bool, name: str, rule: str, value: object) -> None:
    if not holds:
        raise ValueError(f"option {name!r}: {rule}, and is {value!r}")

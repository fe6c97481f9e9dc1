"""The vocabulary of Penstock.

A *stratum* is the unit of decision: tuples that share query, source and group, all worth the
same. A *demand* is what the strata ask for in one interval, a *plan* is what the controller
answers, a *report* is what it hears back. Everything here is frozen: state changes by making
a new value.
"""

from collections.abc import Collection, ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Stratum(NamedTuple):
    """Tuples that are decided on together. ``group`` is empty where a policy asks for none."""

    query: str
    source: str
    group: str = ""


OTHERS = "\x1eothers"
"""The group of tuples that were not counted group by group."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Who asks, one entry a query.

    ``sic`` is where a query stands before anything that waits is admitted. ``weight`` scales
    its share, ``floor`` is the SIC that it is promised first, ``ceiling`` the SIC above which
    it yields to everybody else.
    """

    sic: Floats
    weight: Floats
    floor: Floats
    ceiling: Floats

    @classmethod
    def of(
        cls,
        sic: npt.ArrayLike,
        weight: npt.ArrayLike = 1.0,
        floor: npt.ArrayLike = 0.0,
        ceiling: npt.ArrayLike = np.inf,
    ) -> "Queries":
        standing = np.atleast_1d(np.asarray(sic, dtype=np.float64))
        return cls(standing, *(_filled(x, standing.size) for x in (weight, floor, ceiling)))

    def __len__(self) -> int:
        return self.sic.size


@dataclass(frozen=True, slots=True)
class Filling:
    """How far the window of each stratum's query has filled; see ``concept``."""

    arrived: Floats
    kept: Floats
    rest: Floats
    """Tuples that are still to come."""
    share: Floats
    """What a stratum gets of a quota, where others get 1."""

    def only(self, some: Bools) -> "Filling":
        return Filling(self.arrived[some], self.kept[some], self.rest[some], self.share[some])


@dataclass(frozen=True, slots=True)
class Demand:
    """What waits, one entry a stratum: a struct of arrays, so that a million is no problem."""

    queries: Queries
    query: Ints
    """Index into ``queries``."""
    tuples: Floats
    sic: Floats
    """Of one tuple."""
    cost: Floats
    """Of one tuple, in the unit of the capacity."""
    paid: Bools
    """Partial results: other sites have worked for them."""
    filling: Filling | None = None
    """Where the policy looks at windows."""

    @classmethod
    def of(
        cls,
        queries: Queries,
        query: npt.ArrayLike,
        tuples: npt.ArrayLike,
        sic: npt.ArrayLike,
        cost: npt.ArrayLike = 1.0,
        paid: npt.ArrayLike = False,
    ) -> "Demand":
        index = np.atleast_1d(np.asarray(query, dtype=np.int64))
        amounts = [_filled(x, index.size) for x in (tuples, sic, cost)]
        marked = np.broadcast_to(np.asarray(paid, dtype=np.bool_), index.shape)
        return cls(queries, index, amounts[0], amounts[1], amounts[2], marked)

    def __len__(self) -> int:
        return self.query.size

    def total_cost(self) -> float:
        return float((self.tuples * self.cost).sum())

    def spent(self, rates: Floats) -> float:
        """The expected cost of a plan with these rates."""
        return float((self.tuples * self.cost * rates).sum())

    def reached(self, rates: Floats) -> Floats:
        """The SIC at which each query arrives under these rates."""
        gained = np.bincount(self.query, self.tuples * self.sic * rates, len(self.queries))
        return self.queries.sic + gained


@dataclass(frozen=True, slots=True)
class Plan:
    """An admission rate in [0, 1] for each stratum, and what one of its tuples is worth.

    A stratum that the plan does not know is admitted at ``default_rate``. A query in ``unlisted``
    has only those groups listed that are thinned, and the others are admitted at the rate there.
    """

    version: int = 0
    strata: tuple[Stratum, ...] = ()
    rates: Floats = field(default_factory=lambda: np.empty(0))
    sic: Floats = field(default_factory=lambda: np.empty(0))
    default_rate: float = 1.0
    default_sic: float = 0.0
    unlisted: Mapping[str, float] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Nothing is to be shed: a gate may let everything pass without looking."""
        lowest = min(self.default_rate, *self.unlisted.values(), 1.0)
        return lowest >= 1.0 and bool((self.rates >= 1.0).all())

    def rate(self, stratum: Stratum) -> float:
        """For people and tests; a gate looks its strata up in an index of its own."""
        try:
            return float(self.rates[self.strata.index(stratum)])
        except ValueError:
            return self.default_of(stratum.query)

    def short(self, queries: Collection[str]) -> "Plan":
        """The same plan with only what is thinned of these queries.

        A group that is not counted by itself has the rate of the lump that it is counted in.
        """
        if not queries:
            return self
        lumps = {
            s.query: float(rate)
            for s, rate in zip(self.strata, self.rates, strict=True)
            if s.group == OTHERS
        }
        unlisted = {query: lumps.get(query, 1.0) for query in queries}
        lasting = [
            s.query not in unlisted or (s.group != OTHERS and rate < 1.0)
            for s, rate in zip(self.strata, self.rates, strict=True)
        ]
        return replace(
            self,
            strata=tuple(s for s, keep in zip(self.strata, lasting, strict=True) if keep),
            rates=self.rates[lasting],
            sic=self.sic[lasting],
            unlisted=unlisted,
        )

    def default_of(self, query: str) -> float:
        """For strata of a query that are not listed."""
        return self.unlisted.get(query, self.default_rate)


class Count(NamedTuple):
    """Tuples of one stratum in one batch; what is missing from ``admitted`` was shed."""

    arrived: int
    admitted: int


@dataclass(frozen=True, slots=True, eq=False)
class Tally(Mapping[Stratum, Count]):
    """Counts of many strata in columns: a mapping for who reads one, arrays for who sums all."""

    strata: tuple[Stratum, ...]
    arrived: Floats
    admitted: Floats

    def __getitem__(self, stratum: Stratum) -> Count:
        try:
            place = self.strata.index(stratum)
        except ValueError:
            raise KeyError(stratum) from None
        return Count(int(self.arrived[place]), int(self.admitted[place]))

    def __iter__(self) -> Iterator[Stratum]:
        return iter(self.strata)

    def __len__(self) -> int:
        return len(self.strata)

    def items(self) -> ItemsView[Stratum, Count]:
        """At once: one by one, each would be searched for."""
        columns = (column.astype(np.int64).tolist() for column in (self.arrived, self.admitted))
        return dict(zip(self.strata, map(Count, *columns), strict=True)).items()

    @classmethod
    def of(cls, counts: Mapping[Stratum, Count]) -> "Tally":
        if isinstance(counts, cls):
            return counts
        columns = np.array(list(counts.values()), dtype=np.float64).reshape(-1, 2).T
        return cls(tuple(counts), columns[0], columns[1])


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch that has finished.

    ``seconds`` is how long it took by the clock. ``work`` is the processor time that its tasks
    used, where the engine tells (several jobs on one site compete for that), ``overhead`` is the
    part of ``seconds`` that has nothing to do with tuples, and ``span`` the part between the first
    tuple and the last, where somebody looked.
    """

    job: str
    number: int
    started: float
    seconds: float
    counts: Mapping[Stratum, Count]
    work: float | None = None
    overhead: float | None = None
    span: float | None = None
    costs: Mapping[Stratum, float] = field(default_factory=dict)
    """What a tuple of a stratum was measured to cost, where a guard measures."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """Event times of the newest tuples, of queries that tell."""
    values: Mapping[Stratum, Sequence[float]] = field(default_factory=dict)
    """A sample of what a query's mean is made of, of queries that ask for it."""
    rates: Mapping[Stratum, float] = field(default_factory=dict)
    """That were in force, of strata of such queries that were thinned."""

    @property
    def arrived(self) -> int:
        if isinstance(self.counts, Tally):
            return int(self.counts.arrived.sum())
        return sum(count.arrived for count in self.counts.values())

    @property
    def admitted(self) -> int:
        if isinstance(self.counts, Tally):
            return int(self.counts.admitted.sum())
        return sum(count.admitted for count in self.counts.values())


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A micro-batch that is about to start. ``arrived`` is None where the source cannot tell."""

    job: str
    waited: float
    """Seconds since the job's last batch started: how old the oldest waiting tuple can be."""
    arrived: int | None = None
    waiting: Tally | None = None
    """What it consists of, where somebody has looked; nothing of it is admitted yet."""


@dataclass(frozen=True, slots=True)
class CoordinatorNews:
    """What a query's coordinator said: its result SIC, and when that was true."""

    sic: float
    at: float


@dataclass(frozen=True, slots=True)
class Report:
    """All the controller hears: the time, what finished, what starts, what coordinators said."""

    now: float
    finished: tuple[Batch, ...] = ()
    starting: Upcoming | None = None
    told: Mapping[str, CoordinatorNews] = field(default_factory=dict)
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """What a whole STW of a query's source carries of the query's SIC, where that is known: one
    over all its sources, wherever they are, or, of partial results, what these brought along. The
    sources that are seen here share evenly unless told."""
    partial: frozenset[tuple[str, str]] = frozenset()
    """Queries' sources that are partial results of other sites."""
    gone: tuple[str, ...] = ()
    """Jobs that stopped or failed: their share goes to the others."""


def _filled(values: npt.ArrayLike, size: int) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return np.full(size, array) if array.ndim == 0 else array

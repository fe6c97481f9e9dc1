"""The vocabulary of Penstock.

A *stratum* is the unit of decision: tuples that share query, source and group, all worth the
same. A *plan* is what the controller answers, a *report* is what it hears back (and a *demand*,
in ``demand``, is what it asks a policy). A *query* is a query of THEMIS; a *stream* is one
streaming query of Spark, which may serve many of them. Everything here is frozen: state changes
by making a new value.
"""

import threading
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, overload
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OTHER_GROUPS = "\x1eothers"
"""The group of all tuples whose own group nobody counts."""


class Stratum(NamedTuple):
    """Tuples that are decided on together. ``group`` is empty where a policy asks for none."""

    query: str
    source: str
    group: str = ""


class Grouping(NamedTuple):
    """Which query and which source each of some strata belongs to."""

    queries: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]
    query: Ints
    """Of each stratum, an index into ``queries``."""
    source: Ints
    """Of each stratum, an index into ``sources``."""
    query_of_source: Ints
    """Of each source, an index into ``queries``."""


class Strata(Sequence[Stratum]):
    """Strata in a fixed order. Two ``Strata`` with the same contents are one object.

    A site speaks of the same strata in every batch, in its plans, counts and account. Since equal
    strata are identical, it finds out in no time that they are still the same, and what is
    looked up of them once is known as long as they live.

    >>> strata = Strata([Stratum("q", "s", "a"), Stratum("q", "s", "b")])
    >>> strata is Strata([Stratum("q", "s", "a"), Stratum("q", "s", "b")])
    True
    >>> strata.places(Strata([Stratum("q", "s", "b"), Stratum("q", "s", "c")])).tolist()
    [1, -1]
    """

    _alive: ClassVar[WeakValueDictionary[tuple[Stratum, ...], "Strata"]] = WeakValueDictionary()
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _items: tuple[Stratum, ...]
    _found: WeakKeyDictionary["Strata", Ints]

    def __new__(cls, strata: Iterable[Stratum] = ()) -> "Strata":
        if isinstance(strata, Strata):
            return strata
        items = tuple(strata)
        with cls._lock:
            same = cls._alive.get(items)
            if same is None:
                cls._alive[items] = same = super().__new__(cls)
                same._items, same._found = items, WeakKeyDictionary()
        return same

    def __reduce__(self) -> tuple[Any, ...]:
        return Strata, (self._items,)

    def __repr__(self) -> str:
        return f"Strata({list(self._items)})"

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Stratum]:
        return iter(self._items)

    def __contains__(self, stratum: object) -> bool:
        return stratum in self._places

    @overload
    def __getitem__(self, place: int) -> Stratum: ...
    @overload
    def __getitem__(self, place: slice) -> "Strata": ...
    def __getitem__(self, place: int | slice) -> "Stratum | Strata":
        return Strata(self._items[place]) if isinstance(place, slice) else self._items[place]

    def only(self, some: Bools) -> "Strata":
        """Answers the strata that are marked."""
        return Strata(self._items[place] for place in np.flatnonzero(some).tolist())

    def place(self, stratum: Stratum) -> int:
        """Answers where a stratum stands, or -1."""
        return self._places.get(stratum, -1)

    def places(self, strata: "Strata") -> Ints:
        """Answers where each of these strata stands, or -1."""
        found = self._found.get(strata)
        if found is None:
            found = np.fromiter(map(self.place, strata), np.int64, len(strata))
            found.flags.writeable = False  # it is shared
            self._found[strata] = found
        return found

    def of_sources(self, some: frozenset[tuple[str, str]]) -> Bools:
        """Marks the strata that belong to one of these sources."""
        if not some:
            return np.zeros(len(self), dtype=np.bool_)
        sources = self.grouping.sources
        mine = np.fromiter(map(some.__contains__, sources), np.bool_, len(sources))
        return mine[self.grouping.source]

    def place_of_source(self, query: str, source: str) -> int:
        """Answers where a source stands in ``grouping``, or -1."""
        return self._source_places.get((query, source), -1)

    @cached_property
    def _source_places(self) -> dict[tuple[str, str], int]:
        return {source: place for place, source in enumerate(self.grouping.sources)}

    @cached_property
    def _places(self) -> dict[Stratum, int]:
        return {stratum: place for place, stratum in enumerate(self._items)}

    @cached_property
    def grouping(self) -> Grouping:
        queries: dict[str, int] = {}
        sources: dict[tuple[str, str], int] = {}
        query = np.empty(len(self), dtype=np.int64)
        source = np.empty(len(self), dtype=np.int64)
        for place, stratum in enumerate(self._items):
            query[place] = queries.setdefault(stratum.query, len(queries))
            source[place] = sources.setdefault(stratum[:2], len(sources))
        of_source = np.zeros(len(sources), dtype=np.int64)
        of_source[source] = query
        for column in (query, source, of_source):
            column.flags.writeable = False  # they are shared
        return Grouping(tuple(queries), tuple(sources), query, source, of_source)


@dataclass(frozen=True, slots=True)
class Plan:
    """An admission rate in [0, 1] for each stratum, and what one of its tuples is worth.

    A stratum that the plan does not list is admitted at ``default_rate``. Of a query in
    ``unlisted`` the plan lists only the groups that are thinned; the others are admitted at the
    rate that stands there.
    """

    version: int = 0
    strata: Strata = field(default_factory=Strata)
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

    @property
    def thinned(self) -> frozenset[str]:
        """The queries of which the plan lists a stratum that is not admitted whole."""
        grouping = self.strata.grouping
        places = np.unique(grouping.query[self.rates < 1.0]).tolist()
        return frozenset(grouping.queries[place] for place in places)

    def beside_others(self) -> Floats:
        """Answers the worth of a tuple of each stratum, if its query's average tuple has 1.

        What a tuple is worth falls while its source sends more. Within a row, that would count the
        busy part of a window for too little; what is left here is how the sources of a query
        differ, and where there is one, nothing.

        >>> strata = Strata([Stratum("q", "slow"), Stratum("q", "fast"), Stratum("other", "s")])
        >>> Plan(1, strata, np.ones(3), np.array([0.25, 0.125, 0.001])).beside_others().tolist()
        [1.5, 0.75, 1.0]
        """
        grouping = self.strata.grouping
        tuples = np.zeros(len(grouping.sources))  # of each source, but for a factor of the query's
        tuples[grouping.source] = np.divide(
            1.0, self.sic, out=np.zeros(self.sic.size), where=self.sic > 0
        )
        queries, counts = len(grouping.queries), tuples > 0
        sources = np.bincount(grouping.query_of_source, counts, queries)
        mean = np.bincount(grouping.query_of_source, tuples, queries) / np.maximum(sources, 1.0)
        alone = (sources <= 1)[grouping.query]
        return np.where(alone, 1.0, self.sic * mean[grouping.query])

    def rate(self, stratum: Stratum) -> float:
        """Answers the rate of one stratum, for people and tests; gates look up all at once."""
        place = self.strata.place(stratum)
        return self.default_of(stratum.query) if place < 0 else float(self.rates[place])

    def short(self, queries: Collection[str]) -> "Plan":
        """Answers the same plan with only what is thinned of these queries.

        A group that is not counted by itself has the rate of all those others.
        """
        if not queries:
            return self
        others = {
            s.query: float(rate)
            for s, rate in zip(self.strata, self.rates, strict=True)
            if s.group == OTHER_GROUPS
        }
        unlisted = {query: others.get(query, 1.0) for query in queries}
        listed = np.array(
            [
                s.query not in unlisted or (s.group != OTHER_GROUPS and rate < 1.0)
                for s, rate in zip(self.strata, self.rates, strict=True)
            ],
            dtype=np.bool_,
        )
        return replace(
            self,
            strata=self.strata.only(listed),
            rates=self.rates[listed],
            sic=self.sic[listed],
            unlisted=unlisted,
        )

    def default_of(self, query: str) -> float:
        """Answers the rate of a query's strata that are not listed."""
        return self.unlisted.get(query, self.default_rate)


class Count(NamedTuple):
    """Tuples of one stratum in one batch; what is missing from ``admitted`` was shed."""

    arrived: int
    admitted: int


@dataclass(frozen=True, slots=True, eq=False)
class Tally(Mapping[Stratum, Count]):
    """Counts of many strata in columns: a mapping for who reads one, arrays for who sums all."""

    strata: Strata
    arrived: Floats
    admitted: Floats

    def __getitem__(self, stratum: Stratum) -> Count:
        place = self.strata.place(stratum)
        if place < 0:
            raise KeyError(stratum)
        return Count(int(self.arrived[place]), int(self.admitted[place]))

    def __iter__(self) -> Iterator[Stratum]:
        return iter(self.strata)

    def __len__(self) -> int:
        return len(self.strata)

    def items(self) -> ItemsView[Stratum, Count]:
        """Answers all at once, which is many times as fast as one by one."""
        columns = (column.astype(np.int64).tolist() for column in (self.arrived, self.admitted))
        return dict(zip(self.strata, map(Count, *columns), strict=True)).items()

    def thinned(self, share: float | Floats) -> "Tally":
        """Answers the counts with only this share of the tuples admitted, or of each stratum's."""
        whole = isinstance(share, float) and share == 1.0
        return self if whole else replace(self, admitted=self.admitted * share)

    @classmethod
    def of(cls, counts: Mapping[Stratum, Count]) -> "Tally":
        if isinstance(counts, cls):
            return counts
        columns = np.array(list(counts.values()), dtype=np.float64).reshape(-1, 2).T
        return cls(Strata(counts), columns[0], columns[1])


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch that has finished.

    ``seconds`` is how long it took by the clock. ``work`` is the processor time that its tasks
    used, where the engine tells (several streams on one site compete for that). ``overhead`` is
    the part of ``seconds`` that has nothing to do with tuples. ``span`` is the part between the
    first tuple and the last, where the gate timed them.
    """

    stream: str
    number: int
    started: float
    seconds: float
    counts: Mapping[Stratum, Count]
    work: float | None = None
    overhead: float | None = None
    span: float | None = None
    costs: Mapping[Stratum, float] = field(default_factory=dict)
    """Seconds that a guard measured for a tuple of a stratum."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """The event time of the newest tuple, of queries whose windows go by it."""
    values: Mapping[Stratum, Sequence[float]] = field(default_factory=dict)
    """A sample of the values of which a query wants the mean."""
    rates: Mapping[Stratum, float] = field(default_factory=dict)
    """The rates that were in force for the groups of a window."""
    backlog: float | None = None
    """Tuples that waited at the sources beyond it when it began; None where these cannot tell."""
    read_limited: bool = False
    """Whether a limit on what a batch may read had cut it short."""
    in_time: float = 1.0
    """The share of the admitted tuples that were not too late for their windows. A late tuple has
    cost what others do, and carries nothing to the result."""

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

    stream: str
    waited: float
    """Seconds since the stream's last batch started: how old the oldest waiting tuple can be."""
    arrived: int | None = None
    waiting: Tally | None = None
    """The strata that wait, where the caller has counted them; none of them is admitted yet."""
    backlog: float | None = None
    """Tuples that wait at the sources beyond this batch; None where these cannot tell."""
    read_limited: bool = False
    """Whether a limit on what a batch may read has cut it short, so that more waits."""


@dataclass(frozen=True, slots=True)
class CoordinatorNews:
    """What a query's coordinator said: its result SIC, and when that was true."""

    sic: float
    at: float


@dataclass(frozen=True, slots=True)
class Report:
    """All that the controller hears: the time, what finished, what starts, what others said."""

    now: float
    finished: tuple[Batch, ...] = ()
    starting: Upcoming | None = None
    told: Mapping[str, CoordinatorNews] = field(default_factory=dict)
    """What the coordinator of a query said, by query."""
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """What a whole STW of a query's source carries of the query's SIC, where that is known: one
    over all its sources, wherever they are, or, of partial results, what these brought along. The
    sources that are seen here share evenly unless the report says otherwise."""
    partial: frozenset[tuple[str, str]] = frozenset()
    """Queries' sources that are partial results of other sites."""
    gone: tuple[str, ...] = ()
    """Streams that stopped or failed: their share goes to the others."""

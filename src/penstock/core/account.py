"""What arrived and what was kept over the sliding STW, and the SIC that follows from it.

Source rates are unknown and move, so n_s is counted over the STW itself, which slides once an
interval (THEMIS, section 6). A query's SIC is the mean over its sources of kept over arrived:
the sum of equation 2 with the n_s that turned out, hence never above 1, and 1 exactly when
nothing was shed (law 3). A source that sent nothing in the STW has nothing to lose and does not
count. Where a query has sources elsewhere, or is fed with partial results, somebody says which
share of its SIC each of the sources that are seen here carries.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat

import numpy as np

from penstock.core.types import Bools, Count, Floats, Ints, Stratum, Tally

Shares = Mapping[tuple[str, str], float]
"""By query and source: the SIC that a whole STW of it carries."""


def _empty() -> Floats:
    return np.zeros((0, 2, 0))


@dataclass(frozen=True)
class Index:
    """Strata in a fixed order, and which query and source each belongs to."""

    strata: tuple[Stratum, ...] = ()
    place: Mapping[Stratum, int] = field(default_factory=dict)
    queries: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    query: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Of each stratum, an index into ``queries``."""
    source: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Of each stratum, an index into ``sources``."""
    query_of_source: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    asked: list[tuple[tuple[Stratum, ...], Ints]] = field(
        default_factory=list, compare=False, repr=False
    )
    """The last question to ``places``, and the answer: a site asks the same all the time."""

    @classmethod
    def of(cls, strata: tuple[Stratum, ...]) -> "Index":
        queries: dict[str, int] = {}
        sources: dict[tuple[str, str], int] = {}
        query = np.empty(len(strata), dtype=np.int64)
        source = np.empty(len(strata), dtype=np.int64)
        for i, stratum in enumerate(strata):
            query[i] = queries.setdefault(stratum.query, len(queries))
            source[i] = sources.setdefault(stratum[:2], len(sources))
        of_source = np.zeros(len(sources), dtype=np.int64)
        of_source[source] = query
        place = {stratum: i for i, stratum in enumerate(strata)}
        return cls(strata, place, tuple(queries), tuple(sources), query, source, of_source)

    def places(self, strata: tuple[Stratum, ...]) -> Ints:
        """Where these strata are; -1 where they are not."""
        if not self.asked or self.asked[0][0] is not strata:
            found = [self.place.get(stratum, -1) for stratum in strata]
            self.asked[:] = [(strata, np.array(found, dtype=np.int64))]
        return self.asked[0][1]

    def of_sources(self, some: frozenset[tuple[str, str]]) -> Bools:
        """Which strata belong to one of these sources."""
        if not some:
            return np.zeros(len(self.strata), dtype=np.bool_)
        mine = np.fromiter(map(some.__contains__, self.sources), np.bool_, len(self.sources))
        return mine[self.source]


@dataclass(frozen=True)
class Account:
    """A ring of slots, one an interval, with arrivals and admissions of each stratum.

    A stratum that was not seen for a whole STW is forgotten, so memory is bounded by what is
    alive. Batches may come late or out of order: each is booked in the slot of its own time,
    and one that is older than the STW is no news any more.
    """

    interval: float
    stw: float
    index: Index = field(default_factory=Index)
    slot: int = 0
    """The number of the newest slot; its column in the ring is ``slot % slots``."""
    since: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """The slot in which each stratum was first seen."""
    ring: Floats = field(default_factory=_empty)
    """Indexed by slot, by arrived (0) or admitted (1), and by stratum."""

    def is_of(self, interval: float, stw: float) -> bool:
        """Whether it fits a site with these settings, which may have changed with a restart."""
        return (self.interval, self.stw) == (interval, stw)

    @property
    def slots(self) -> int:
        return max(1, round(self.stw / self.interval))

    @property
    def strata(self) -> tuple[Stratum, ...]:
        return self.index.strata

    def record(self, now: float, counts: Mapping[Stratum, Count]) -> "Account":
        """With these tuples booked at time ``now``."""
        number = int(now // self.interval)
        account = self.slide(now)
        if number <= account.slot - account.slots:
            return account
        tally = Tally.of(counts)
        places = account.index.places(tally.strata)
        new = np.flatnonzero((places < 0) & (tally.arrived > 0))
        if new.size:
            places = places.copy()
            places[new] = len(account.strata) + np.arange(new.size)
            account = account._with_new(tuple(tally.strata[i] for i in new), number)
        known = places >= 0
        ring = account.ring.copy() if account.ring is self.ring else account.ring
        ring[number % account.slots, 0, places[known]] += tally.arrived[known]
        ring[number % account.slots, 1, places[known]] += tally.admitted[known]
        return replace(account, ring=ring)

    def _with_new(self, strata: tuple[Stratum, ...], number: int) -> "Account":
        return replace(
            self,
            index=Index.of(self.strata + strata),
            ring=np.pad(self.ring, ((0, 0), (0, 0), (0, len(strata)))),
            since=np.concatenate((self.since, np.full(len(strata), number))),
        )

    def slide(self, now: float) -> "Account":
        """With everything older than an STW forgotten."""
        number = int(now // self.interval)
        if not self.ring.shape[0]:
            return replace(self, slot=number, ring=np.zeros((self.slots, 2, 0)))
        passed = min(number - self.slot, self.slots)
        if passed <= 0:
            return self
        ring = self.ring.copy()
        ring[[(number - i) % self.slots for i in range(passed)]] = 0.0
        alive = ring[:, 0].sum(axis=0) > 0
        if alive.all():
            return replace(self, slot=number, ring=ring)
        strata = tuple(s for s, keep in zip(self.strata, alive, strict=True) if keep)
        return replace(
            self,
            slot=number,
            ring=ring[:, :, alive],
            index=Index.of(strata),
            since=self.since[alive],
        )

    def including(self, strata: Iterable[Stratum]) -> "Account":
        """With these strata listed too, though nothing of them came."""
        known = set(self.strata)
        new = tuple(stratum for stratum in strata if stratum not in known)
        return self._with_new(new, self.slot) if new else self

    @cached_property
    def _sums(self) -> Floats:
        sums = np.asarray(self.ring.sum(axis=0))
        sums.flags.writeable = False  # it is shared
        return sums

    def arrived(self) -> Floats:
        """Tuples of each stratum in the STW."""
        return np.asarray(self._sums[0])

    def admitted(self) -> Floats:
        return np.asarray(self._sums[1])

    def seen(self) -> Floats:
        """The part of the STW over which each stratum has been there."""
        return np.clip((self.slot - self.since + 1) / self.slots, 1 / self.slots, 1.0)

    def by_query(self, shares: Shares | None = None) -> "Standing":
        return Standing.of(self.index, self.arrived(), self.admitted(), self.seen(), shares or {})

    def sic(self, shares: Shares | None = None) -> dict[str, float]:
        """Each query's SIC over the STW."""
        return self.by_query(shares).by_name()


@dataclass(frozen=True, slots=True)
class Standing:
    """The account summed up by query: the input of the fairness policy."""

    queries: tuple[str, ...]
    query: Ints
    """Of each stratum, an index into ``queries``."""
    sic: Floats
    """Of each query, over the STW."""
    tuple_sic: Floats
    """Of one tuple of each stratum: ``1 / (n_s · |S|)`` with n_s for a whole STW."""
    gained: Floats
    """By each stratum for its query, over the STW."""

    @classmethod
    def of(
        cls, index: Index, arrived: Floats, admitted: Floats, seen: Floats, shares: Shares
    ) -> "Standing":
        source, query = index.source, index.query_of_source
        sources, queries = len(index.sources), len(index.queries)
        tuples = np.bincount(source, arrived, sources)
        kept = np.bincount(source, admitted, sources)
        active = (tuples > 0).astype(np.float64)
        share = 1.0 / np.maximum(np.bincount(query, active, queries), 1.0)[query]
        if shares:
            told = np.fromiter(map(shares.get, index.sources, repeat(np.nan)), np.float64, sources)
            share = np.where(np.isnan(told), share, told)
        part = np.divide(kept, tuples, out=np.zeros(sources), where=tuples > 0)
        sic = np.bincount(query, share * part, queries)
        age = np.zeros(sources)
        np.maximum.at(age, source, seen)  # a source is as old as its oldest stratum
        worth = age * share / np.maximum(tuples, 1.0)
        gained = (share / np.maximum(tuples, 1.0))[source] * admitted
        return cls(index.queries, index.query, np.minimum(sic, 1.0), worth[source], gained)

    def by_name(self) -> dict[str, float]:
        return dict(zip(self.queries, self.sic.tolist(), strict=True))

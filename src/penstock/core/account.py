"""What arrived and what was admitted over the sliding STW, and the SIC that follows from it.

Source rates are unknown and move, so n_s is counted over the STW itself, which slides once an
interval (THEMIS, section 6). ``standing`` says how SIC follows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from penstock.core.declared import Declared, Silence, slots_until_silent, whole_queries
from penstock.core.standing import Shares, Sources, Standing
from penstock.core.types import Count, Floats, Ints, Strata, Stratum, Tally


def _empty() -> Floats:
    return np.zeros((0, 2, 0))


@dataclass(frozen=True)
class Account:
    """A ring of slots, one an interval, with arrivals and admissions of each stratum.

    The account forgets a stratum of which nothing came for a whole STW, so memory is bounded by
    what is alive. Batches may come late or out of order: the account books each in the slot of
    its own time, and leaves out one that is older than the STW.
    """

    interval: float
    stw: float
    strata: Strata = field(default_factory=Strata)
    slot: int = 0
    """The number of the newest slot; its column in the ring is ``slot % slots``."""
    since: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """The slot in which each stratum was first seen."""
    ring: Floats = field(default_factory=_empty)
    """Indexed by slot, by arrived (0) or admitted (1), and by stratum."""
    began: Mapping[str, int] = field(default_factory=dict)
    """The slot of the first tuple of each query since it last had none for a whole STW."""

    def is_of(self, interval: float, stw: float) -> bool:
        """Answers whether it fits these settings, which may change when a site is started again."""
        return (self.interval, self.stw) == (interval, stw)

    @property
    def slots(self) -> int:
        return max(1, round(self.stw / self.interval))

    def record(self, now: float, counts: Mapping[Stratum, Count]) -> "Account":
        """Answers the account with these tuples booked at time ``now``."""
        number = int(now // self.interval)
        account = self.slide(now)
        if number <= account.slot - account.slots:
            return account
        tally = Tally.of(counts)
        places = account.strata.places(tally.strata)
        new = np.flatnonzero((places < 0) & (tally.arrived > 0))
        if new.size:
            places = places.copy()
            places[new] = len(account.strata) + np.arange(new.size)
            account = account._with_new(tuple(tally.strata[i] for i in new.tolist()), number)
        known = places >= 0
        ring = account.ring.copy() if account.ring is self.ring else account.ring
        ring[number % account.slots, 0, places[known]] += tally.arrived[known]
        ring[number % account.slots, 1, places[known]] += tally.admitted[known]
        return replace(account, ring=ring)

    def _with_new(self, strata: tuple[Stratum, ...], number: int) -> "Account":
        began = dict.fromkeys((stratum.query for stratum in strata), number) | dict(self.began)
        return replace(
            self,
            began=began,
            strata=Strata((*self.strata, *strata)),
            ring=np.pad(self.ring, ((0, 0), (0, 0), (0, len(strata)))),
            since=np.concatenate((self.since, np.full(len(strata), number))),
        )

    def as_of(self, now: float) -> "Account":
        """Answers the same account for a clock that may have been set back by more than an STW.

        Its slots then get the numbers of the new time: what was booked stays, and ages on from now.
        Otherwise it would wait, unchanged, until the clock is where it was.
        """
        number = int(now // self.interval) - 1  # of the newest slot; the one after it is empty
        if not self.ring.shape[0] or number >= self.slot - self.slots:
            return self
        back = self.slot - number
        places = [(number - i + back) % self.slots for i in range(self.slots)]
        ring = np.empty_like(self.ring)
        ring[[(number - i) % self.slots for i in range(self.slots)]] = self.ring[places]
        began = {query: slot - back for query, slot in self.began.items()}
        return replace(self, slot=number, ring=ring, since=self.since - back, began=began)

    def slide(self, now: float) -> "Account":
        """Answers the account with everything forgotten that is older than an STW."""
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
        strata = self.strata.only(alive)
        return replace(
            self,
            slot=number,
            ring=ring[:, :, alive],
            strata=strata,
            since=self.since[alive],
            began={query: self.began[query] for query in strata.grouping.queries},
        )

    def including(self, strata: Iterable[Stratum]) -> "Account":
        """Answers the account with these strata listed too, though nothing of them came."""
        new = tuple(stratum for stratum in strata if stratum not in self.strata)
        return self._with_new(new, self.slot) if new else self

    @cached_property
    def _sums(self) -> Floats:
        sums = np.asarray(self.ring.sum(axis=0))
        sums.flags.writeable = False  # it is shared
        return sums

    def arrived(self) -> Floats:
        """Answers how many tuples of each stratum arrived in the STW."""
        return np.asarray(self._sums[0])

    def admitted(self) -> Floats:
        """Answers how many tuples of each stratum were admitted in the STW."""
        return np.asarray(self._sums[1])

    def seen(self) -> Floats:
        """Answers over which part of the STW each stratum has been there."""
        return np.clip((self.slot - self.since + 1) / self.slots, 1 / self.slots, 1.0)

    def by_query(
        self,
        shares: Shares | None = None,
        declared: Declared | None = None,
        passing: Sources = frozenset(),
    ) -> Standing:
        """Sums the account up by query.

        ``shares`` says what a source carries, where known, and ``declared`` which sources there
        are; a query that declares none has those that sent something. What comes from sources in
        ``passing`` only passes through this site.
        """
        return Standing.of(
            self.strata,
            self.arrived(),
            self.admitted(),
            self.seen(),
            shares or {},
            self._silence(declared) if declared and self.strata else None,
            passing,
        )

    def _silence(self, declared: Declared) -> Silence:
        grouping = self.strata.grouping
        ends = [(self.slot - i) % self.slots for i in range(slots_until_silent(self.slots))]
        active, late = (
            np.bincount(grouping.source, arrived, len(grouping.sources)) > 0
            for arrived in (self.arrived(), self.ring[ends, 0].sum(axis=0))
        )
        whole = whole_queries(grouping, self.began, self.slot - self.slots)
        return Silence.of(self.strata, active, late, whole, declared)

    def sic(
        self, shares: Shares | None = None, declared: Declared | None = None
    ) -> dict[str, float]:
        """Answers each query's SIC over the STW."""
        return self.by_query(shares, declared).by_name()

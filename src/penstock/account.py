"""What arrived and what was kept over the sliding STW, and the SIC that follows from it.

Source rates are unknown and move, so n_s is counted over the STW itself, which slides once an
interval (THEMIS, section 6). A query's SIC is the mean over its sources of kept over arrived:
the sum of equation 2 with the n_s that turned out, hence never above 1, and 1 exactly when
nothing was shed (law 3). A source that sent nothing in the STW has nothing to lose and does not
count.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.types import Count, Floats, Ints, Stratum


def _empty() -> Floats:
    return np.zeros((0, 2, 0))


@dataclass(frozen=True)
class Account:
    """A ring of slots, one an interval, with arrivals and admissions of each stratum.

    A stratum that was not seen for a whole STW is forgotten, so memory is bounded by what is
    alive. Batches may come late or out of order: each is booked in the slot of its own time,
    and one that is older than the STW is no news any more.
    """

    interval: float
    stw: float
    strata: tuple[Stratum, ...] = ()
    slot: int = 0
    """The number of the newest slot; its column in the ring is ``slot % slots``."""
    since: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """The slot in which each stratum was first seen."""
    ring: Floats = field(default_factory=_empty)
    """Indexed by slot, by arrived (0) or admitted (1), and by stratum."""

    @property
    def slots(self) -> int:
        return max(1, round(self.stw / self.interval))

    def record(self, now: float, counts: Mapping[Stratum, Count]) -> "Account":
        """With these tuples booked at time ``now``."""
        number = int(now // self.interval)
        account = self.slide(now)
        if number <= account.slot - account.slots:
            return account
        index = {stratum: i for i, stratum in enumerate(account.strata)}
        new = tuple(stratum for stratum in counts if stratum not in index)
        index.update({stratum: len(index) + i for i, stratum in enumerate(new)})
        ring = np.pad(account.ring, ((0, 0), (0, 0), (0, len(new))))
        if counts:
            columns = [index[stratum] for stratum in counts]
            booked = np.array(list(counts.values()), dtype=np.float64)
            ring[number % account.slots][:, columns] += booked.T
        since = np.concatenate((account.since, np.full(len(new), number)))
        return replace(account, strata=account.strata + new, ring=ring, since=since)

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
            self, slot=number, ring=ring[:, :, alive], strata=strata, since=self.since[alive]
        )

    def arrived(self) -> Floats:
        """Tuples of each stratum in the STW."""
        return np.asarray(self.ring[:, 0].sum(axis=0))

    def admitted(self) -> Floats:
        return np.asarray(self.ring[:, 1].sum(axis=0))

    def seen(self) -> Floats:
        """The part of the STW over which each stratum has been there."""
        return np.clip((self.slot - self.since + 1) / self.slots, 1 / self.slots, 1.0)

    def by_query(self) -> "Standing":
        return Standing.of(self.strata, self.arrived(), self.admitted(), self.seen())

    def sic(self) -> dict[str, float]:
        """Each query's SIC over the STW."""
        standing = self.by_query()
        return dict(zip(standing.queries, standing.sic.tolist(), strict=True))


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

    @classmethod
    def of(
        cls, strata: tuple[Stratum, ...], arrived: Floats, admitted: Floats, seen: Floats
    ) -> "Standing":
        query_index: dict[str, int] = {}
        source_index: dict[tuple[str, str], int] = {}
        query = np.empty(len(strata), dtype=np.int64)
        source = np.empty(len(strata), dtype=np.int64)
        for i, stratum in enumerate(strata):
            query[i] = query_index.setdefault(stratum.query, len(query_index))
            source[i] = source_index.setdefault(stratum[:2], len(source_index))
        sources = len(source_index)
        tuples = np.bincount(source, arrived, sources)
        kept = np.bincount(source, admitted, sources)
        of_query = np.zeros(sources, dtype=np.int64)
        of_query[source] = query
        active = (tuples > 0).astype(np.float64)
        sources_of = np.maximum(np.bincount(of_query, active, len(query_index)), 1.0)
        share = np.divide(kept, tuples, out=np.zeros(sources), where=tuples > 0)
        sic = np.bincount(of_query, share, len(query_index)) / sources_of
        part = np.zeros(sources)
        np.maximum.at(part, source, seen)  # a source is as old as its oldest stratum
        worth = part / (np.maximum(tuples, 1.0) * sources_of[of_query])
        return cls(tuple(query_index), query, np.minimum(sic, 1.0), worth[source])

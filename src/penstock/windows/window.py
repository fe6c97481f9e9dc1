"""What is known of a query's window while it fills.

Windows are cut into panes of one slide. Of a window that ends with the current pane, a ``Window``
knows how many tuples of each group came and were admitted. It counts the heaviest groups one by
one and all others together, since a group is only thinned when it is heavy. Of the rest of the
pane it expects so many tuples, by when in the pane they usually come, mixed like those that came
so far.

The pane before is a mere starting point. It counts as much as a thirtieth of a pane, and once a
batch of this pane was seen, for no group that was not in it: concepts drift.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.account import Account
from penstock.core.demand import Filling
from penstock.core.types import OTHER_GROUPS, Count, Floats, Strata, Stratum
from penstock.core.window_shedding import Drift
from penstock.windows.concept import Concept
from penstock.windows.join import matched
from penstock.windows.moments import Moments

MIX_OF_LAST_PANE_PANES = 1 / 30
"""What the pane before counts for the mix of groups."""
VOLUME_OF_LAST_PANE_PANES = 0.05
"""What the pane before counts for how many tuples there will be."""
MOST_GROUPS = 10_000
"""Groups that are counted one by one."""
VOLUME_POINTS = 64
"""The points in a pane at which its volume is remembered."""
NEW_GROUP_QUOTA_SHARE = 1e6
"""The share of a quota of a group that is new: admitted whole while there is any budget."""


def _nothing() -> Floats:
    return np.zeros(VOLUME_POINTS)


@dataclass(frozen=True)
class Window:
    """One query's windows, as far as they have filled. Frozen: each batch makes a new one."""

    concept: Concept
    panes: Account
    losses: Account
    """As ``panes``, with the variance ``n (1/r - 1)`` of a batch in the place of admissions."""
    before: Mapping[Stratum, float] = field(default_factory=dict)
    """The last pane's heaviest groups, as shares of it."""
    volume_before: Floats = field(default_factory=_nothing)
    """How many tuples came in each part of the last pane."""
    volume: Floats = field(default_factory=_nothing)
    moments: Moments = field(default_factory=Moments)
    clock: float = -np.inf
    """The time of the newest tuple."""
    step: float = 0.0
    """How far the clock moves in a batch, of late."""
    drift: Drift | None = None
    """From the last pane but one to the last."""

    @classmethod
    def of(cls, concept: Concept) -> "Window":
        empty = Account(concept.pane, concept.length)
        return cls(concept, empty, empty)

    def record(
        self,
        clock: float,
        counts: Mapping[Stratum, Count],
        values: Mapping[Stratum, Iterable[float]] | None = None,
        rates: Mapping[Stratum, float] | None = None,
    ) -> "Window":
        """Answers the window with a batch whose newest tuple is of time ``clock``.

        ``values`` are some values of its groups, ``rates`` those of the groups that were thinned.
        Where time goes back by a whole window, a single tuple with a wrong time had moved it, or
        the stream begins again: then the window begins again, too.
        """
        if clock < self.clock - self.concept.length:
            return Window.of(self.concept).record(clock, counts, values, rates)
        clock = max(clock, self.clock)
        window = self.at(clock)
        step = 0.0 if not np.isfinite(self.clock) else clock - self.clock
        volume = window.volume.copy()
        volume[window._point(clock)] += sum(count.arrived for count in counts.values())
        panes = _heaviest(window.panes.record(clock, counts))
        lost = {
            s: Count(counts[s].arrived, round(counts[s].arrived * (1.0 / rate - 1.0)))
            for s, rate in (rates or {}).items()
            if s in counts and rate > 0
        }
        moments = window.moments.update(values or {}).only(panes.strata)
        return replace(
            window,
            panes=panes,
            losses=_heaviest(window.losses.record(clock, lost)),
            volume=volume,
            moments=moments,
            clock=clock,
            step=(window.step + step) / 2 if window.step else step,
        )

    def at(self, time: float) -> "Window":
        """Answers the window when the clock has come to ``time``, maybe in a new pane."""
        number = int(time // self.concept.pane)
        if not self.panes.ring.shape[0]:
            return replace(
                self,
                panes=self.panes.slide(time),
                losses=self.losses.slide(time),
                clock=max(time, self.clock),
            )
        if number <= self.panes.slot:
            return self
        total = max(self.volume.sum(), 1.0)
        shares = dict(zip(self.panes.strata, (self._of_pane() / total).tolist(), strict=True))
        followed = number == self.panes.slot + 1
        passed = {s: share for s, share in shares.items() if share > 0}
        return replace(
            self,
            panes=self.panes.slide(time),
            losses=self.losses.slide(time),
            before=passed if followed else {},
            volume_before=self.volume if followed else _nothing(),
            volume=_nothing(),
            moments=self.moments.faded(),
            drift=Drift.between(self.before, passed) if self.before and passed else None,
        )

    def ahead(self) -> float:
        """Answers the time of the next batch, if time goes on as it did of late."""
        return self.clock + self.step

    @property
    def groups(self) -> tuple[Stratum, ...]:
        """The groups that are counted one by one, and the one for all others."""
        return tuple(dict.fromkeys((*self.panes.strata, *self._starting_point())))

    def rest(self) -> float:
        """Answers how many tuples are still to come in this pane."""
        known, passed = float(self.volume_before.sum()), self._passed()
        if known == 0.0 and passed <= 0.0:
            return 0.0
        weight = VOLUME_OF_LAST_PANE_PANES if known else 0.0
        total = (self.volume.sum() + weight * known) / (passed + weight)
        return float(total * (1.0 - passed))

    def filling(self, strata: tuple[Stratum, ...]) -> tuple[Filling, Floats]:
        """Answers how far these strata have filled, and the share of each in what is to come."""
        place = np.array([self.panes.strata.place(s) for s in strata], dtype=np.int64)
        arrived, admitted, pane = (
            np.append(counts, 0.0)[place]
            for counts in (self.panes.arrived(), self.panes.admitted(), self._of_pane())
        )
        start = self._starting_point()
        seen, rest = float(self.volume.sum()), self.rest()
        extra = MIX_OF_LAST_PANE_PANES * (seen + rest)
        expected = pane + extra * np.array([start.get(stratum, 0.0) for stratum in strata])
        shares = expected / max(seen + extra, 1e-12)
        share = np.where((place < 0) & (expected == 0), NEW_GROUP_QUOTA_SHARE, 1.0)
        others = np.array([stratum.group == OTHER_GROUPS for stratum in strata], dtype=np.bool_)
        share[others] = np.maximum(arrived + rest * shares, 1.0)[others]  # each a group, perhaps
        if self.concept.join:
            share = np.minimum(share, matched(strata, arrived, self._passed()))
        return Filling(arrived, admitted, rest * shares, share), shares

    def lost(self, strata: tuple[Stratum, ...]) -> Floats:
        """Answers the variance that thinning has cost each group's count so far."""
        found = dict(zip(self.losses.strata, self.losses.admitted().tolist(), strict=True))
        return np.array([found.get(stratum, 0.0) for stratum in strata])

    def _starting_point(self) -> Mapping[Stratum, float]:
        if not self.volume.any():
            return self.before
        return {s: self.before[s] for s in self.panes.strata if s in self.before}

    def _of_pane(self) -> Floats:
        """Answers the arrivals of each group in the current pane."""
        ring = self.panes.ring
        return ring[self.panes.slot % self.panes.slots, 0] if ring.shape[0] else np.zeros(0)

    def _point(self, time: float) -> int:
        part = time / self.concept.pane % 1.0
        return min(int(part * VOLUME_POINTS), VOLUME_POINTS - 1)

    def _passed(self) -> float:
        """Answers which part of the pane's tuples has come, by how it was in the last one."""
        if not self.volume.any():
            return 0.0
        if self.volume_before.any():
            point = self._point(self.clock)
            return float(self.volume_before[: point + 1].sum() / self.volume_before.sum())
        return max(self.clock / self.concept.pane % 1.0, 1e-6)


def _heaviest(panes: Account) -> Account:
    """Answers the account with so many groups that memory is bounded."""
    if len(panes.strata) <= MOST_GROUPS:
        return panes
    keep = np.sort(np.argsort(-panes.arrived(), kind="stable")[: MOST_GROUPS * 3 // 4])
    strata = Strata(panes.strata[place] for place in keep.tolist())
    return replace(panes, strata=strata, ring=panes.ring[:, :, keep], since=panes.since[keep])

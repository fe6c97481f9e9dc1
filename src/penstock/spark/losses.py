"""What a query loses behind its gates, of one batch after another.

A tuple that was admitted may still not reach the result. A guard sheds it or fails on it (see
``guards``). It comes later than the watermark allows, and a stateful operator drops it. Or
``process_windows`` leaves it out. All of that is taken off what the gates admitted, in the batch in
which it was told, as a share of the batch's tuples. Where a query has several gates, only those
bear a loss whose tuples come to where it happened.

*Late.* A tuple without an event time has no window, and ``process_windows`` leaves it out. Spark
tells how many rows its stateful operators dropped. Before ``process_windows``, in
joins and where duplicates are dropped these are rows. A streaming aggregation drops late *groups*,
after it has added up a batch's rows of each: then the figure is a lower bound of what was lost, one
row a group. A tuple in k sliding windows is k rows, each with one k-th of its SIC (THEMIS, section
6), and may be late for some of them only.

*Windows.* A window is shed when it is over, many batches after its tuples came. So the share that
the windows which ended last have kept stands for the tuples that are on their way; until the first
has ended, the share that was asked for. A tuple that goes into several ``process_windows`` reaches
the mean of what these keep.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from penstock.core.types import Batch, Bools, Floats, Strata, Stratum, Tally
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys
from penstock.spark.progress import Progress

ENTERED, LEFT = "penstock_windows_entered_", "penstock_windows_left_"
"""How the names begin under which a ``process_windows`` observes what comes, and what it kept."""
Number = float | None
Observed = Mapping[str, Mapping[str, Number]]
Places = Mapping[str, tuple[Keys, ...]]
"""Of a kind of stateful operator, or of a ``process_windows`` by the name that it observes what
comes under: the gates whose tuples come there; one that is missing has the tuples of all."""


class Lost(NamedTuple):
    """How many of a batch's admitted tuples were lost, and where."""

    guards: float = 0.0
    late: float = 0.0
    windows: float = 0.0


def gates_in_front(below: Mapping[str, Set[str]], gates: Sequence[Gate]) -> Places:
    """Says whose tuples come to each place, from what is observed ``below`` it."""
    found = {place: tuple(g.keys for g in gates if g.name in below[place]) for place in below}
    return {place: keys for place, keys in found.items() if 0 < len(keys) < len(gates)}


@dataclass
class Losses:
    """Follows one Spark query."""

    copies: Mapping[str, int] = field(default_factory=dict)
    """By kind of stateful operator: into how many rows a tuple is copied in front of it."""
    places: Places = field(default_factory=dict)
    _kept: dict[str, float] = field(default_factory=dict)
    """By ``process_windows``: the share of its tuples that its last windows kept."""

    def after(self, gated: Batch, guarded: Batch, progress: Progress) -> tuple[Tally, float, Lost]:
        """Returns what of a batch reaches the result, the share that was in time, and the losses.

        ``gated`` is the batch as its gates admitted it, ``guarded`` without what guards lost.
        """
        tally = Tally.of(guarded.counts)
        total = float(tally.admitted.sum())
        late = self._late(tally, progress)
        kept = self._windows(tally.strata, progress)
        lost_late = float((tally.admitted * late).sum())
        reached = tally.thinned((1.0 - late) * kept)
        left = total - lost_late
        lost = Lost(
            guards=gated.admitted - total,
            late=lost_late,
            windows=left - float(reached.admitted.sum()) if (kept < 1.0).any() else 0.0,
        )
        return reached, left / total if total else 1.0, lost

    def _late(self, tally: Tally, progress: Progress) -> Floats:
        """Returns the share of each stratum's tuples that came too late, or without a time."""
        entries = _observed(ENTERED, progress)
        without = {n: _share(m["without_time"], m["rows"]) for n, m in entries.items()}
        late = 1.0 - self._mean(tally.strata, {n: 1.0 - gone for n, gone in without.items()})
        for kind, rows in progress.late.items():
            if rows:
                mine = self._coming(kind, tally.strata)
                came = self._rows(mine, tally.strata, entries) or float(tally.admitted[mine].sum())
                late[mine] += rows / self.copies.get(kind, 1) / max(came, 1.0)
        return np.minimum(late, 1.0)

    def _rows(self, mine: Bools, strata: Strata, entries: Observed) -> float:
        """Returns how many rows entered the ``process_windows`` to which just these strata come."""
        known = {name: self._coming(ENTERED + name, strata) for name in entries}
        inside = [name for name, its in known.items() if not (its & ~mine).any()]
        if not inside or (np.logical_or.reduce([known[n] for n in inside]) != mine).any():
            return 0.0
        return sum(float(entries[name]["rows"] or 0) for name in inside)

    def _windows(self, strata: Strata, progress: Progress) -> Floats:
        """Returns the share that windows keep of each stratum's tuples that enter them now."""
        for name, metrics in _observed(ENTERED, progress).items():
            if metrics["keep"] is not None:
                self._kept.setdefault(name, float(metrics["keep"]))
        for name, metrics in _observed(LEFT, progress).items():
            if metrics["arrived"]:
                self._kept[name] = _share(metrics["kept"], metrics["arrived"])
        return self._mean(strata, self._kept)

    def _mean(self, strata: Strata, shares: Mapping[str, float]) -> Floats:
        """Returns for each stratum the mean over the ``process_windows`` that it comes to, or 1."""
        total, times = np.zeros(len(strata)), np.zeros(len(strata))
        for name, share in shares.items():
            mine = self._coming(ENTERED + name, strata)
            total[mine] += share
            times[mine] += 1
        return np.divide(total, times, out=np.ones(len(strata)), where=times > 0)

    def _coming(self, place: str, strata: Strata) -> Bools:
        """Marks the strata whose tuples come to a place."""
        keys = self.places.get(place)
        if keys is None:
            return np.ones(len(strata), dtype=np.bool_)
        grouping = strata.grouping
        each = [any(k.may_be(Stratum(*source)) for k in keys) for source in grouping.sources]
        return np.array(each, dtype=np.bool_)[grouping.source]


def _observed(prefix: str, progress: Progress) -> dict[str, Mapping[str, Number]]:
    """Returns what was observed under such names, by their number."""
    found = progress.observed.items()
    return {name.removeprefix(prefix): m for name, m in found if name.startswith(prefix)}


def _share(part: Number, whole: Number) -> float:
    return min(float(part or 0) / float(whole or 1), 1.0)

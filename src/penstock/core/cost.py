"""How long will so many tuples take? Two models, learnt while a stream runs."""

from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import numpy as np

from penstock.core.types import Floats

SURPRISE_LOG_RATIO = 0.25
"""A batch that is this far (in log time) from what was expected says that something changed."""
SLOW_SURPRISE_TRUST = 0.85
"""How much of a first slow batch is believed; a second one in a row is believed wholly."""
MOST_SLOWER_FACTOR, MOST_FASTER_FACTOR = 2.3, 1 / 16
"""The most that one batch may change all costs, so that no outlier ruins the model."""
MOST_CHEAPER_FACTOR = 2.0
"""The most by which one fit may lower a term."""
MOVED_LOAD_FACTOR = 3.0
"""By this factor a load has moved."""
LATEST_BATCHES = 3
"""Batches that a fit falls back to when it cannot explain the newest with all of them."""
NOISE_TIMES_SPREAD = 3.5
"""A batch within so many times the usual spread is noise; of such, one in two hundred is not."""
QUIET_LOG_SPREAD = 0.05
"""Where batches vary by more than this, a fit remembers more of them, in proportion."""
SPREAD_MEMORY = 0.9
"""How much of the usual spread is that of the batches before the last."""
MOST_SPREAD = 0.25
"""One batch counts for at most so much in the spread."""
PAUSE_LOG_RATIO = 1.4
"""A batch that is this far, a quarter or four times, from what was expected is no noise at all."""
YOUNG_BATCHES = 5
"""A model of fewer batches is fitted as well as it can be: a machine that starts changes fast."""
TASKS_BEGIN_SECONDS = 0.1
"""Tasks begin within so many seconds: so much of a span says nothing of tuples."""
FEWEST_TIMED = 200
"""Of fewer tuples it says little how long they were passing, and less what one of them costs."""
FEWEST_PRICED, UNKNOWN_TUPLE_SECONDS = 1000, 5e-6
"""Of a first batch with fewer tuples, one is taken to cost no more than so many seconds."""
SHED_COST_SHARE = 0.1
"""Until they are told apart, a tuple that is shed costs this share of one that is admitted."""
PULL_BATCHES = 0.005
"""The pull towards the terms as they were, in batches; a hundredth of it where these fail."""


class CostModel(Protocol):
    """What the controller needs of a cost model. A frozen value that can be pickled.

    A model counts tuples; ``seconds`` may be those of the clock or of processors. ``update``
    tells it of one more batch, with what the batch spent on anything but tuples (``overhead``)
    and the time between its first tuple and its last (``span``), where these are known.
    """

    @property
    def known(self) -> bool:
        """Whether it was told of any batch."""

    @property
    def admitting(self) -> float:
        """Seconds more for a tuple that is admitted than for one that is shed."""

    @property
    def spread(self) -> float:
        """How far batches usually are from what was expected of them, in log time."""

    def seconds(self, arrived: float, admitted: float) -> float:
        """Answers how long a batch takes in which so many tuples arrive and are admitted."""

    def update(
        self,
        seconds: float,
        arrived: float,
        admitted: float,
        overhead: float | None = None,
        span: float | None = None,
    ) -> Self:
        """Answers the model with one more batch seen."""

    def informed(self, admitting: float) -> Self:
        """Answers the model with ``admitting`` as a guard has measured it."""


@dataclass(frozen=True)
class DisspCost:
    """DISSP, equations 5.2 and 5.3: ``C_T = t / n`` over a moving average, ``N_keep = δ / C_T``.

    >>> DisspCost().update(seconds=0.3, tuples=5000).keep(0.25)
    4166
    """

    window: int = 10
    seen: tuple[tuple[float, float], ...] = ()

    def update(self, seconds: float, tuples: float) -> "DisspCost":
        """Answers the model with one more interval seen."""
        if tuples <= 0:
            return self  # an idle interval says nothing about the cost of a tuple
        return replace(self, seen=(*self.seen, (seconds, tuples))[-self.window :])

    @property
    def per_tuple(self) -> float:
        """C_T in seconds; zero until the model has seen a tuple."""
        if not self.seen:
            return 0.0
        return sum(seconds / tuples for seconds, tuples in self.seen) / len(self.seen)

    def keep(self, interval: float) -> int | None:
        """Answers N_keep: how many tuples fit into an interval; None while nothing is known."""
        return int(interval / self.per_tuple) if self.seen else None


@dataclass(frozen=True)
class ThreeTermCost:
    """``seconds = fixed + a · arrived + b · admitted``, for micro-batches.

    The terms are fitted to the last ``window`` batches, newer ones counting more, by least
    squares with terms that are not negative, and held in place by a weak pull towards the terms
    as they were: a steady load says nothing about how its time divides into the three, and then
    what was learnt earlier stays. Where times vary much, older batches count more: what is left
    for admitted tuples is a small difference of large numbers, and one batch says little of it.

    *Changes and outliers.* A batch that even the terms fitted to it and to the last few do not
    explain is a surprise: all terms, and the times remembered, are scaled towards it, since what
    changes in practice (a busy neighbour, warm code, other data) changes them together. A slow
    surprise is not wholly believed until another follows, and undone where the next batch is as
    the model was; a fast one is believed at once, since nothing makes a batch faster than it can
    be. So one pause of the garbage collector costs one batch.

    *Inside a batch.* Where the gate timed its tuples, a batch says two things: how long they were
    passing, which is theirs, and how long the rest took, which is not. Across batches alone the
    three terms move together in the field, and trade places.

    The model is a function of what a batch really contained, so news that is two batches old is
    still true and corrects nothing twice.
    """

    window: int = 32
    forget: float = 0.8
    """How much a batch counts beside the one after it, where times hardly vary."""
    terms: Floats = field(default_factory=lambda: np.zeros(3))
    seen: Floats = field(default_factory=lambda: np.empty((0, 4)))
    """Rows of seconds, arrived, admitted, and the seconds of them that the tuples were passing,
    which are not a number where that is not known; the newest last."""
    spread: float = 0.05
    """How far batches usually are from what was expected of them, in log time."""
    off: float = 0.0
    """How much longer the last batch took than was expected of it, in log time."""
    before: "ThreeTermCost | None" = None
    """The model as it was before the last batch, where that was a slow surprise."""

    @property
    def known(self) -> bool:
        return bool(self.seen.size)

    @property
    def fixed(self) -> float:
        return float(self.terms[0])

    @property
    def arriving(self) -> float:
        """Seconds for a tuple that arrives, whether it is admitted or not."""
        return float(self.terms[1])

    @property
    def admitting(self) -> float:
        """Seconds more for a tuple that is admitted."""
        return float(self.terms[2])

    def seconds(self, arrived: float, admitted: float) -> float:
        return float(self.terms[0] + self.terms[1] * arrived + self.terms[2] * admitted)

    def update(
        self,
        seconds: float,
        arrived: float,
        admitted: float,
        overhead: float | None = None,
        span: float | None = None,
    ) -> "ThreeTermCost":
        """Answers the model with one more batch seen."""
        if self.before is not None and self._was_outlier(seconds, arrived, admitted):
            return self.before.update(seconds, arrived, admitted)
        passed = passing_seconds(seconds, span if arrived >= FEWEST_TIMED else None, overhead)
        if not self.known:
            return self._start_anew(seconds, arrived, admitted, overhead, passed)
        off = self._log_ratio(seconds, arrived, admitted)
        spread = self._spread_after(off)
        heard = replace(self, before=None, spread=spread, off=off)
        heard = heard._remember(seconds, arrived, admitted, passed)
        attempts = [(heard, PULL_BATCHES)]
        late, young = heard._of_late(), len(self.seen) < YOUNG_BATCHES
        if late._tells_apart() or young:
            attempts += [(late, PULL_BATCHES), (late, PULL_BATCHES / 100)]
        for memory, pull in attempts:
            fitted = memory._fit(pull)
            if fitted._explains(seconds, arrived, admitted):
                return fitted
        if young:
            return fitted  # as well as a few odd batches can be fitted
        if self._explains(seconds, arrived, admitted):
            return replace(late, terms=self.terms)  # it is older batches that do not fit
        return replace(self, spread=spread, off=off)._surprised(seconds, arrived, admitted, passed)

    def informed(self, admitting: float) -> "ThreeTermCost":
        """Answers the model with the cost of an admitted tuple as a guard has measured it.

        That is better than any guess at how the time of a first batch divides, and it does not
        depend on a JVM that starts slowly.
        """
        if not self.known:
            return self
        seconds, arrived, admitted, _ = self.seen[-1].tolist()
        terms = np.array([0.0, min(self.arriving, SHED_COST_SHARE * admitting), admitting])
        terms[0] = max(seconds - terms[1] * arrived - terms[2] * admitted, 0.0)
        model = replace(self, terms=terms, seen=self.seen[:0], before=None)
        return model._remember(model.seconds(arrived, admitted), arrived, admitted)

    @property
    def _kept(self) -> float:
        """How much a batch counts beside the one after it."""
        batches = self.spread / QUIET_LOG_SPREAD / (1.0 - self.forget)
        return max(self.forget, 1.0 - 1.0 / min(batches, float(self.window)))

    def _log_ratio(self, seconds: float, arrived: float, admitted: float) -> float:
        """Answers how much longer a batch took than is expected of it, in log time."""
        expected = max(self.seconds(arrived, admitted), 1e-9)
        return float(np.log(max(seconds, 1e-9) / expected))

    def _spread_after(self, off: float) -> float:
        """Answers the usual spread with one more batch.

        From one batch to the next, since a model that is wrong is off by the same each time; and
        what differs from a batch before it varies by the root of two more than either.
        """
        if abs(off) > PAUSE_LOG_RATIO:
            return self.spread
        moved = min(abs(off - self.off) / 2**0.5, MOST_SPREAD)
        return SPREAD_MEMORY * self.spread + (1 - SPREAD_MEMORY) * moved

    def _explains(self, seconds: float, arrived: float, admitted: float) -> bool:
        noise = max(SURPRISE_LOG_RATIO, NOISE_TIMES_SPREAD * self.spread)
        return abs(self._log_ratio(seconds, arrived, admitted)) < noise

    def _was_outlier(self, seconds: float, arrived: float, admitted: float) -> bool:
        """Answers whether a batch is as the model was; one that admits next to nothing is not."""
        assert self.before is not None
        telling = self.admitting * admitted > 0.3 * self.seconds(arrived, admitted)
        return telling and self.before._explains(seconds, arrived, admitted)

    def _surprised(
        self, seconds: float, arrived: float, admitted: float, passed: float
    ) -> "ThreeTermCost":
        expected = self.seconds(arrived, admitted)
        ratio = np.clip(seconds / max(expected, 1e-9), MOST_FASTER_FACTOR, MOST_SLOWER_FACTOR)
        outlier = bool(ratio > 1) and self.before is None  # perhaps: the next batch will tell
        factor = float(ratio ** (SLOW_SURPRISE_TRUST if outlier else 1.0))
        # an outlier is remembered as what is believed of it
        believed = min(seconds, expected * factor)
        scaled = replace(self, before=self if outlier else None)._scaled(factor)
        passed *= believed / max(seconds, 1e-9)
        return scaled._remember(believed, arrived, admitted, passed)._fit(PULL_BATCHES)

    def _start_anew(
        self,
        seconds: float,
        arrived: float,
        admitted: float,
        overhead: float | None,
        passed: float,
    ) -> "ThreeTermCost":
        """Answers the terms that one batch suggests: what is not overhead is its tuples'."""
        overhead = seconds / 2 if overhead is None else overhead
        tuples = max(admitted + SHED_COST_SHARE * arrived, 1.0)
        theirs = max(seconds - overhead, 0.0) if np.isnan(passed) else passed
        admitting = theirs / tuples
        if arrived < FEWEST_PRICED:
            admitting = min(admitting, UNKNOWN_TUPLE_SECONDS)
        terms = np.array([0.0, SHED_COST_SHARE * admitting, admitting])
        terms[0] = max(seconds - terms[1] * arrived - terms[2] * admitted, 0.0)
        begun = replace(self, terms=terms, seen=self.seen[:0])
        return begun._remember(seconds, arrived, admitted, passed)

    def _of_late(self) -> "ThreeTermCost":
        """Answers the model with the last few batches; where load moved, they tell terms apart."""
        return replace(self, seen=self.seen[-LATEST_BATCHES:])

    def _tells_apart(self) -> bool:
        """Answers whether the load moved among these batches; else no fit can say what changed."""
        loads = np.maximum(self.seen[:, 1:3], 1.0)
        return bool((loads.max(axis=0) > MOVED_LOAD_FACTOR * loads.min(axis=0)).any())

    def _scaled(self, factor: float) -> "ThreeTermCost":
        seen = self.seen.copy()
        seen[:, [0, 3]] *= factor
        return replace(self, terms=self.terms * factor, seen=seen)

    def _remember(
        self, seconds: float, arrived: float, admitted: float, passed: float = np.nan
    ) -> "ThreeTermCost":
        row = np.array([[seconds, arrived, admitted, passed]], dtype=np.float64)
        return replace(self, seen=np.concatenate((self.seen, row))[-self.window :])

    def _fit(self, pull: float) -> "ThreeTermCost":
        """Fits the terms; errors, and distances from the terms as they were, count in proportion.

        A batch that took minutes is but one batch. And where the data do not tell two terms
        apart (while nothing is shed, all that arrives is admitted), both change by the same
        factor, not by the same amount: a shed tuple stays cheap when tuples turn out dear.
        """
        seconds, loads = np.maximum(self.seen[:, 0], 1e-3), self.seen[:, 1:3]
        scale = np.append(1.0, np.maximum(loads.max(axis=0), 1e-12))  # seconds of a large batch
        weight = self._kept ** np.arange(len(seconds) - 1, -1, -1.0)
        passed = self.seen[:, 3]
        split = ~np.isnan(passed)
        # of a batch that was timed inside, one row is its tuples' and one what is not
        fixed = np.column_stack((np.ones(len(seconds)), np.zeros_like(loads)))
        whole = np.column_stack((np.where(split, 0.0, 1.0), loads))
        rows = np.concatenate((whole, fixed[split])) / scale
        took = np.concatenate((np.where(split, passed, seconds), (seconds - passed)[split]))
        of = np.concatenate((seconds, seconds[split]))
        weight = np.concatenate((weight, weight[split]))
        rows /= of[:, None]
        before = self.terms * scale
        held = pull / np.maximum(before, 0.01 * seconds[-1]) ** 2
        gram = (rows * weight[:, None]).T @ rows + np.diag(held)
        target = rows.T @ (weight * took / of) + held * before
        terms = _not_negative(gram, target) / scale
        # a few odd batches must not make a term vanish: what is nothing cannot be scaled up again
        return replace(self, terms=np.maximum(terms, self.terms / MOST_CHEAPER_FACTOR))


def passing_seconds(seconds: float, span: float | None, overhead: float | None) -> float:
    """Answers how long a batch's tuples were passing its gate; not a number where unknown.

    A span of hardly more than the time in which tasks begin says nothing.

    >>> passing_seconds(2.0, span=1.1, overhead=0.5), passing_seconds(2.0, 0.05, 0.5)
    (1.0, nan)
    """
    if span is None or span <= TASKS_BEGIN_SECONDS:
        return float("nan")
    return min(span - TASKS_BEGIN_SECONDS, max(seconds - (overhead or 0.0), 0.0))


def _not_negative(gram: Floats, target: Floats) -> Floats:
    """Solves least squares with x ≥ 0: solve, leave the most negative term out, solve again."""
    while True:
        x = _solved(gram, target)
        worst = int(x.argmin())
        if x[worst] >= 0.0:
            return x
        gram, target = gram.copy(), target.copy()
        gram[worst] = gram[:, worst] = target[worst] = 0.0
        gram[worst, worst] = 1.0


def _solved(gram: Floats, target: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(gram, target), dtype=np.float64)
    except np.linalg.LinAlgError:  # nothing tells the terms apart: the smallest that fit
        return np.asarray(np.linalg.lstsq(gram, target, rcond=None)[0], dtype=np.float64)

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
MOST_CHEAPER_FACTOR = 4.0
"""The most by which one fit may lower a term."""
MOVED_LOAD_FACTOR = 1.5
"""By this factor a load has moved."""
LATEST_BATCHES = 3
"""Batches that a fit falls back to when it cannot explain the newest with all of them."""
WARM_UP_SHARES = (0.2, 0.35, 0.5, 0.7, 0.85)
"""How much of the times of a stream's first batches is believed: a JVM starts slowly."""
TASKS_BEGIN_SECONDS = 0.1
"""Tasks begin within so many seconds: so much of a span says nothing of tuples."""
UNKNOWN_TUPLE_SECONDS = 5e-6
"""Until the slopes are known, a tuple is taken to cost no more than this many seconds."""
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
    def cold(self) -> bool:
        """Whether the stream is still warming up, so that the model may expect far too much."""

    @property
    def admitting(self) -> float:
        """Seconds more for a tuple that is admitted than for one that is shed."""

    @property
    def largest(self) -> float:
        """The most tuples that a batch has admitted of late."""

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
    what was learnt earlier stays.

    *Changes and outliers.* A batch that even the terms fitted to it and to the last few do not
    explain is a surprise: all terms, and the times remembered, are scaled towards it, since what
    changes in practice (a busy neighbour, warm code, other data) changes them together. A slow
    surprise is not wholly believed until another follows, and undone where the next batch is as
    the model was; a fast one is believed at once, since nothing makes a batch faster than it can
    be. So one pause of the garbage collector costs one batch.

    *Slow start.* Only a part of the time of a stream's first batches is believed: to shed because
    the first batch was slow would be wrong, and to believe that nothing costs anything, too.

    The model is a function of what a batch really contained, so news that is two batches old is
    still true and corrects nothing twice.
    """

    window: int = 32
    forget: float = 0.8
    terms: Floats = field(default_factory=lambda: np.zeros(3))
    seen: Floats = field(default_factory=lambda: np.empty((0, 3)))
    """Rows of seconds, arrived, admitted; the newest last."""
    batches: int = 0
    passing: float = 0.0
    """Seconds that a tuple took to pass the gate when that was last timed."""
    before: "ThreeTermCost | None" = None
    """The model as it was before the last batch, where that was a slow surprise."""

    @property
    def known(self) -> bool:
        return bool(self.seen.size)

    @property
    def cold(self) -> bool:
        """Still warming up: what is expected may be far too much."""
        return self.batches < len(WARM_UP_SHARES)

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

    @property
    def largest(self) -> float:
        """The most tuples that a batch has admitted of late."""
        return float(self.seen[:, 2].max(initial=0.0))

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
        """Answers the model with one more batch seen; ``span`` is given where it admitted all."""
        share = WARM_UP_SHARES[self.batches] if self.cold else 1.0
        overhead = None if overhead is None else overhead * share
        updated = self._learnt(seconds * share, arrived, admitted, overhead)
        if updated.before is not None:
            return updated  # it may be an outlier: then its span is one, too
        if span is not None and arrived:
            passing = max(span - TASKS_BEGIN_SECONDS, 0.0) * share / arrived
            updated = replace(updated, passing=passing)
        return updated if admitted < arrived else updated._no_cheaper_than_passing()

    def _learnt(
        self, seconds: float, arrived: float, admitted: float, overhead: float | None
    ) -> "ThreeTermCost":
        if self.before is not None and self._was_outlier(seconds, arrived, admitted):
            return self.before._learnt(seconds, arrived, admitted, None)
        counted = replace(self, batches=self.batches + 1)
        if not self.known:
            return counted._start_anew(seconds, arrived, admitted, overhead)
        heard = replace(counted, before=None)._remember(seconds, arrived, admitted)
        attempts = [(heard, PULL_BATCHES)]
        late = heard._of_late()
        if late._tells_apart() or self.cold:
            attempts += [(late, PULL_BATCHES), (late, PULL_BATCHES / 100)]
        for memory, pull in attempts:
            fitted = memory._fit(pull)
            if _explains(fitted.seconds(arrived, admitted), seconds):
                return fitted
        if self.cold:
            return fitted  # as well as a few odd batches can be fitted
        if _explains(self.seconds(arrived, admitted), seconds):
            return replace(late, terms=self.terms)  # it is older batches that do not fit
        return counted._surprised(seconds, arrived, admitted)

    def _no_cheaper_than_passing(self) -> "ThreeTermCost":
        """Answers the model with tuples that cost no less than they took to pass the gate.

        In a calm that never varies only this tells how a flood will be.
        """
        if self.arriving + self.admitting >= self.passing:
            return self
        arriving = max(self.arriving, SHED_COST_SHARE * self.passing)
        admitting = max(self.admitting, self.passing - arriving)
        _, arrived, admitted = self.seen[-1].tolist()
        whole = self.seconds(arrived, admitted)
        fixed = max(whole - arriving * arrived - admitting * admitted, 0.0)
        return replace(self, terms=np.array([fixed, arriving, admitting]))

    def informed(self, admitting: float) -> "ThreeTermCost":
        """Answers the model with the cost of an admitted tuple as a guard has measured it.

        That is better than any guess at how the time of a first batch divides, and it does not
        depend on a JVM that starts slowly.
        """
        if not self.known:
            return self
        seconds, arrived, admitted = self.seen[-1].tolist()
        terms = np.array([0.0, min(self.arriving, SHED_COST_SHARE * admitting), admitting])
        terms[0] = max(seconds - terms[1] * arrived - terms[2] * admitted, 0.0)
        warm = max(self.batches, len(WARM_UP_SHARES))
        model = replace(self, terms=terms, seen=self.seen[:0], batches=warm, before=None, passing=0)
        return model._remember(model.seconds(arrived, admitted), arrived, admitted)

    def _was_outlier(self, seconds: float, arrived: float, admitted: float) -> bool:
        """Answers whether a batch is as the model was; one that admits next to nothing is not."""
        assert self.before is not None
        telling = self.admitting * admitted > 0.3 * self.seconds(arrived, admitted)
        return telling and _explains(self.before.seconds(arrived, admitted), seconds)

    def _surprised(self, seconds: float, arrived: float, admitted: float) -> "ThreeTermCost":
        expected = self.seconds(arrived, admitted)
        ratio = np.clip(seconds / max(expected, 1e-9), MOST_FASTER_FACTOR, MOST_SLOWER_FACTOR)
        outlier = bool(ratio > 1) and self.before is None  # perhaps: the next batch will tell
        factor = float(ratio ** (SLOW_SURPRISE_TRUST if outlier else 1.0))
        # an outlier is remembered as what is believed of it
        believed = min(seconds, expected * factor)
        scaled = replace(self, before=self if outlier else None)._scaled(factor)
        return scaled._remember(believed, arrived, admitted)._fit(PULL_BATCHES)

    def _start_anew(
        self, seconds: float, arrived: float, admitted: float, overhead: float | None
    ) -> "ThreeTermCost":
        """Answers the terms that one batch suggests: what is not overhead is its tuples'."""
        overhead = seconds / 2 if overhead is None else overhead
        tuples = max(admitted + SHED_COST_SHARE * arrived, 1.0)
        admitting = min(max(seconds - overhead, 0.0) / tuples, UNKNOWN_TUPLE_SECONDS)
        terms = np.array([0.0, SHED_COST_SHARE * admitting, admitting])
        terms[0] = max(seconds - terms[1] * arrived - terms[2] * admitted, 0.0)
        return replace(self, terms=terms, seen=self.seen[:0])._remember(seconds, arrived, admitted)

    def _of_late(self) -> "ThreeTermCost":
        """Answers the model with the last few batches; where load moved, they tell terms apart."""
        return replace(self, seen=self.seen[-LATEST_BATCHES:])

    def _tells_apart(self) -> bool:
        """Answers whether the load moved among these batches; else no fit can say what changed."""
        loads = np.maximum(self.seen[:, 1:], 1.0)
        return bool((loads.max(axis=0) > MOVED_LOAD_FACTOR * loads.min(axis=0)).any())

    def _scaled(self, factor: float) -> "ThreeTermCost":
        seen = self.seen.copy()
        seen[:, 0] *= factor
        return replace(self, terms=self.terms * factor, seen=seen)

    def _remember(self, seconds: float, arrived: float, admitted: float) -> "ThreeTermCost":
        row = np.array([[seconds, arrived, admitted]], dtype=np.float64)
        return replace(self, seen=np.concatenate((self.seen, row))[-self.window :])

    def _fit(self, pull: float) -> "ThreeTermCost":
        """Fits the terms; errors, and distances from the terms as they were, count in proportion.

        A batch that took minutes is but one batch. And where the data do not tell two terms
        apart (while nothing is shed, all that arrives is admitted), both change by the same
        factor, not by the same amount: a shed tuple stays cheap when tuples turn out dear.
        """
        seconds = np.maximum(self.seen[:, 0], 1e-3)
        columns = self.seen.copy()
        columns[:, 0] = 1.0
        scale = np.maximum(columns.max(axis=0), 1e-12)  # terms become seconds of a large batch
        rows = columns / scale / seconds[:, None]
        weight = self.forget ** np.arange(len(seconds) - 1, -1, -1.0)
        before = self.terms * scale
        held = pull / np.maximum(before, 0.01 * seconds[-1]) ** 2
        gram = (rows * weight[:, None]).T @ rows + np.diag(held)
        target = rows.T @ weight + held * before
        terms = _not_negative(gram, target) / scale
        # a few odd batches must not make a term vanish: what is nothing cannot be scaled up again
        return replace(self, terms=np.maximum(terms, self.terms / MOST_CHEAPER_FACTOR))


def _explains(expected: float, seconds: float) -> bool:
    return bool(abs(np.log(max(expected, 1e-9) / max(seconds, 1e-9))) < SURPRISE_LOG_RATIO)


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

"""How long will so many tuples take? Two models, learnt while the job runs."""

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.types import Floats


@dataclass(frozen=True)
class DisspCost:
    """DISSP, equations 5.2 and 5.3: ``C_T = t / n`` over a moving average, ``N_keep = δ / C_T``.

    >>> DisspCost().update(seconds=0.3, tuples=5000).keep(0.25)
    4166
    """

    window: int = 10
    seen: tuple[tuple[float, float], ...] = ()

    def update(self, seconds: float, tuples: float) -> "DisspCost":
        if tuples <= 0:
            return self  # an idle interval says nothing about the cost of a tuple
        return replace(self, seen=(*self.seen, (seconds, tuples))[-self.window :])

    @property
    def per_tuple(self) -> float:
        """Zero until the first tuple was seen."""
        if not self.seen:
            return 0.0
        return sum(seconds / tuples for seconds, tuples in self.seen) / len(self.seen)

    def keep(self, interval: float) -> int | None:
        """How many tuples fit into an interval; None while nothing is known."""
        return int(interval / self.per_tuple) if self.seen else None


SURPRISE = 0.25
"""A batch that is this far (in log time) from what was expected says that something changed."""
TRUST_SLOW = 0.85
"""How much of a first slow batch is believed; a second one in a row is believed wholly."""
MOST_SLOWER, MOST_FASTER = 2.3, 1 / 16
"""The most that one batch may change all costs, so that no outlier ruins the model."""
MOST_CHEAPER = 4.0
"""The most by which one fit may lower a term."""
MOVED = 1.5
"""By this factor a load has moved."""
LATE = 3
"""Batches that a fit falls back to when it cannot explain the newest with all of them."""
WARM_UP = (0.2, 0.35, 0.5, 0.7, 0.85)
"""How much of the times of a job's first batches is believed: a JVM starts slowly."""
TOGETHER = 0.1
"""Seconds within which tasks begin: so much of the time between two tuples says nothing of them."""
UNKNOWN_TUPLE = 5e-6
"""Until the slopes are known, a tuple is taken to cost no more than this many seconds."""
SHED_SHARE = 0.1
"""Until they are told apart, a tuple that is shed costs this share of one that is admitted."""


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

    *Slow start.* Only a part of the time of a job's first batches is believed: to shed because
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
        return self.batches < len(WARM_UP)

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
        """With one more batch; ``overhead`` is what it spent on anything but tuples, ``span`` what
        passed between its first tuple and its last where all were admitted, if known.
        """
        share = WARM_UP[self.batches] if self.cold else 1.0
        overhead = None if overhead is None else overhead * share
        updated = self._learnt(seconds * share, arrived, admitted, overhead)
        if updated.before is not None:
            return updated  # it may be an outlier: then its span is one, too
        if span is not None and arrived:
            updated = replace(updated, passing=max(span - TOGETHER, 0.0) * share / arrived)
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
        attempts = [(heard, PULL)]
        late = heard._of_late()
        if late._tells_apart() or self.cold:
            attempts += [(late, PULL), (late, PULL / 100)]
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
        """With a smaller fixed part where tuples would seem to cost less than they took to pass:
        in a calm that never varies only this tells how a flood will be.
        """
        if self.arriving + self.admitting >= self.passing:
            return self
        arriving = max(self.arriving, SHED_SHARE * self.passing)
        admitting = max(self.admitting, self.passing - arriving)
        _, arrived, admitted = self.seen[-1].tolist()
        whole = self.seconds(arrived, admitted)
        fixed = max(whole - arriving * arrived - admitting * admitted, 0.0)
        return replace(self, terms=np.array([fixed, arriving, admitting]))

    def informed(self, admitting: float) -> "ThreeTermCost":
        """With the cost of an admitted tuple as somebody measured it: better than any guess at how
        the time of a first batch divides, and no matter of a JVM that starts slowly.
        """
        if not self.known:
            return self
        seconds, arrived, admitted = self.seen[-1].tolist()
        terms = np.array([0.0, min(self.arriving, SHED_SHARE * admitting), admitting])
        terms[0] = max(seconds - terms[1] * arrived - terms[2] * admitted, 0.0)
        warm = max(self.batches, len(WARM_UP))
        model = replace(self, terms=terms, seen=self.seen[:0], batches=warm, before=None, passing=0)
        return model._remember(model.seconds(arrived, admitted), arrived, admitted)

    def _was_outlier(self, seconds: float, arrived: float, admitted: float) -> bool:
        """The next batch is as the model was; a batch that admits next to nothing cannot tell."""
        assert self.before is not None
        telling = self.admitting * admitted > 0.3 * self.seconds(arrived, admitted)
        return telling and _explains(self.before.seconds(arrived, admitted), seconds)

    def _surprised(self, seconds: float, arrived: float, admitted: float) -> "ThreeTermCost":
        expected = self.seconds(arrived, admitted)
        ratio = np.clip(seconds / max(expected, 1e-9), MOST_FASTER, MOST_SLOWER)
        outlier = bool(ratio > 1) and self.before is None  # perhaps: the next batch will tell
        factor = float(ratio ** (TRUST_SLOW if outlier else 1.0))
        # an outlier is remembered as what is believed of it
        believed = min(seconds, expected * factor)
        scaled = replace(self, before=self if outlier else None)._scaled(factor)
        return scaled._remember(believed, arrived, admitted)._fit(PULL)

    def _start_anew(
        self, seconds: float, arrived: float, admitted: float, overhead: float | None
    ) -> "ThreeTermCost":
        """The terms that one batch suggests: what is not known to be overhead is its tuples'."""
        overhead = seconds / 2 if overhead is None else overhead
        tuples = max(admitted + SHED_SHARE * arrived, 1.0)
        admitting = min(max(seconds - overhead, 0.0) / tuples, UNKNOWN_TUPLE)
        terms = np.array([0.0, SHED_SHARE * admitting, admitting])
        terms[0] = max(seconds - terms[1] * arrived - terms[2] * admitted, 0.0)
        return replace(self, terms=terms, seen=self.seen[:0])._remember(seconds, arrived, admitted)

    def _of_late(self) -> "ThreeTermCost":
        """The last few batches only: where the load moved far, they tell the terms apart."""
        return replace(self, seen=self.seen[-LATE:])

    def _tells_apart(self) -> bool:
        """The load moved among these batches; where it did not, no fit can say what changed."""
        loads = np.maximum(self.seen[:, 1:], 1.0)
        return bool((loads.max(axis=0) > MOVED * loads.min(axis=0)).any())

    def _scaled(self, factor: float) -> "ThreeTermCost":
        seen = self.seen.copy()
        seen[:, 0] *= factor
        return replace(self, terms=self.terms * factor, seen=seen)

    def _remember(self, seconds: float, arrived: float, admitted: float) -> "ThreeTermCost":
        row = np.array([[seconds, arrived, admitted]], dtype=np.float64)
        return replace(self, seen=np.concatenate((self.seen, row))[-self.window :])

    def _fit(self, pull: float) -> "ThreeTermCost":
        """Errors, and distances from the terms as they were, count in proportion.

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
        return replace(self, terms=np.maximum(terms, self.terms / MOST_CHEAPER))


def _explains(expected: float, seconds: float) -> bool:
    return bool(abs(np.log(max(expected, 1e-9) / max(seconds, 1e-9))) < SURPRISE)


PULL = 0.005
"""The pull towards the terms as they were, in batches; a hundredth of it where these fail."""


def _not_negative(gram: Floats, target: Floats) -> Floats:
    """Least squares with x ≥ 0: solve, leave the most negative term out, solve again."""
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
    except np.linalg.LinAlgError:  # terms that nothing tells apart: the smallest that fit
        return np.asarray(np.linalg.lstsq(gram, target, rcond=None)[0], dtype=np.float64)

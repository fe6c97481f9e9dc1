"""Dearest First: our own shedder. Fewer drops than with exact costs, and the average held.

LAS asks only how long a tuple would *wait*; a dear tuple and a cheap one that arrive together
share their fate. But it is the dear one that makes all those behind it wait. By Little's law
``τ / w̄`` tuples stand in a queue that takes τ, and each of them waits for this one's ŵ. So here

    a tuple is kept where   q̂ + κ · ŵ ≤ L,   κ = 1.5 · τ / w̄

which drops the dearest as soon as a queue forms and the cheap ones last, whatever the scale of
threshold and costs. The limit L finds itself: each tuple that is kept moves it by ``g · (τ - q̂)``,
and one that an idle operator turned away raises it, so that it never sticks. Summed up over n
tuples that gives ``average(q̂) ≤ τ + (L_max - L_min + raised) / (g · n)``, since L lies between
L_min and L_max, and L_min = 0.7 τ keeps nothing that would wait longer than τ. At L_max nothing is
dropped that does not wait for 2 τ.

Where a threshold is far below the cost of one tuple, or estimates are far off, that is not enough.
So the *excess* over the threshold is added up, too, with what the operator tells of it; while it is
above ``OVERDRAFT_TUPLES · τ``, nothing is kept that would wait longer than τ, and at twice that
nothing that would wait at all; and L does not rise, or the short waits of that time would let the
dear ones in. What is above is forgiven: after an abrupt change the past cannot be made good.

What it foresees is kept true by three changes to LAS' protocol:

- the operator is asked for its skew all the time, not only after new matrices, from the first
  tuple on; so there is no time in which nothing is shed;
- its reply says how much work it did meanwhile. Where that is not what was estimated, all
  estimates are scaled: a little, since single tuples vary, or by as much as its tuples tell where
  that is more than chance. Costs that double or halve are noticed within a few hundred tuples;
- the matrices are sent after every N tuples and faded by half, instead of waiting until they are
  stable and starting from nothing. A dear key that is shed all the time is not forgotten. With them
  comes what the last tuples took, over what the matrices say of them.

The price are messages: three numbers on a tuple in four and a reply of five to each (LAS sends six
of both in the default setting), and matrices about four times as often.
"""

from collections import deque
from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np

from penstock.guard.admission import AIMED_SHARE_OF_THRESHOLD
from penstock.guard.guard_plan import TUPLES_BEHIND_FACTOR
from penstock.guard.sketch import Sketch
from penstock.lab.las.operator import Operator
from penstock.lab.las.protocol_messages import Matrices, Message, Request
from penstock.lab.las.ranges import at_least
from penstock.lab.las.shedder import correction

TUPLES_PER_REQUEST = 2
"""How many tuples are kept from one request to the next."""
LIMIT_STEP_SHARE = 0.02
"""g: how far a tuple moves the limit. From 0.05 on the loop of limit and queue begins to swing."""
LOWEST_LIMIT_IN_THRESHOLDS = 0.7
"""L_min, in thresholds."""
OVERDRAFT_TUPLES = 64
"""The sum of waits may be above what it should be by this many thresholds."""
SURPRISE_TRUST_SHARE = 0.1
"""The share of a reply's surprise, in log, that goes into the scale."""
MOST_SURPRISE_LOG = log(2.0)
"""A reply's surprise never counts for more than this, in log."""
CLEAR_SURPRISE_LOG = 3.0
"""A surprise is clear where it is more than this over √tuples, in log: six times what chance makes
of it where single tuples differ by half. Then it counts as if it had come in replies of
``TUPLES_PER_REQUEST`` tuples. Without it costs that rise threefold make a queue of 80 τ, with it of
2 τ."""
LEAST_WORK_SHARE = 1e-6
"""Work counts as at least this share of what was estimated, since 0 has no logarithm."""
FADED_SHARE = 0.5
"""What is left of the matrices after each N tuples."""
RECENT_TUPLES = 64
"""The number of last tuples that show how far the matrices lag behind."""


class FadingOperator(Operator):
    """Tells what it knows after every N tuples, and forgets half of it."""

    def __init__(self, sketch: Sketch, window: int = 1024, tolerance: float = 0.05) -> None:
        super().__init__(sketch, window, tolerance)
        self.recent: deque[tuple[int, float]] = deque(maxlen=RECENT_TUPLES)

    def noticed(self, keys: Sequence[int], costs: Sequence[float]) -> None:
        """Remembers the last tuples."""
        self.recent.extend(zip(keys[-RECENT_TUPLES:], costs[-RECENT_TUPLES:], strict=True))

    def look(self) -> list[Message]:
        """Sends the matrices after every N tuples."""
        return [self.send()]

    def send(self) -> Matrices:
        """Returns the matrices, and forgets half of them."""
        message = Matrices(self.sketch.copy(), self._lag())
        self.sketch.fade(FADED_SHARE)
        return message

    def _lag(self) -> float:
        keys = np.array([key for key, _ in self.recent], dtype=np.uint64)
        said = float(self.sketch.costs(keys).sum())
        return sum(cost for _, cost in self.recent) / said if said > 0.0 else 1.0


class DearestFirst:
    """Sheds the tuples for which others would wait longest; see the module."""

    def __init__(self, threshold: float, warm: Sketch | None = None) -> None:
        self.threshold = at_least(0.0, "threshold", threshold)
        self.total = 0.0
        """Ĉ: when the operator will be done with all that it was given."""
        self.sketch: Sketch | None = None
        self.mean = 0.0
        """w̄ by the sketch. Stands for every cost until there is one."""
        self.spread = 1.0
        """The largest cost that the sketch can answer, in w̄."""
        self.scale = 1.0
        """What tuples take of late, over what the sketch says of them."""
        if warm is not None:
            self._learn(warm)
        self.limit = threshold * (1.0 + TUPLES_BEHIND_FACTOR)
        """L. An average tuple that waits for τ would just be kept."""
        self.excess = 0.0
        """By how much the tuples so far have waited longer than they should, in sum."""
        self.since = 0
        """Tuples kept since the last request, what they cost by the sketch, and were to wait."""
        self.work = self.wait = 0.0
        self.idle = 0.0
        """And how long the operator was taken to have had nothing to do."""
        self.clean = True
        """All of that was estimated with the sketch in force."""
        self.waiting = False
        self.void = False
        """The reply under way says nothing about the sketch in force."""

    def cost(self, key: int) -> float:
        """Returns ŵ, what a tuple will cost."""
        return self._said(key) * self.scale

    def _said(self, key: int) -> float:
        return self.mean if self.sketch is None else self.sketch.cost(key)

    def delay_of_others(self, cost: float) -> float:
        """Returns κ · ŵ, the time that others wait for a tuple of this cost."""
        mean = self.mean * self.scale
        return TUPLES_BEHIND_FACTOR * self.threshold * (cost / mean) if mean > 0.0 else 0.0

    def sheds(self, key: int, now: float) -> bool:
        """Says whether a tuple is dropped, and takes note of it if not."""
        start, said = max(self.total, now), self._said(key)
        cost = said * self.scale
        wait, delay = start - now, self.delay_of_others(cost)
        if wait + delay > self.limit or self._overdrawn(wait):
            if wait == 0.0:  # the operator is idle, and still this one was too dear
                self.limit += LIMIT_STEP_SHARE * (self.threshold + delay)
            return True
        step = LIMIT_STEP_SHARE * (AIMED_SHARE_OF_THRESHOLD * self.threshold - wait)
        self._move(min(step, 0.0) if self._owes() else step)
        self._owe(wait - AIMED_SHARE_OF_THRESHOLD * self.threshold)
        self.idle += start - self.total
        self.total = start + cost
        self.work += said
        self.wait += wait
        self.since += 1
        return False

    def _owes(self) -> bool:
        return self.excess > OVERDRAFT_TUPLES * self.threshold

    def _overdrawn(self, wait: float) -> bool:
        if not self._owes():
            return False
        share = self.excess / (OVERDRAFT_TUPLES * self.threshold)
        return wait > AIMED_SHARE_OF_THRESHOLD * self.threshold * (2.0 - share)

    def _highest(self) -> float:
        return self.threshold * (2.0 + TUPLES_BEHIND_FACTOR * self.spread)

    def _move(self, by: float) -> None:
        self.limit = max(
            min(self.limit + by, self._highest()), LOWEST_LIMIT_IN_THRESHOLDS * self.threshold
        )

    def _owe(self, more: float) -> None:
        most = 2 * OVERDRAFT_TUPLES * self.threshold
        self.excess = max(min(self.excess + more, most), -self._highest() / LIMIT_STEP_SHARE)

    def _learn(self, sketch: Sketch, scale: float = 1.0) -> None:
        self.sketch, self.scale = sketch, scale
        self.mean, self.spread = sketch.mean, sketch.spread

    def request(self) -> Request | None:
        """Returns a request for the operator's skew, if one is due."""
        if self.since < TUPLES_PER_REQUEST or self.waiting:
            return None
        request = Request(self.total, self.work if self.clean else 0.0, self.wait)
        self.since, self.work, self.wait, self.idle = 0, 0.0, 0.0, 0.0
        self.clean = self.waiting = True
        return request

    def receive(self, message: Message) -> None:
        """Learns from matrices or a reply."""
        if isinstance(message, Matrices):
            open_to_all = self.limit >= self._highest()
            self._learn(message.sketch, message.scale)
            if open_to_all:  # and so it stays, also where something dearer was seen
                self.limit = self._highest()
            self.clean, self.void = False, self.waiting
            return
        self.total += correction(message.skew, self.idle)
        self._move(-LIMIT_STEP_SHARE * message.late)
        self._owe(message.late)
        if self.sketch is None:
            self.mean = message.work / max(message.tuples, 1)
        elif message.estimated > 0.0 and not self.void:
            expected = message.estimated * self.scale
            self._be_surprised(log(max(message.work / expected, LEAST_WORK_SHARE)), message.tuples)
        self.waiting = self.void = False

    def _be_surprised(self, surprise: float, tuples: int) -> None:
        replies = (
            tuples / TUPLES_PER_REQUEST
            if abs(surprise) * sqrt(tuples) > CLEAR_SURPRISE_LOG
            else 1.0
        )
        most = MOST_SURPRISE_LOG * replies
        self.scale *= exp(
            max(min(surprise, most), -most) * (1.0 - (1.0 - SURPRISE_TRUST_SHARE) ** replies)
        )

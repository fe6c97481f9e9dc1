"""Is the operator's half of LAS: it measures, and tells when what it measured is stable.

    START        the first N tuples since the matrices were sent; then a snapshot is taken
    STABILIZING  after every N tuples the snapshot is compared with the present: where they differ
                 by at most μ the matrices are sent and cleared, else the snapshot is renewed

(LAS, listing III.1 and figure 2.) Time is an argument, so that it can be virtual.
"""

from collections.abc import Sequence
from enum import Enum

import numpy as np

from penstock.core.types import Floats
from penstock.guard.sketch import Sketch
from penstock.lab.las.protocol_messages import Matrices, Message, Reply, Request
from penstock.lab.las.ranges import at_least


class OperatorPhase(Enum):
    """Names the states of the operator."""

    START = "start"
    STABILIZING = "stabilizing"


class Operator:
    """Measures tuples, and counts its own cumulated time C as a clock does.

    Time in which it had nothing to do is part of C, since the shedder compares C with the time that
    has passed.
    """

    def __init__(self, sketch: Sketch, window: int = 1024, tolerance: float = 0.05) -> None:
        self.sketch = sketch
        self.window = int(at_least(1, "window", window))
        self.tolerance = at_least(0.0, "tolerance", tolerance)
        self.phase = OperatorPhase.START
        self.snapshot: Floats = sketch.ratios()
        self.executed = 0
        self.work, self.wait, self.tuples = 0.0, 0.0, 0
        """Since the last reply."""

    def executed_one(
        self, key: int, wait: float, cost: float, done: float, request: Request | None = None
    ) -> list[Message]:
        """Takes note of a tuple, and returns what the shedder is told then.

        The tuple was done at ``done``, having waited for ``wait`` and taken ``cost``.

        The listing updates the matrices after it has looked at them, so that the N-th tuple is
        counted with the next N.
        """
        self.executed += 1
        self.work += cost
        self.wait += wait
        self.tuples += 1
        messages: list[Message] = [] if request is None else [self._reply(request, done)]
        if self.executed % self.window == 0:
            messages += self.look()
        self.sketch.add(key, cost)
        self.noticed([key], [cost])
        return messages

    def noticed(self, keys: Sequence[int], costs: Sequence[float]) -> None:
        """Does nothing here; subclasses that look at the last tuples get them here."""

    def _reply(self, request: Request, done: float) -> Reply:
        late = self.wait - request.wait
        reply = Reply(done - request.total, self.work, request.work, self.tuples, late)
        self.work, self.wait, self.tuples = 0.0, 0.0, 0
        return reply

    def look(self) -> list[Message]:
        """Asks after every N tuples whether the matrices are stable."""
        if self.phase is OperatorPhase.START:
            self.snapshot = self.sketch.ratios()
            self.phase = OperatorPhase.STABILIZING
            return []
        now = self.sketch.ratios()
        if snapshot_error(self.snapshot, now) > self.tolerance:
            self.snapshot = now
            return []
        return [self.send()]

    def send(self) -> Matrices:
        """Returns the matrices, and begins again."""
        message = Matrices(self.sketch.copy())
        self.sketch.clear()
        self.phase = OperatorPhase.START
        return message


def snapshot_error(before: Floats, now: Floats) -> float:
    """Returns η of equation 1: ``Σ |S - W/F| / Σ S``."""
    return float(np.abs(before - now).sum() / max(before.sum(), 1e-300))

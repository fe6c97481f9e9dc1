"""The plan of a guard: what the driver tells a task when the task starts."""

import struct
from dataclasses import dataclass, field, replace
from math import inf

from penstock.guard.sketch import Sketch
from penstock.guard.task_report import TaskReport

TUPLES_BEHIND_FACTOR = 1.5
"""How often a decision counts the tuples that wait behind a tuple. Between 1 and 2 it hardly
matters."""
HALF_LIFE_TUPLES = 2048
"""A plan forgets half of what it has learnt after this many tuples ..."""
HALF_LIFE_SECONDS = 5.0
"""... and after the function has worked for this long, whichever comes later."""
_NUMBERS = struct.Struct("<Qddd")


@dataclass(frozen=True)
class GuardPlan:
    """What a task knows when it starts: the wait to hold, the limit in force, what keys cost."""

    threshold: float
    """τ: the seconds that tuples may wait, on average."""
    limit: float = inf
    """L: a task sheds a tuple whose wait, and the wait that it imposes on others, exceed this."""
    sketch: Sketch = field(default_factory=Sketch)
    """What all tasks so far have learnt about the cost of keys."""
    trial: float = 0.0
    """How far into its rows, as a share, a task finds the tuple that it admits in any case. A task
    whose trial is below 0 has no such tuple. Trials keep the learning going, so that no key is shed
    for ever because of what it cost once."""

    @property
    def top(self) -> float:
        """The highest limit that makes a difference."""
        return self.threshold * (2.0 + TUPLES_BEHIND_FACTOR * self.sketch.spread)

    def after(self, report: TaskReport, tasks: int) -> "GuardPlan":
        """Returns the plan with what one task has learnt, one of ``tasks`` that ran together."""
        sketch = self.sketch.copy()
        half_lives = min(report.sketch.tuples / HALF_LIFE_TUPLES, report.busy / HALF_LIFE_SECONDS)
        sketch.fade(0.5**half_lives)
        sketch += report.sketch
        learnt = replace(self, sketch=sketch)
        limit = min(self.limit, self.top) + report.moved / tasks
        if limit > self.top - self.threshold:
            # Such a limit sheds no tuple that has waited for less than τ. A dearer key, which
            # raises the top, must not change that.
            limit += learnt.top - self.top
        return replace(learnt, limit=max(limit, self.threshold))


def encode_plan(ticket: int, plan: GuardPlan) -> bytes:
    """Returns what the plan server sends to a task; the ticket is the task's own number."""
    head = _NUMBERS.pack(ticket, plan.threshold, plan.limit, plan.trial)
    return head + bytes(plan.sketch)


def decode_plan(data: bytes) -> tuple[int, GuardPlan]:
    """Returns the ticket and the plan that ``encode_plan`` wrote."""
    sketch = Sketch.from_bytes(data[_NUMBERS.size :])
    ticket, threshold, limit, trial = _NUMBERS.unpack_from(data)
    return ticket, GuardPlan(threshold, limit, sketch, trial)

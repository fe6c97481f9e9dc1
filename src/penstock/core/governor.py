"""What the clock alone says of the next batch, whatever a cost model believes.

The latency is a promise, and a model that learns can be wrong: a JVM that has just started, a
neighbour on the machine, a source that makes a batch wait. So two layers decide how much a batch
admits. The model proposes. The governor, which looks at nothing but what the last batch admitted
and how long it took, keeps the proposal within bounds: after a batch that overran, fewer in
proportion; after one on time, at most a step more, and where there was time to spare of late, at
least about as many. A model that is right moves freely inside the bounds. One that is wrong cannot
break the promise for longer than a batch, and cannot shed for ever what there is time for.
"""

from dataclasses import dataclass
from math import exp, inf, log

LEAST_FALL = 1 / 8
"""After one batch that overran, at least this share of what it admitted may be tried."""
LEAST_STEP, MOST_STEP = 1.1, 4.0
"""After a batch on time, so many times what it admitted; the more, the more time it left."""
FIRST_TUPLE_SECONDS = 2e-4
"""While next to nothing is known, a tuple is taken to cost no more than this."""
SURE_STEP = 1.25
"""The step up that is made after batches that left time, whatever the model believes."""
TREND_MEMORY = 0.7
"""So much of what batches leave of late, in log time, is what the ones before the last left."""
SURE_SHARE = 0.8
"""The least of what a batch on time admitted that the next admits, whatever the model believes."""
SLACK_SHARE = 0.9
"""A batch that took less than this share of what was planned left time to spare."""
CHEAP_STEP = 2.0
"""So many times what the last batch admitted is tried of tuples that hardly cost anything."""
LIKE_BEFORE = 1.3
"""Up to so many times what the last batch read, reading takes about as long as it did."""
JUMP_FACTOR = 2.0
"""A proposal that is further than this from the last batch is a change, not noise."""
DAMPING = 0.5
"""So much of a small change is made at once, of its logarithm."""
AS_EXPECTED = 1.2
"""Up to so many times what was expected, a batch took what it was expected to."""


@dataclass(frozen=True, slots=True)
class Took:
    """How long a batch took, and how long of that its tuples were passing, where that is known."""

    seconds: float
    passing: float | None = None
    expected: float = 0.0
    """What the cost model expected, of these tuples."""

    def share_that_fits(self, plan: float) -> float:
        """Answers which share of the tuples of a batch that overran would have been in time.

        Where it is known that the tuples took little of the time, they are not held responsible
        for the rest, such as a JVM that starts: they get half of the plan in any case.

        >>> Took(6.0).share_that_fits(1.5), Took(6.0, passing=1.0).share_that_fits(1.5)
        (0.25, 0.75)
        """
        if not self.passing:
            return plan / self.seconds
        rest = min(self.seconds - self.passing, plan / 2)
        return min((plan - rest) / self.passing, 1.0)


@dataclass(frozen=True, slots=True)
class Governor:
    """The bounds on what a stream's next batch may admit, in tuples of the cost model."""

    most: float = inf
    """Nothing is known against any number while it is infinite."""
    least: float = 0.0
    arrived: float = 0.0
    """In the last batch; ``least`` holds for a batch that is about as large."""
    last: float = 0.0
    """What the last batch admitted, where it shed and ended in time; else 0."""
    admitted: float = 0.0
    """What the last batch admitted, however it went."""
    left: float = log(SURE_STEP)
    """How much longer than batches of late, in log time, one was planned to take."""

    def after(
        self, took: Took, arrived: float, admitted: float, budget: float, plan: float
    ) -> "Governor":
        """Answers the bounds after a batch; ``plan`` is the part of the budget that is planned.

        >>> Governor().after(Took(6.0), 1000, 1000, budget=1.5, plan=1.35).most  # it overran
        225.0
        >>> Governor().after(Took(0.5), 9000, 9000, budget=1.5, plan=1.35).most  # it was quick
        36000.0
        """
        ratio, shed = plan / max(took.seconds, 1e-3), admitted < arrived
        left = log(min(max(ratio, 1 / SURE_STEP), SURE_STEP))  # an outage says no more than that
        left = TREND_MEMORY * self.left + (1 - TREND_MEMORY) * left
        if took.seconds > budget and took.seconds <= AS_EXPECTED * took.expected:
            # the model knew: much was read, say
            return Governor(self.most, admitted=admitted, left=left)
        if took.seconds > budget:
            fall = max(took.share_that_fits(plan), LEAST_FALL)
            return Governor(admitted * fall, admitted=admitted, left=left)
        # where a batch took a small part of its time, a large step is no risk
        step = admitted * min(max(ratio * ratio, LEAST_STEP), max(MOST_STEP, ratio / 2))
        known = plan / FIRST_TUPLE_SECONDS if self.most == inf else self.most
        spare = min(ratio, exp(left))  # one quick batch is no trend
        sure = spare if spare * SLACK_SHARE > 1 else SURE_SHARE
        least = admitted * sure if shed else 0.0
        damped = admitted if shed else 0.0
        return Governor(max(known, step), least, arrived, damped, admitted, left)

    def bounded(self, proposed: float, arriving: float, cheap: float = 0.0) -> float:
        """Answers the proposal within the bounds, and damped, for a batch that reads so many.

        ``cheap`` is a number of tuples that hardly count in a batch's time, as far as the model
        knows. Up to that, and not at once, more is tried also where batches overrun: it is not
        the tuples that make them late, and shedding all would not help.

        Only half of a small change is made at once: what changes from batch to batch by a little
        is mostly noise, and the admitted number is what people see.
        """
        if self.last / JUMP_FACTOR < proposed < self.last * JUMP_FACTOR:
            proposed = self.last * (proposed / self.last) ** DAMPING
        least = self.least if arriving <= LIKE_BEFORE * self.arrived else 0.0
        bounded = min(max(proposed, least), self.most)
        return max(bounded, min(cheap, CHEAP_STEP * self.admitted))

"""One run of section V in virtual time, message by message: the reference for ``fleet``."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.lab.las.operator import Operator
from penstock.lab.las.protocol_messages import Message
from penstock.lab.las.shedder import TupleShedder
from penstock.lab.las.streams import ParallelRuns, StreamPhase


@dataclass
class Outcome:
    waits: list[float] = field(default_factory=list)
    """Of the tuples that were kept, in order."""
    kept: list[bool] = field(default_factory=list)
    """Of each tuple, whether it was."""


Cost = Callable[[int, float], float]


def simulate(runs: ParallelRuns, shedder: TupleShedder, operator: Operator) -> Outcome:
    """A queue in front of one operator, first in, first out; messages take no time.

    What the operator says when a tuple is done reaches the shedder before the next tuple that
    arrives at that moment or later.
    """
    outcome = Outcome()
    under_way: deque[tuple[float, Message]] = deque()
    now = free = 0.0
    starts = {phase.start: phase for phase in runs.phases}
    phase = runs.phases[0]
    for number, item in enumerate(runs.items[:, 0].tolist()):
        phase = starts.get(number, phase)
        while under_way and under_way[0][0] <= now:
            shedder.receive(under_way.popleft()[1])
        kept = not shedder.sheds(item, now)
        outcome.kept.append(kept)
        if kept:
            start, cost = max(free, now), float(phase.costs[0, item])
            outcome.waits.append(start - now)
            free = start + cost
            told = operator.executed_one(item, start - now, cost, free, shedder.request())
            under_way.extend((free, message) for message in told)
        now += float(phase.gap[0])
    return outcome


def exact_costs(runs: ParallelRuns) -> Cost:
    """What Full Knowledge knows: the cost of an item at a time."""
    begins: list[tuple[float, StreamPhase]] = []
    now = 0.0
    for phase, after in zip(runs.phases, [*runs.phases[1:], None], strict=True):
        begins.append((now, phase))
        if after is not None:
            for _ in range(after.start - phase.start):
                now += float(phase.gap[0])  # as the simulation adds it up, bit by bit

    def cost(key: int, moment: float) -> float:
        phase = next(phase for begin, phase in reversed(begins) if begin <= moment)
        return float(phase.costs[0, key])

    return cost

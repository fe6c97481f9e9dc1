"""Is the load shedder's half of LAS: it foresees how long a tuple would wait, and drops it or not.

    NOP   nothing is known yet, nothing is dropped
    SEND  new matrices came: the next tuple that is kept carries Ĉ to the operator
    RUN   the rest of the time

(LAS, listing III.2 and figure 3.) All shedders have one shape, ``TupleShedder``.
"""

from enum import Enum
from typing import Protocol

from penstock.guard.sketch import Sketch
from penstock.lab.las.checks import Check
from penstock.lab.las.protocol_messages import Matrices, Message, Request
from penstock.lab.las.ranges import at_least


class TupleShedder(Protocol):
    """Decides about each tuple as it arrives.

    ``sheds`` is called once a tuple, in order of arrival. Where it answers False, ``request`` is
    called once and its answer travels with the tuple. ``receive`` is called for each message of
    the operator, before the next tuple that arrives after it.
    """

    def sheds(self, key: int, now: float) -> bool:
        """Says whether a tuple is dropped."""

    def request(self) -> Request | None:
        """Returns what travels with a tuple that was kept, if anything."""

    def receive(self, message: Message) -> None:
        """Takes a message of the operator."""


class Foresight:
    """Has what LAS, Straw-Man and Full Knowledge share: Ĉ, and q̂ = Ĉ - time elapsed.

    An operator that has caught up is idle until the next tuple comes, so Ĉ never falls behind
    the time elapsed.
    """

    def __init__(self, check: Check) -> None:
        self.check = check
        self.total = 0.0
        """Ĉ: when the operator will be done with all that it was given."""
        self.idle = 0.0
        """Of that, time since the last request in which it is taken to have had nothing to do."""

    def cost(self, key: int, now: float) -> float:
        """Returns ŵ, what a tuple will cost."""
        raise NotImplementedError

    def sheds(self, key: int, now: float) -> bool:
        """Says whether a tuple is dropped, and adds its cost to Ĉ if not."""
        start = max(self.total, now)
        if self.check.refuses(start - now):
            return True
        self.idle += start - self.total
        self.total = start + self.cost(key, now)
        return False

    def request(self) -> Request | None:
        """Returns no request."""
        return None

    def receive(self, message: Message) -> None:
        """Does nothing, since costs are known from the start."""


class ShedderPhase(Enum):
    """Names the states of the shedder."""

    NOP = "nop"
    SEND = "send"
    RUN = "run"


class LoadAware(Foresight):
    """Is LAS as published, with the readings that make it work.

    One synchronisation at a time: a second request before the first is answered would have the
    same skew corrected twice. ``warm`` is a sketch to begin with; without one it begins in NOP.
    """

    def __init__(self, check: Check, error: float = 0.05, warm: Sketch | None = None) -> None:
        super().__init__(check)
        self.phase = ShedderPhase.NOP
        self.caution = 1.0 + at_least(0.0, "error", error)
        self.sketch: Sketch | None = warm
        self.waiting = False
        """A request is under way."""
        if warm is not None:
            self.phase = ShedderPhase.RUN

    def cost(self, key: int, now: float) -> float:
        """Returns ŵ by the matrices."""
        del now
        assert self.sketch is not None
        return self.sketch.cost(key) * self.caution

    def sheds(self, key: int, now: float) -> bool:
        """Says whether a tuple is dropped; none is before there are matrices."""
        return self.phase is not ShedderPhase.NOP and super().sheds(key, now)

    def request(self) -> Request | None:
        """Returns a request, if one is due."""
        if self.phase is not ShedderPhase.SEND or self.waiting:
            return None
        self.phase, self.waiting, self.idle = ShedderPhase.RUN, True, 0.0
        return Request(self.total)

    def receive(self, message: Message) -> None:
        """Learns from matrices or a reply."""
        if isinstance(message, Matrices):
            self.sketch, self.phase = message.sketch, ShedderPhase.SEND
        else:
            self.total += correction(message.skew, self.idle)
            self.waiting = False


def correction(skew: float, idle: float) -> float:
    """Returns what a reply's Δ still has to mend, where the operator was taken to be idle.

    Work that took longer than estimated fills the idle time first; work that took less makes it
    longer, and what came after it stays where it was.
    """
    return skew if idle <= 0.0 else max(skew - idle, 0.0)

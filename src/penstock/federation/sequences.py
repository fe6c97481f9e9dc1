"""Numbers of messages: each sender's grow, so that an old message cannot be sent again.

A number is the time in milliseconds, or one more than the last where that is not more. So a sender
that starts again goes on above all it has sent before, without a file; and two that speak of the
same query, as the coordinators of replicas do, both get a hearing, and the newest news counts.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from penstock.federation.refusals import Reason, RefusedError

MOST_NAMES = 10_000
FARTHEST_AHEAD_SECONDS = 60.0
"""How far a sender's clock may be ahead. A number beyond would shut out all that come after it."""


class Sequences:
    """Remembers the last number for each name; one that is not higher is refused."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def next(self, name: str, number: int, now: float) -> Iterator[None]:
        """Takes a number, if what is done inside of the ``with`` block succeeds."""
        most = (now + FARTHEST_AHEAD_SECONDS) * 1000
        if number > most:
            raise RefusedError(Reason.BAD_MESSAGE, "'seq' is more than a minute ahead, in ms")
        with self._lock:
            before = self._last.get(name, -1)
            if before > most:  # this clock was ahead, and has been set back
                before = int((now - FARTHEST_AHEAD_SECONDS) * 1000)
            if number <= before:
                raise RefusedError(
                    Reason.OLD_SEQUENCE, f"'seq' must be above {before}; got {number}"
                )
            yield
            self._last[name] = number
            self._last.move_to_end(name)
            if len(self._last) > MOST_NAMES:
                self._last.popitem(last=False)


class Numbering:
    """Answers the numbers that a sender gives to its messages."""

    def __init__(self) -> None:
        self._last = -1
        self._lock = Lock()

    def next(self, now: float) -> int:
        """Answers a number above all before; ``now`` is the time in seconds."""
        with self._lock:
            if self._last > (now + FARTHEST_AHEAD_SECONDS) * 1000:
                self._last = -1  # the clock was ahead, and nobody takes such numbers any more
            self._last = max(self._last + 1, int(now * 1000))
            return self._last

"""Ctrl-C, at moments that suit Spark."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NAP = 0.1


class Interrupt:
    """Remembers that somebody pressed Ctrl-C until it is asked; a second press is not made to wait.

    An exception in the middle of a call to the JVM would leave half an answer on its connection,
    and Spark's own handler raises one there.
    """

    def __init__(self) -> None:
        self._pressed = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        before = signal.getsignal(signal.SIGINT)
        self.install()
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def install(self) -> None:
        """Again after Spark has started, which puts a handler of its own in place."""
        signal.signal(signal.SIGINT, self._press)

    def check(self) -> None:
        if self._pressed:
            raise KeyboardInterrupt

    def pause(self, seconds: float) -> None:
        """Sleeps; raises `KeyboardInterrupt` if Ctrl-C was pressed, now or before."""
        end = time.monotonic() + seconds
        self.check()
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, NAP))
            self.check()

    def _press(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._pressed:
            raise KeyboardInterrupt
        self._pressed = True

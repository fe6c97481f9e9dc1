"""Delivers Ctrl-C at moments that suit Spark."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

LONGEST_NAP_SECONDS = 0.1
"""How long a pause may go on after Ctrl-C."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """Ends a command on Ctrl-C, and when it is terminated or its terminal goes away.

    It remembers a press until the command asks: an exception while Spark starts would leave a JVM
    behind that no code knows of, and one in the middle of a call to the JVM would leave half an
    answer on the connection. Once Spark has started, a second press raises at once.
    """

    def __init__(self) -> None:
        self._started = False
        self.number = 0
        """The number of the signal that came, or 0."""

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handles signals for the time of a ``with`` block."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self._install()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def spark_started(self) -> None:
        """Handles signals again, since Spark has installed a handler that raises anywhere."""
        self._started = True
        self._install()
        self.check()

    def _install(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._press)

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if a signal came."""
        if self.number:
            raise KeyboardInterrupt

    def pause(self, seconds: float) -> None:
        """Sleeps; raises `KeyboardInterrupt` if Ctrl-C was pressed, now or before."""
        end = time.monotonic() + seconds
        self.check()
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LONGEST_NAP_SECONDS))
            self.check()

    def _press(self, number: int, frame: FrameType | None) -> None:
        del frame
        again, self.number = bool(self.number), number
        if again and self._started:
            raise KeyboardInterrupt

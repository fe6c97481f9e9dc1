"""Does something once an interval from a thread of its own, whatever else a process does."""

import logging
import threading
from collections.abc import Callable
from typing import Self

log = logging.getLogger("penstock")


class Repeating:
    """Calls a function at once and then again and again, until the end of the ``with`` block.

    An error is logged, and the function is called again.
    """

    def __init__(self, name: str, seconds: float, do: Callable[[], None]) -> None:
        self._seconds, self._do = seconds, do
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self._do()
            except Exception:
                log.exception("%s failed, and goes on", self._thread.name)
            if self._stopped.wait(self._seconds):
                return

"""Starts processes of ``penstock`` beside this one, and ends them: none outlives it.

A child is in a session of its own, so that Ctrl-C reaches the parent alone, which then asks its
children to end. Its standard input is a pipe that only the parent holds: when the parent dies, the
child reads the end of it, and ends too.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

LAST_LINES = 15
"""Of the log of a child that has failed, in the message."""


class ChildProcess:
    """Is one process of ``penstock`` that writes what it says into a log."""

    def __init__(
        self, name: str, arguments: Sequence[str], directory: Path, secrets: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock", *arguments, "--until-eof"],
                cwd=directory,
                env={**os.environ, **secrets},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def said(self) -> str:
        """Returns all that it has said."""
        return self.log.read_text(errors="replace")

    def last_words(self) -> str:
        """Returns the end of what it has said."""
        return "\n".join(self.said().splitlines()[-LAST_LINES:])

    def ask_to_end(self) -> None:
        """Terminates it."""
        if self.runs:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> bool:
        """Waits until it has ended, or for some seconds; says whether it has."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(seconds, 0.0))
        return not self.runs

    def kill(self) -> None:
        """Ends it at once, with what it has started in its session."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Closes the pipe to it, once it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()


def end_all(children: Iterable[ChildProcess], seconds: float) -> list[str]:
    """Asks all to end, waits, and kills those that do not; returns the names of these."""
    asked = list(children)
    for child in asked:
        child.ask_to_end()
    deadline = time.monotonic() + seconds
    killed = []
    for child in asked:
        if not child.wait(deadline - time.monotonic()):
            child.kill()
            killed.append(child.name)
        child.close()
    return killed

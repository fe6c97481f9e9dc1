"""Runs a module in a process of its own, with a specification, and reads the lines that it tells.

The process gets its specification as JSON in its first argument, and appends to a file of JSON
lines. It ends by itself when its standard input is closed: that is how it is told to.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.errors import PenstockError

LONGEST_STOP_SECONDS = 90.0
LOG_CHARACTERS_SHOWN = 3000


def dies_with_us() -> list[str]:
    """Returns what to put in front of a command so that the system ends it when we end."""
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL"]


def told_to_end(seconds: float) -> bool:
    """Says, in such a process, whether it is told to end; waits for so long at most."""
    return bool(select.select([sys.stdin], [], [], max(seconds, 0.0))[0])


class Lines:
    """Is a file of JSON lines that a process appends to, one whole line at a time."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def tell(self, kind: str, **values: Any) -> None:
        """Appends a line, with the time at which it was told."""
        line = json.dumps({"kind": kind, "at": time.time(), **values})
        with self._path.open("a") as file:
            file.write(line + "\n")


class Child:
    """Is a process that runs a module of this package, and what it told so far.

    It does not outlive the ``with`` block, nor this process.
    """

    def __init__(self, module: str, spec: dict[str, Any], folder: Path, name: str) -> None:
        self.name = name
        self.lines = folder / f"{name}.jsonl"
        self._log = folder / f"{name}.log"
        command = [*dies_with_us(), sys.executable, "-m", module]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, json.dumps({**spec, "lines": str(self.lines)})],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )

    def told(self, kind: str) -> list[dict[str, Any]]:
        """Returns the whole lines of a kind that there are by now."""
        text = self.lines.read_text() if self.lines.exists() else ""
        rows = [json.loads(line) for line in text.split("\n")[:-1]]
        return [row for row in rows if row["kind"] == kind]

    def wait_for(self, true: Callable[[], object], seconds: float, what: str) -> None:
        """Waits for a condition; raises where the process ends, or the time is up, before it."""
        deadline = time.monotonic() + seconds
        while not true():
            if self._process.poll() is not None:
                raise PenstockError(f"the {self.name} ended before {what}: {self.said()}")
            if time.monotonic() > deadline:
                raise PenstockError(
                    f"waited {seconds:.0f} s for {what} of the {self.name}: {self.said()}"
                )
            time.sleep(0.05)

    def wait(self, seconds: float) -> None:
        """Lets it work for so long; raises where it ends meanwhile."""
        until = time.monotonic() + seconds
        self.wait_for(lambda: time.monotonic() >= until, seconds + 5, "its time was up")

    def stop(self) -> None:
        """Tells it to end, and raises where it does not end well."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            code = self._process.wait(LONGEST_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PenstockError(f"the {self.name} did not end: {self.said()}") from None
        if code != 0:
            raise PenstockError(f"the {self.name} ended with code {code}: {self.said()}")

    def kill(self) -> None:
        """Ends it, and all that it started, with SIGKILL."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def said(self) -> str:
        """Returns the end of what it wrote to its standard output and error."""
        return self._log.read_text(errors="replace")[-LOG_CHARACTERS_SHOWN:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.kill()

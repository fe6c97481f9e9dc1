"""What a site remembers across a crash, in a directory of its own.

Pickles: a cache of what can be learnt again, read by the same version of the code, and thrown
away when it does not fit.
"""

import logging
import pickle
from pathlib import Path
from typing import TypeVar

log = logging.getLogger("penstock")
T = TypeVar("T")


class Memory:
    """Forgets everything where there is no directory."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory

    def recall(self, name: str, kind: type[T]) -> T | None:
        path = self.directory and self.directory / f"{name}.pickle"
        if not path or not path.exists():
            return None
        try:
            found = pickle.loads(path.read_bytes())
        except Exception:
            log.warning("%s cannot be read; starting with nothing learnt", path)
            return None
        return found if isinstance(found, kind) else None

    def remember(self, name: str, value: object) -> None:
        """Whole or not at all: a crash leaves the old one."""
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        new = self.directory / f"{name}.pickle.new"
        new.write_bytes(pickle.dumps(value))
        new.replace(self.directory / f"{name}.pickle")

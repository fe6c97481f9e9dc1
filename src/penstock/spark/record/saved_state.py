"""What a site remembers across a crash, in a directory of its own.

Pickles: a cache of what can be learnt again, read by the same version of the code, and thrown
away when it does not fit. Each stands behind a checksum, since a damaged pickle may well be read,
and say something else.
"""

import logging
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

log = logging.getLogger("penstock")
T = TypeVar("T")
HEAD = b"penstock state 1\n"
"""What a file begins with; a checksum follows, and then the pickle."""
CHECKSUM_BYTES = 16


class SavedState:
    """Remembers values by name; forgets everything where there is no directory."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self._writer = ThreadPoolExecutor(1, "penstock-saves") if directory else None
        self._pending: dict[str, object] = {}
        self._lock = threading.Lock()

    def recall(self, name: str, kind: type[T]) -> T | None:
        """The value of this name, if there is one of this kind."""
        path = self.directory and self.directory / f"{name}.pickle"
        if not path or not path.exists():
            return None
        try:
            found = pickle.loads(unsealed(path.read_bytes()))
        except Exception as error:
            log.warning("%s cannot be read, and is not used: %s", path, error)
            return None
        return found if isinstance(found, kind) else None

    def recall_all(self, name: str, kind: type[T]) -> dict[str, T]:
        """All values of this name, by what they are ``of``."""
        paths = [] if self.directory is None else sorted(self.directory.glob(f"{name}-*.pickle"))
        found: dict[str, T] = {}
        for path in paths:
            pair = self.recall(path.stem, tuple)
            if pair is not None and len(pair) == 2 and isinstance(pair[1], kind):
                found[str(pair[0])] = pair[1]
        return found

    def remember_soon(self, name: str, value: object) -> None:
        """Writes a frozen value on a thread of its own, so that nobody waits for the disk.

        Of values that come faster than the disk takes them, the newest is written.
        """
        if self._writer is None:
            return
        with self._lock:
            scheduled = name in self._pending
            self._pending[name] = value
        if not scheduled:
            self._writer.submit(self._write, name)

    def close(self) -> None:
        """Waits until everything is written."""
        if self._writer is not None:
            self._writer.shutdown(wait=True)

    def _write(self, name: str) -> None:
        with self._lock:
            value = self._pending.pop(name)
        try:
            self.remember(name, value)
        except Exception:
            log.exception("%s cannot be saved", name)

    def remember(self, name: str, value: object, of: str | None = None) -> None:
        """Writes a value whole or not at all: a crash leaves the old one.

        There is one value of a name, or one for each thing that it is ``of``.
        """
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        if of is not None:  # which may be no name for a file
            name = f"{name}-{blake2b(of.encode(), digest_size=8).hexdigest()}"
            value = (of, value)
        new = self.directory / f"{name}.pickle.new"
        pickled = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        new.write_bytes(HEAD + _checksum(pickled) + pickled)
        new.replace(self.directory / f"{name}.pickle")


def unsealed(data: bytes) -> bytes:
    """Answers the pickle in a file; raises where the file is of another version, or damaged."""
    if not data.startswith(HEAD):
        raise ValueError("it is of another version of Penstock, or damaged")
    start = len(HEAD) + CHECKSUM_BYTES
    if _checksum(data[start:]) != data[len(HEAD) : start]:
        raise ValueError("it is damaged: its checksum does not fit")
    return data[start:]


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=CHECKSUM_BYTES).digest()

"""The account of every batch, on disk: arrived = admitted + shed, also after a crash.

A line of JSON a batch, appended when the batch is known to be committed. A batch that ran again
after a crash is written again, and the last line counts; a line that a crash cut short is left
out, and its batch is counted anew (see ``Site``).
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """What one gate did in one batch."""

    job: str
    batch: int
    gate: str
    version: int | None
    """Of the plan that was in force; None where no tuple arrived."""
    arrived: int
    admitted: int
    shed: int

    @property
    def balanced(self) -> bool:
        return self.arrived == self.admitted + self.shed


class Ledger:
    """In memory, and in a file where one is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._entries: dict[tuple[str, int, str], Entry] = {}
        if path is not None and path.exists():
            self._read(path)

    def record(self, entry: Entry) -> None:
        self._entries[entry.job, entry.batch, entry.gate] = entry
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(asdict(entry)) + "\n")

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def has(self, job: str, batch: int) -> bool:
        return any(entry.job == job and entry.batch == batch for entry in self)

    def batches(self, job: str) -> set[int]:
        return {entry.batch for entry in self if entry.job == job}

    @property
    def balanced(self) -> bool:
        """Every entry balances, and no batch of any job is missing."""
        jobs = {entry.job for entry in self}
        whole = all(self.batches(job) == set(range(max(self.batches(job)) + 1)) for job in jobs)
        return whole and all(entry.balanced for entry in self)

    def total(self, job: str | None = None) -> tuple[int, int, int]:
        """Arrived, admitted, shed."""
        mine = [entry for entry in self if job in (None, entry.job)]
        return (
            sum(entry.arrived for entry in mine),
            sum(entry.admitted for entry in mine),
            sum(entry.shed for entry in mine),
        )

    def _read(self, path: Path) -> None:
        for line in path.read_text().splitlines():
            try:
                entry = Entry(**json.loads(line))
            except (ValueError, TypeError):
                continue  # cut short by a crash
            self._entries[entry.job, entry.batch, entry.gate] = entry
        if not path.read_text().endswith("\n"):
            with path.open("a") as file:
                file.write("\n")

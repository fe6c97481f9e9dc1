"""Keeps the account of every batch on disk: arrived = admitted + shed, also after a crash.

The ledger appends a line of JSON when a batch is known to be committed. A batch that ran again
after a crash gets another line, and the last line counts. A line that a crash cut short does not
count, and the site counts its batch anew (see ``recount``). A query that starts for the first time
gets a line of its own with the number of its first batch, so that a missing batch is noticed.
What a batch lost behind its gates stands in one more line, and is no part of the balance. Each line
has a checksum: one that is damaged does not count either, and the account is not balanced.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.spark.record.ledger_lines import Entry, Line, LostBehind, Opening, understood
from penstock.spark.record.sealed_lines import VERSION, Fault, read_lines, sealed

__all__ = ["Entry", "Ledger"]

log = logging.getLogger("penstock")


class Ledger:
    """Keeps entries in memory, and in a file where one is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._unwritten: list[str] = []
        self._entries: dict[tuple[str, str, int, str], Entry] = {}
        self._first: dict[tuple[str, str], int] = {}
        self._lost: dict[tuple[str, str, int], dict[str, float]] = {}
        self._gates: dict[tuple[str, str], int] = {}
        """How many gates a query has: a batch is accounted for when there is an entry of each."""
        self.torn: list[int] = []
        """The numbers of lines that a crash cut short; what they would have said is missing."""
        self.damaged: list[int] = []
        """The numbers of lines that were changed after they were written."""
        self.is_cut = False
        """Whether the file did not end with the end of a line when it was read."""
        self.lines = self.unsealed = 0
        """Lines that were read, and those without a checksum, of a Penstock before these."""
        if path is not None and path.exists():
            self._read(path)

    def open(self, job: str, query: str, batch: int, gates: int = 1) -> None:
        """Begins the account of a query with this batch, if it has not begun before."""
        self._gates[job, query] = gates
        if (job, query) not in self._first:
            self._first[job, query] = batch
            self._append(Opening(job, query, batch, gates))

    def record(self, entry: Entry) -> None:
        """Adds an entry; it replaces an earlier one of the same batch and gate."""
        self._entries[entry.job, entry.query, entry.batch, entry.gate] = entry
        self._append(entry)

    def note(self, job: str, query: str, batch: int, gate: int, metrics: Mapping[str, Any]) -> None:
        """Records what a gate has counted in a batch."""
        arrived, admitted = int(metrics["arrived"]), int(metrics["admitted"])
        self.record(
            Entry(
                job=job,
                batch=batch,
                gate=f"gate-{gate}",
                version=metrics["version"],
                arrived=arrived,
                admitted=admitted,
                shed=arrived - admitted,
                query=query,
            )
        )

    def note_losses(self, job: str, query: str, batch: int, lost: Mapping[str, float]) -> None:
        """Records how many admitted tuples a batch lost behind its gates, by where that was."""
        found = {where: round(tuples, 3) for where, tuples in lost.items() if tuples > 0}
        self._lost[job, query, batch] = found
        self._append(LostBehind(job, query, batch, found))

    def _append(self, line: Line) -> None:
        """Writes a line, and before it those that a full disk or the like has kept back."""
        if self._path is None:
            return
        self._unwritten.append(sealed(asdict(line)) + "\n")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write("".join(self._unwritten))
        except OSError as error:
            log.error("%s cannot be written, and is written later: %s", self._path, error)
        else:
            self._unwritten.clear()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def lacks(self, job: str, query: str, batch: int) -> bool:
        """Says whether a batch belongs to the account and is not in it."""
        first = self._first.get((job, query))
        return first is not None and batch >= first and batch not in self.batches(job, query)

    def batches(self, job: str, query: str | None = None) -> set[int]:
        """Returns the batches of which every gate of the query has an entry."""
        found = Counter((e.query, e.batch) for e in self if e.job == job)
        return {
            batch
            for (its, batch), gates in found.items()
            if query in (None, its) and gates >= self._gates.get((job, its), 1)
        }

    @property
    def balanced(self) -> bool:
        """Says whether every entry balances, no batch of any job is missing, and no line is
        damaged.
        """
        newest: dict[tuple[str, str], int] = {}
        for entry in self:
            key = entry.job, entry.query
            newest[key] = max(entry.batch, newest.get(key, 0))
        whole = all(
            self.batches(*key) >= set(range(self._first.get(key, 0), last + 1))
            for key, last in newest.items()
        )
        return whole and not self.damaged and all(entry.balanced for entry in self)

    def total(self, job: str | None = None) -> tuple[int, int, int]:
        """Returns how many tuples arrived, were admitted, and were shed."""
        mine = [entry for entry in self if job in (None, entry.job)]
        return (
            sum(entry.arrived for entry in mine),
            sum(entry.admitted for entry in mine),
            sum(entry.shed for entry in mine),
        )

    def lost(self, job: str | None = None) -> dict[str, float]:
        """Returns how many admitted tuples were lost behind gates, by where that was."""
        totals: Counter[str] = Counter()
        for (its, _, _), lost in self._lost.items():
            if job in (None, its):
                totals.update(lost)
        return dict(totals)

    def accounts(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Returns each job and query with its first batch, and with how many gates it has."""
        found = {(entry.job, entry.query): (0, 1) for entry in self}
        return found | {key: (first, self._gates[key]) for key, first in self._first.items()}

    def _read(self, path: Path) -> None:
        try:
            text = path.read_bytes()
        except OSError as error:
            raise PenstockError(f"{path}: the ledger cannot be read: {error.strerror}") from None
        for line in read_lines(text):
            self.lines += 1
            if line.fault is Fault.OTHER_VERSION:
                raise PenstockError(
                    f"{path}:{line.number}: a ledger of format {line.version}, and this Penstock "
                    f"knows {VERSION}: use the one that wrote it, or another directory"
                )
            said = None if line.fault else understood(line.told)
            if line.fault is Fault.TORN:
                self.torn.append(line.number)
            elif said is None:
                self.damaged.append(line.number)
            else:
                self.unsealed += not line.sealed
                self._take(said)
        if self.damaged:
            log.error(
                "%s: damaged, and not believed: line %s",
                path,
                ", ".join(map(str, self.damaged)),
            )
        if text and not text.endswith(b"\n"):
            self.is_cut = True
            self._unwritten.append("\n")  # so that the next line does not join the torn one

    def _take(self, line: Line) -> None:
        if isinstance(line, Opening):
            self._first[line.job, line.query] = line.first
            self._gates[line.job, line.query] = line.gates
        elif isinstance(line, LostBehind):
            self._lost[line.job, line.query, line.batch] = dict(line.lost)
        else:
            self._entries[line.job, line.query, line.batch, line.gate] = line

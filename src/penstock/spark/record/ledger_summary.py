"""Sums a ledger up, and says what is wrong with it in words."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from penstock.spark.record.ledger import Ledger

MOST_PROBLEMS_A_JOB = 20
"""More are counted, and not listed one by one."""


@dataclass(frozen=True)
class JobSummary:
    """Sums up one query: of one name, each checkpoint has an account of its own."""

    job: str
    query: str
    gates: int
    first: int
    last: int | None
    """Its newest batch; None where there is none yet."""
    batches: int
    """Those of which every gate has an entry."""
    arrived: int
    admitted: int
    shed: int


@dataclass(frozen=True)
class LedgerSummary:
    """Says what a ledger has, and whether it is whole."""

    lines: int
    unsealed: int
    jobs: list[JobSummary]
    lost: dict[str, float]
    """Admitted tuples that were lost behind gates, by where that was."""
    problems: list[str] = field(default_factory=list)
    """What a person should look at; none where the ledger is whole."""
    notes: list[str] = field(default_factory=list)
    """What is no problem, and good to know."""

    def to_dict(self) -> dict[str, Any]:
        """Answers plain values for JSON."""
        return {"whole": not self.problems, **asdict(self)}


def summed_up(ledger: Ledger) -> LedgerSummary:
    """Sums a ledger up."""
    problems = [
        f"line {number} is damaged, and what it said is in no sum" for number in ledger.damaged
    ]
    if ledger.is_cut:
        problems.append("the file ends within a line: the site counts that batch when it starts")
    jobs = []
    for (job, query), (first, gates) in sorted(ledger.accounts().items()):
        jobs.append(_job(ledger, job, query, first, gates))
        problems += _limited(_problems(ledger, jobs[-1]))
    notes = [
        f"line {number} was cut short by a crash; the site has gone on after it"
        for number in ledger.torn
        if number < ledger.lines or not ledger.is_cut
    ]
    if ledger.unsealed:
        notes.append(f"{ledger.unsealed} lines have no checksum: an older Penstock wrote them")
    return LedgerSummary(ledger.lines, ledger.unsealed, jobs, ledger.lost(), problems, notes)


def _job(ledger: Ledger, job: str, query: str, first: int, gates: int) -> JobSummary:
    mine = [entry for entry in ledger if (entry.job, entry.query) == (job, query)]
    return JobSummary(
        job,
        query,
        gates,
        first,
        max((entry.batch for entry in mine), default=None),
        len(ledger.batches(job, query)),
        sum(entry.arrived for entry in mine),
        sum(entry.admitted for entry in mine),
        sum(entry.shed for entry in mine),
    )


def _problems(ledger: Ledger, job: JobSummary) -> Iterator[str]:
    if job.last is not None:
        known = ledger.batches(job.job, job.query)
        missing = [n for n in range(job.first, job.last + 1) if n not in known]
        for first, last in _stretches(missing):
            told = f"batch {first} is" if first == last else f"batches {first} to {last} are"
            yield f"{job.job}: {told} missing, or lack an entry of one of the gates"
    for entry in ledger:
        if (entry.job, entry.query) == (job.job, job.query) and not entry.balanced:
            yield (
                f"{job.job}: batch {entry.batch}, {entry.gate}: {entry.arrived:,} arrived, and "
                f"{entry.admitted:,} admitted and {entry.shed:,} shed do not make that"
            )


def _stretches(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Answers the first and last of each stretch of numbers without a gap.

    >>> list(_stretches([3, 4, 5, 9]))
    [(3, 5), (9, 9)]
    """
    if not numbers:
        return
    first = numbers[0]
    for before, after in pairwise(numbers):
        if after != before + 1:
            yield first, before
            first = after
    yield first, numbers[-1]


def _limited(problems: Iterable[str]) -> list[str]:
    found = list(problems)
    more = len(found) - MOST_PROBLEMS_A_JOB
    return found if more <= 0 else [*found[:MOST_PROBLEMS_A_JOB], f"and {more} more like these"]

"""``penstock ledger``: reads a ledger, checks it and sums it up."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.spark.record.ledger_summary import LedgerSummary

NOT_WHOLE_EXIT_CODE = 1
"""The exit code where something is missing from the ledger, or damaged."""
LEDGER_FILE = "ledger.jsonl"
PLACES = (Path(LEDGER_FILE), Path("site") / LEDGER_FILE)
"""Where the ledger lies in the directory of a site, and in the checkpoint of a job."""
DESCRIPTION = (
    "Reads the ledger of a site: for each query which batches it has, what arrived, what was "
    "admitted and what was shed; and checks it: every batch is there, every tuple is accounted "
    "for, and no line was changed after it was written. It changes nothing, and needs no Spark. "
    "Exit codes: 0 the ledger is whole, 1 it is not, 2 there is none that can be read."
)
EXAMPLE = """\
examples:

  penstock ledger state/site/ledger.jsonl
  penstock ledger state --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "path",
        type=Path,
        metavar="PATH",
        help="the file, or the directory of a site, or the checkpoint of a job",
    )
    parser.add_argument("--json", action="store_true", help="all that is known, as JSON")


def run(options: argparse.Namespace) -> int:
    """Reads the ledger and says what is in it."""
    from penstock.spark.record.ledger import Ledger
    from penstock.spark.record.ledger_summary import summed_up

    path = _file(options.path)
    ledger = Ledger(path)
    if ledger.lines and len(ledger.damaged) == ledger.lines:
        raise PenstockError(f"{path}: this is no ledger: none of its {ledger.lines} lines is one's")
    summary = summed_up(ledger)
    if options.json:
        print(json.dumps({"path": str(path), **summary.to_dict()}, indent=1))
    else:
        print("\n".join([f"{path}: {summary.lines} lines", *_told(summary)]))
    return NOT_WHOLE_EXIT_CODE if summary.problems else 0


def _file(given: Path) -> Path:
    """Finds the file; raises where there is none."""
    if given.is_dir():
        for place in PLACES:
            if (given / place).exists():
                return given / place
        raise PenstockError(f"{given}: there is no {LEDGER_FILE} in this directory")
    if not given.exists():
        raise PenstockError(f"{given}: No such file or directory")
    return given


def _told(summary: "LedgerSummary") -> list[str]:
    lines = []
    for job in summary.jobs:
        reach = "no batch yet" if job.last is None else f"batches {job.first} to {job.last}"
        lines.append(
            f"  {job.job}: {reach}; {job.arrived:,} arrived, {job.admitted:,} admitted, "
            f"{job.shed:,} shed"
        )
    if summary.lost:
        parts = ", ".join(f"{where} {tuples:,.0f}" for where, tuples in summary.lost.items())
        lines.append(f"  admitted, and lost behind the gates: {parts}")
    lines += [f"  note: {note}" for note in summary.notes]
    lines += [f"  PROBLEM: {problem}" for problem in summary.problems]
    return [*lines, "not whole" if summary.problems else "whole: every tuple is accounted for"]

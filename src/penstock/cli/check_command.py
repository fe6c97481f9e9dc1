"""``penstock check``: says what is wrong with a job file, without running it."""

import argparse
from pathlib import Path

from penstock.cli.command_support import installed

DESCRIPTION = (
    "Reads a job file, then has Spark look at its queries without starting them, since only Spark "
    "knows the columns. Exit code 2 and one message if something is wrong."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the argument of the command and its description."""
    parser.description = DESCRIPTION
    parser.add_argument("job", type=Path, metavar="JOB.yaml")


def run(options: argparse.Namespace) -> int:
    """Checks the job file."""
    with installed("spark"):
        from penstock.cli.run import check
    return check(options.job)

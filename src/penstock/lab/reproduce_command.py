"""``penstock reproduce``: runs experiments of the papers and prints their tables."""

import argparse
from pathlib import Path

from penstock.cli.command_support import installed, share

CLAIM_FAILED_EXIT_CODE = 1
"""The exit code where an experiment ran and something that it claims was not seen to hold."""
DESCRIPTION = (
    "Runs experiments of the papers that Penstock builds on and prints their tables; without a "
    "name it lists them. Each line 'holds' is a claim that was seen to hold; if one does not, the "
    "exit code is 1."
)
EXAMPLE = "example: penstock reproduce las --effort 0.1 --out results/"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and an example."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (default: list them)")
    parser.add_argument(
        "--effort",
        type=share,
        default=1.0,
        metavar="E",
        help="between 0 (seconds, shows that it runs) and 1 (what the results page shows)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="page, plots and JSON go here")


def run(options: argparse.Namespace) -> int:
    """Runs the experiments that are named, or lists all where none is."""
    with installed("spark,experiments"):
        from penstock.lab.reproduce import listing, reproduce
    if not options.names:
        print(listing())
        return 0
    good = reproduce(options.names, options.effort, options.out)
    return 0 if good else CLAIM_FAILED_EXIT_CODE

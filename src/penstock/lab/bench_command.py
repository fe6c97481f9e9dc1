"""``penstock bench``: measures on this machine, on real Spark, what gate and guard promise."""

import argparse
from pathlib import Path

from penstock.cli.command_support import installed
from penstock.errors import PenstockError
from penstock.hints import hint

PROMISE_BROKEN_EXIT_CODE = 1
"""The exit code where a benchmark ran and something that it promises did not hold."""
DESCRIPTION = (
    "Measures what gate and guard promise. Of the gate: latency, capacity, burst, transparent, "
    "fair, jobs, truthful, coverage, groups, wire; of the guard: guard-classes, guard-measured, "
    "guard-fair, guard-overhead. Rates follow from what this machine can do; each line under "
    "'holds' says whether a promise held; if one does not, the exit code is 1."
)
EXAMPLE = "example: penstock bench latency burst --json results/"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and an example."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")
    parser.add_argument("--seconds", type=float, default=90.0, help="length of the main runs")
    parser.add_argument("--json", type=Path, metavar="DIR", help="keep every figure here")


def run(options: argparse.Namespace) -> int:
    """Runs the benchmarks that are named, or all of them."""
    with installed("spark,experiments"):
        from penstock.lab.bench.suite import BENCHES, run_benches
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        raise PenstockError(f"unknown benchmark {unknown[0]!r}: {hint(unknown[0], BENCHES)}")
    good = run_benches(options.names or list(BENCHES), options.seconds, options.json)
    return 0 if good else PROMISE_BROKEN_EXIT_CODE

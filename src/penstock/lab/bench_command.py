"""``penstock bench``: measures on this machine, on real Spark, what gate and guard promise."""

import argparse
import time
from collections.abc import Collection
from pathlib import Path

from penstock.cli.command_support import check_seconds, installed
from penstock.errors import PenstockError
from penstock.hints import hint

PROMISE_BROKEN_EXIT_CODE = 1
"""The exit code where a benchmark ran and something that it promises did not hold."""
DESCRIPTION = (
    "Measures what gate and guard promise. Of the gate: latency, capacity, burst, transparent, "
    "fair, jobs, truthful, coverage, certified, row-sic, result-sic, silent-source, nine-results, "
    "groups, wire; of the guard: guard-classes, guard-measured, "
    "guard-fair, guard-overhead. Rates follow from what this machine can do; each line under "
    "'holds' says whether a promise held; if one does not, the exit code is 1. On Kafka, from a "
    "cold JVM, and only where named: field-start, field-neighbour, field-limits, field-kill, "
    "field-outage, field-fair, field-idle, field-watch, field-rivals, and field-five. On sites of "
    "their own: federation (figure 4 of THEMIS), federation-simulated (beside the simulator), "
    "federation-latency (over one and two hops), federation-kill and federation-outages (a link "
    "away, a root moved, a coordinator killed). In a browser: dashboard. "
    "Through Spark Connect, in processes of their own: connect."
)
FEDERATION, DASHBOARD, CONNECT = "federation", "dashboard", "connect"
LENGTH_SECONDS = 90.0
EXAMPLE = "example: penstock bench latency burst --json results/"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and an example."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")
    parser.add_argument("--seconds", type=float, help="length of the main runs (default: 90)")
    parser.add_argument("--runs", type=int, default=3, help="how often field-… measures")
    parser.add_argument("--case", help="which case of a field-… (default: all)")
    parser.add_argument("--json", type=Path, metavar="DIR", help="keep every figure here")


def run(options: argparse.Namespace) -> int:
    """Runs the benchmarks that are named, or all of them."""
    field = [name for name in options.names if name.startswith(("field-", FEDERATION))]
    page = [name for name in options.names if name == DASHBOARD]
    remote = [name for name in options.names if name == CONNECT]
    others = [name for name in options.names if name not in (*field, *page, *remote)]
    good = [_run_field(field, options)] if field else []
    good += [_run_dashboard(options)] if page else []
    good += [_run_connect(options)] if remote else []
    good += [_run_others(others, options)] if others or not field + page + remote else []
    return 0 if all(good) else PROMISE_BROKEN_EXIT_CODE


def _run_dashboard(options: argparse.Namespace) -> bool:
    with installed("spark,experiments,federation"):
        from penstock.lab.bench.suite import keep
    try:
        from penstock.lab.page_load import dashboard_bench
    except ModuleNotFoundError as error:
        raise PenstockError(f"{error}; install it with: pip install playwright") from None
    seconds = dashboard_bench.USUAL_SECONDS if options.seconds is None else options.seconds
    check_seconds(seconds, 60)
    began = time.time()
    return keep(DASHBOARD, dashboard_bench.run(seconds), began, options.json)


def _run_connect(options: argparse.Namespace) -> bool:
    with installed("spark,connect"):
        from penstock.lab.bench import connect_price
        from penstock.lab.bench.suite import keep
    seconds = connect_price.USUAL_SECONDS if options.seconds is None else options.seconds
    check_seconds(seconds, 30)
    began = time.time()
    return keep(CONNECT, connect_price.run(seconds), began, options.json)


def _run_others(names: list[str], options: argparse.Namespace) -> bool:
    with installed("spark,experiments"):
        from penstock.lab.bench.suite import BENCHES, run_benches
    _check(names, BENCHES)
    seconds = LENGTH_SECONDS if options.seconds is None else options.seconds
    return run_benches(names or list(BENCHES), seconds, options.json)


def _run_field(names: list[str], options: argparse.Namespace) -> bool:
    with installed("spark,experiments,kafka"):
        from penstock.lab.field.field_suite import FIELD_BENCHES, run_field_benches
        from penstock.lab.field.stand import FieldOptions
    _check(names, FIELD_BENCHES)
    if options.seconds is not None:
        check_seconds(options.seconds, 60)
    if options.runs < 1:
        raise PenstockError(f"--runs must be 1 or more, such as 3; got {options.runs}")
    asked = FieldOptions(options.runs, options.seconds, options.case)
    return run_field_benches(names, asked, options.json)


def _check(names: list[str], known: Collection[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise PenstockError(f"unknown benchmark {unknown[0]!r}: {hint(unknown[0], known)}")

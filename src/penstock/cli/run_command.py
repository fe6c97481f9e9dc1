"""``penstock run``: runs a job file on one site until it is stopped, and reports."""

import argparse
from pathlib import Path

from penstock.cli.command_support import installed
from penstock.cli.log_output import add_log, log_to_stderr

DESCRIPTION = (
    "Runs the queries of a job file on one site. Stops on Ctrl-C, on a signal to terminate, or "
    "after --seconds. Exit codes: 0 done, 1 a query failed, 2 the job or an option is wrong, "
    "130 Ctrl-C, 143 terminated."
)
EXAMPLE = "example: penstock run examples/avg.yaml --seconds 30 --report report.json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and an example."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.add_argument("job", type=Path, metavar="JOB.yaml")
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after so long")
    parser.add_argument("--report", type=Path, metavar="R.json", help="where to write the report")
    parser.add_argument(
        "--metrics",
        metavar="PORT",
        help="where Prometheus finds the figures; ADDRESS:PORT to let other machines ask",
    )
    parser.add_argument(
        "--dashboard",
        metavar="PORT",
        nargs="?",
        const="0",
        help="where a browser finds a page about the job (a free port unless told); "
        "ADDRESS:PORT to let other machines look. Changes need the token in PENSTOCK_TOKEN",
    )
    add_log(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the job file."""
    log_to_stderr(options.log)
    with installed("spark"):
        from penstock.cli.run import WatchedFrom
        from penstock.cli.run import run as run_job
    return run_job(
        options.job,
        options.seconds,
        options.report,
        WatchedFrom(options.metrics, options.dashboard),
    )

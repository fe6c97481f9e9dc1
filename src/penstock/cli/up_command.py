"""``penstock up``: runs a whole federation on this machine, to try it out."""

import argparse
from pathlib import Path

from penstock.cli.command_support import check_seconds, check_writable, installed
from penstock.errors import PenstockError

FEWEST_SITES = 2
USUAL_SITES = 3
DESCRIPTION = (
    "Starts an oracle and sites as processes of this machine, each site with a small Spark, "
    "machines that report more than it can process, and a query of its own. Submits queries over "
    "all sites, shows how everybody fares, and ends everything on Ctrl-C, on a signal to "
    "terminate, or after --seconds. Exit codes: 0 done, 1 a process ended by itself, 2 an option "
    "or a file is wrong, 130 Ctrl-C, 143 terminated."
)
EXAMPLE = """\
examples:

  penstock up --sites 3
  penstock up --sites 3 --seconds 180 --report report.json
  penstock up --directory trial mine.yaml       submits a query of yours, and keeps all files

Without QUERY.yaml it submits an average over all sites (a tree), the five busiest machines, and a
covariance (a chain). Sites are called rome, oslo, kyoto, lima, and so on; each lends machines
(timestamp, machine, cpu, memory). To look from another terminal, set PENSTOCK_TOKEN before, to 16
characters or more; then penstock top --oracle URL, with the same variable, sees what this sees.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("queries", type=Path, nargs="*", metavar="QUERY.yaml")
    parser.add_argument(
        "--sites", type=int, default=USUAL_SITES, metavar="N", help=f"default: {USUAL_SITES}"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="end after so long")
    parser.add_argument("--report", type=Path, metavar="R.json", help="where to write the report")
    parser.add_argument("--port", type=int, default=0, help="of the oracle; a free one unless told")
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="keeps all files here; temporary unless told"
    )
    parser.add_argument(
        "--interval", default="5s", metavar="TIME", help="of the sites; default: 5s"
    )
    parser.add_argument(
        "--latency", default="15s", metavar="TIME", help="that the sites ask for; default: 15s"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the federation until it is stopped, or for so long."""
    if options.seconds is not None:
        check_seconds(options.seconds, 180)
    if not 0 <= options.port <= 65535:
        raise PenstockError(
            f"--port must lie between 0 and 65535, such as 7100; got {options.port}"
        )
    check_writable("--report", options.report)
    with installed("spark,federation"):
        from penstock.cli.up import UpOptions, up
    return up(
        UpOptions(
            options.sites,
            options.seconds,
            options.report,
            options.port,
            options.directory,
            options.interval,
            options.latency,
            tuple(options.queries),
        )
    )

"""``penstock settle``: reads again what a job has shed, and settles the windows that lack it."""

import argparse
from pathlib import Path

from penstock.cli.command_support import installed
from penstock.cli.log_output import add_log, log_to_stderr

DESCRIPTION = (
    "Reads again the stretches of a job's sources of which tuples were shed, takes exactly those "
    "tuples, and brings the results of their windows to what they would have been: SIC 1, and "
    "intervals without width. The worst windows come first. What is settled is beside the results "
    "(penstock.settled reads both as one); a call that is interrupted or out of time is gone on "
    "with by the next. The job may run meanwhile. Exit codes: 0 all that can be settled is, 1 "
    "something cannot be any more, and is named, 2 the job or an option is wrong, 3 the time is "
    "over and windows are left, 130 Ctrl-C, 143 terminated."
)
EXAMPLE = """\
examples:

  penstock settle job.yaml
  penstock settle job.yaml --seconds 60 --query fares
  penstock settle job.yaml --from 2026-03-01T08:00:00 --to 2026-03-01T09:00:00
  penstock settle job.yaml --shed-to /data/shed
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("job", type=Path, metavar="JOB.yaml")
    parser.add_argument(
        "--query", action="append", metavar="NAME", help="only this query; may come several times"
    )
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after about so long")
    parser.add_argument(
        "--from",
        dest="since",
        metavar="TIME",
        help="only windows that begin at this event time or later; UTC unless it says otherwise",
    )
    parser.add_argument(
        "--to", dest="until", metavar="TIME", help="only windows that end at this time or before"
    )
    parser.add_argument(
        "--into",
        metavar="FOLDER",
        help="where settled rows go, in a folder for each query; _settled in the folder of the "
        "results unless told",
    )
    parser.add_argument(
        "--shed-to",
        metavar="FOLDER",
        help="settle nothing: write the tuples that were shed there, as they came, in a folder for "
        "each query",
    )
    parser.add_argument("--json", action="store_true", help="all that is known, as JSON")
    add_log(parser)


def run(options: argparse.Namespace) -> int:
    """Settles the job's queries."""
    log_to_stderr(options.log)
    with installed("spark"):
        from penstock.cli.settle_runs import SettleOptions, settle
    wanted = SettleOptions(
        queries=options.query,
        seconds=options.seconds,
        since=options.since,
        until=options.until,
        into=options.into,
        shed_to=options.shed_to,
    )
    return settle(options.job, wanted, as_json=options.json)

"""``penstock submit``: has a federation run a query."""

import argparse
import time
from pathlib import Path

from penstock.cli.command_support import add_oracle, check_seconds, installed

DESCRIPTION = (
    "Cuts a query into fragments, finds a site for each with the oracle's help, and asks these "
    "sites to run them. The query goes on when this command has ended, and when the oracle has."
)
EXAMPLE = """\
examples:

  penstock submit examples/federation/avg_all.yaml
  penstock submit examples/federation/cov.yaml --oracle http://127.0.0.1:7100

docs/federation.md has every key of a query file. penstock check QUERY.yaml SITE.yaml ... says
beforehand which fragments there will be, and what cannot be split.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("query", type=Path, metavar="QUERY.yaml")
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long to wait for the sites that the query names",
    )
    add_oracle(parser)


def run(options: argparse.Namespace) -> int:
    """Deploys the query, and says where."""
    if options.wait:
        check_seconds(options.wait, 60, "--wait")
    with installed("spark,federation"):
        from penstock.cli.oracle_calls import sites_of
        from penstock.cli.waiting import submit_when_up
    deadline = time.monotonic() + options.wait

    def wait(seconds: float) -> bool:
        if time.monotonic() + seconds > deadline:
            return False
        time.sleep(seconds)
        return True

    print(submit_when_up(options.query, sites_of(options), wait))
    return 0

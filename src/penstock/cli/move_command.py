"""``penstock move``: moves a fragment of a query to another site while the query runs."""

import argparse
from pathlib import Path

from penstock.cli.command_support import add_oracle, installed

DESCRIPTION = (
    "Stops a fragment at its site, and goes on with it at another from where it was; its links "
    "keep what comes in the meantime. A fragment that reads a source stays where the source is."
)
EXAMPLE = "example: penstock move examples/federation/avg_all.yaml root oslo"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and an example."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.add_argument("query", type=Path, metavar="QUERY.yaml", help="as it was submitted")
    parser.add_argument("fragment", metavar="FRAGMENT")
    parser.add_argument("site", metavar="SITE", help="that is to run it")
    parser.add_argument(
        "--replica", type=int, default=0, metavar="N", help="of a fragment that has some: 0, 1 or 2"
    )
    add_oracle(parser)


def run(options: argparse.Namespace) -> int:
    """Moves the fragment."""
    with installed("spark,federation"):
        from penstock.cli.oracle_calls import sites_of
        from penstock.cli.submit import move_fragment
    print(
        move_fragment(
            options.query, options.fragment, options.site, options.replica, sites_of(options)
        )
    )
    return 0

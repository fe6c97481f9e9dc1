"""``penstock stop``: stops a query of a federation."""

import argparse

from penstock.cli.command_support import add_oracle, installed

DESCRIPTION = (
    "Stops all fragments of a query, those that send first, so that the last results come."
)
NOT_ASKED_EXIT_CODE = 1
"""The exit code where a site was silent, which may run a fragment of the query still."""
EXAMPLE = "example: penstock stop avg-all"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and an example."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.add_argument("query", metavar="QUERY")
    add_oracle(parser)


def run(options: argparse.Namespace) -> int:
    """Stops the query."""
    with installed("spark,federation"):
        from penstock.cli.oracle_calls import oracle_of, sites_of
        from penstock.cli.submit import stop_query
    print(stop_query(options.query, sites_of(options)))
    with oracle_of(options) as client:
        silent = [site.site for site in client.sites() if site.silent]
    if silent:
        print(f"not asked, since silent: {', '.join(silent)}; stop it again when they are back")
        return NOT_ASKED_EXIT_CODE
    return 0

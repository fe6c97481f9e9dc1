"""``penstock list``: shows the sites and queries of a federation once."""

import argparse

from penstock.cli.command_support import add_oracle, installed

DESCRIPTION = (
    "Lists the sites of a federation with their statistics, and its queries with their SIC, the "
    "poorest first, as the oracle knows them."
)
EXAMPLE = """\
examples:

  penstock list
  penstock list --oracle http://127.0.0.1:7100 --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_oracle(parser)
    parser.add_argument("--json", action="store_true", help="all that is known, as JSON")


def run(options: argparse.Namespace) -> int:
    """Asks the oracle and prints the answer."""
    with installed("federation"):
        from penstock.cli.oracle_calls import oracle_of
        from penstock.cli.top import show_once
    with oracle_of(options) as client:
        show_once(client, as_json=options.json, bars=False)
    return 0

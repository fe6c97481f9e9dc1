"""``penstock top``: shows a federation while it runs."""

import argparse

from penstock.cli.command_support import add_oracle, check_seconds, installed

USUAL_SECONDS = 2.0
DESCRIPTION = (
    "Shows a federation as top shows a machine: sites with load, throughput, what they shed, and "
    "latency against its target; queries with their SIC, now and of late, the poorest first. "
    "Ctrl-C ends it; where the output is no terminal it prints a line each time."
)
EXAMPLE = """\
examples:

  penstock top
  penstock top --oracle http://127.0.0.1:7100 --once
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_oracle(parser)
    parser.add_argument("--once", action="store_true", help="print one frame and end")
    parser.add_argument(
        "--seconds",
        type=float,
        default=USUAL_SECONDS,
        metavar="N",
        help=f"between two looks; default: {USUAL_SECONDS:g}",
    )


def run(options: argparse.Namespace) -> int:
    """Shows the federation until it is stopped."""
    check_seconds(options.seconds, 2)
    with installed("federation"):
        from penstock.cli.oracle_calls import oracle_of
        from penstock.cli.top import show, show_once
    with oracle_of(options) as client:
        if options.once:
            show_once(client)
            return 0
        return show(client, options.seconds)

"""``penstock demo``: runs an overloaded stream through one job, without and with Penstock."""

import argparse
from pathlib import Path

from penstock.cli.command_support import installed

DESCRIPTION = (
    "Runs a stream with bursts through one Spark job twice, without and with Penstock, and "
    "compares latency, completeness and errors against the exact answer. Needs nothing but Java."
)
EXAMPLE = """\
examples:

  penstock demo                                  in full, under three minutes
  penstock demo --seconds 15 --json figures.json shorter, with all figures in a file
  penstock demo --plot demo.svg                  with a picture of how late results were

The stream comes at multiples of what this machine turns out to manage, so any machine is in the
same trouble. Ctrl-C ends it; where the output is no terminal it prints a line a second.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--seconds", type=float, metavar="N", help="of each run (default: about 40)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write all figures")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="where to draw both runs, an SVG or a PNG"
    )


def run(options: argparse.Namespace) -> int:
    """Shows the demo."""
    with installed("spark"):
        from penstock.cli.demo.show import show
    return show(options.seconds, options.json, options.plot)

"""``penstock simulate``: runs a scenario, or sweeps one of its dials."""

import argparse
from pathlib import Path

from penstock.cli.command_support import installed, share
from penstock.errors import PenstockError

DESCRIPTION = (
    "Runs a scenario with the same controller and policies as on Spark, and says how complete "
    "every query's results are and how fairly the loss is shared."
)
EXAMPLE = """\
examples:

  penstock simulate examples/scenarios/federation.yaml
  penstock simulate examples/scenarios/federation.yaml --json --plot pictures/
  penstock simulate examples/scenarios/planning.yaml --what-if queries=30:300:10 --at-least 0.5
  penstock simulate examples/scenarios/planning.yaml --what-if sites=4:24:6 --at-least 0.5

A scenario is a YAML file: sites with capacities, queries of some kinds cut into fragments, how
they are placed, what sources send, and what fails. docs/simulator.md has every key.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and examples."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("scenario", type=Path, metavar="SCENARIO.yaml")
    parser.add_argument("--json", action="store_true", help="all figures, as JSON")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw pictures into DIR")
    parser.add_argument(
        "--what-if",
        metavar="DIAL=FROM:TO[:POINTS]",
        help="sweep queries, sites, capacity or rate instead of one run",
    )
    parser.add_argument(
        "--at-least", type=share, metavar="SIC", help="with --what-if: find where this is reached"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the scenario once, or sweeps a dial where ``--what-if`` names one."""
    with installed("experiments"):
        from penstock.cli.simulate import simulate, what_if
    if options.what_if is not None:
        what_if(options.scenario, options.what_if, options.at_least, options.json, options.plot)
    elif options.at_least is not None:
        raise PenstockError("--at-least must come with --what-if, such as --what-if queries=30:300")
    else:
        simulate(options.scenario, options.json, options.plot)
    return 0

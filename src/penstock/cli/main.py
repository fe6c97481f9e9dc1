"""The command line: finds the command that is asked for, runs it, and reports mistakes.

Each command has a module of its own with two functions: ``configure(parser)`` adds its arguments,
its description and an example, and ``run(options)`` does the work and returns the exit code. The
modules are looked up by name, so that nothing here imports Spark or the laboratory, and the help
of one command loads no other.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from penstock import __version__
from penstock.errors import PenstockError

BAD_INPUT_EXIT_CODE = 2
"""The exit code for a mistake in what the user gave."""
INTERRUPTED_EXIT_CODE = 130
"""The exit code after Ctrl-C, as shells expect it."""
BROKEN_PIPE_EXIT_CODE = 141
"""The exit code where the reader of a pipe has gone, as shells expect it."""


class Listed(NamedTuple):
    """Is an entry in the list of commands: where its module is, and its line in the help."""

    module: str
    summary: str


COMMANDS = {
    "plan": Listed(
        "penstock.cli.plan_command", "one allocation: what would be kept of these demands"
    ),
    "demo": Listed(
        "penstock.cli.demo_command",
        "an overloaded stream through one job, without and with Penstock",
    ),
    "run": Listed("penstock.cli.run_command", "runs a job file until it is stopped, and reports"),
    "check": Listed(
        "penstock.cli.check_command", "says what is wrong with a job, a site or a federated query"
    ),
    "doctor": Listed(
        "penstock.cli.doctor_command", "looks at this machine and at files, and says what to change"
    ),
    "prepare": Listed(
        "penstock.cli.prepare_command", "lets the Spark that other commands start begin sooner"
    ),
    "up": Listed("penstock.cli.up_command", "a federation for trying out, on this machine"),
    "site": Listed("penstock.cli.site_command", "a site of a federation"),
    "oracle": Listed("penstock.cli.oracle_command", "the registry of a federation's sites"),
    "submit": Listed("penstock.cli.submit_command", "has a federation run a query"),
    "list": Listed("penstock.cli.list_command", "the sites and queries of a federation"),
    "top": Listed("penstock.cli.top_command", "the same, redrawn while you watch"),
    "stop": Listed("penstock.cli.stop_command", "stops a query of a federation"),
    "move": Listed("penstock.cli.move_command", "moves a fragment of a query to another site"),
    "ledger": Listed("penstock.cli.ledger_command", "reads the ledger of a site, and checks it"),
    "settle": Listed(
        "penstock.cli.settle_command", "reads again what a job has shed, and mends its results"
    ),
    "bench": Listed(
        "penstock.lab.bench_command", "measures the gate on this machine, on real Spark"
    ),
    "simulate": Listed(
        "penstock.cli.simulate_command",
        "a federation of sites in simulation, and what-if questions about it",
    ),
    "reproduce": Listed(
        "penstock.lab.reproduce_command", "figures and tables of the papers, on this machine"
    ),
}


class Command(Protocol):
    """Is what the module of every command offers."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the arguments of the command, its description and an example."""

    def run(self, options: argparse.Namespace) -> int:
        """Does the work and returns the exit code."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; bad input is one line on standard error and exit code 2."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    name = next((text for text in given if not text.startswith("-")), None)
    command = None if name not in COMMANDS else _load(COMMANDS[name].module)
    options = _parser(name, command).parse_args(given)
    assert command is not None  # the parser refuses every other name
    try:
        return command.run(options)
    except PenstockError as error:
        print(f"penstock {options.command}: {error}", file=sys.stderr)
        return BAD_INPUT_EXIT_CODE
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT_CODE
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has gone, and Python would complain at its exit
        return BROKEN_PIPE_EXIT_CODE


def _load(module: str) -> Command:
    return cast(Command, import_module(module))


def _parser(name: str | None, command: Command | None) -> argparse.ArgumentParser:
    """Knows the names of all commands, and the arguments of the one that is asked for."""
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Keeps Spark Structured Streaming jobs fresh under overload: admits the tuples "
        "that matter most, sheds the rest fairly, and says how complete every result is.",
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for listed, (_, summary) in COMMANDS.items():
        own = commands.add_parser(listed, help=summary)
        if listed == name and command is not None:
            command.configure(own)
    return parser


if __name__ == "__main__":
    sys.exit(main())

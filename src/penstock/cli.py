"""The command line: parse, call, print."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock import __version__
from penstock.types import PenstockError

_PLAN_EXAMPLE = """\
example: capacity for 10 tuples, two queries that want 20 and 40

  penstock plan <<'END'
  {"capacity": 10,
   "queries": [{"id": "q1", "strata": [{"id": "s1", "tuples": 20, "sic": 0.05}]},
               {"id": "q2", "strata": [{"id": "s1", "tuples": 40, "sic": 0.025}]}]}
  END

Both are lifted to the same SIC: q1 keeps 3.3 tuples and q2 keeps 6.7.
A query may have "sic" (where it stands, default 0), "weight" (1), "floor" (0: the SIC it is
promised) and "ceiling" (none); a stratum has "tuples", "sic" and "cost" (1) of one tuple.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; bad input is one line on standard error and exit code 2."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except PenstockError as error:
        print(f"penstock {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; there is nobody left to tell
        return 141
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Keeps Spark Structured Streaming jobs fresh under overload: admits the tuples "
        "that matter most, sheds the rest fairly, and says how complete every result is.",
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    plan = commands.add_parser(
        "plan",
        help="one allocation: what would be kept of these demands",
        description="Reads demands as JSON and answers which share of each stratum a policy "
        "would keep. It shows the bare policy: no headroom, no exploration, no rounding.",
        epilog=_PLAN_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("file", nargs="?", default="-", help="the demands (default: standard input)")
    plan.add_argument(
        "--policy",
        metavar="P",
        help="uniform, balance-sic (default), max-min, ...; over the file's",
    )
    plan.set_defaults(run=_plan)
    return parser


def _plan(options: argparse.Namespace) -> int:
    from penstock.plan_file import allocate

    try:
        if options.file == "-":
            text = sys.stdin.buffer.read().decode()
        else:
            text = Path(options.file).read_text()
    except OSError as error:
        raise PenstockError(f"{options.file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PenstockError(f"{options.file}: this is not text in UTF-8") from None
    print(json.dumps(allocate(text, options.policy), indent=2))
    return 0

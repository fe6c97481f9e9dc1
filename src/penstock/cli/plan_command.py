"""``penstock plan``: reads demands as JSON and prints the allocation that a policy gives."""

import argparse
import json
import sys
from pathlib import Path

from penstock.errors import PenstockError

STANDARD_INPUT = "-"
DESCRIPTION = (
    "Reads demands as JSON and answers which share of each stratum a policy would keep. It shows "
    "the bare policy: no headroom, no exploration, no rounding."
)
EXAMPLE = """\
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


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command, its description and an example."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "file", nargs="?", default=STANDARD_INPUT, help="the demands (default: standard input)"
    )
    parser.add_argument(
        "--policy",
        metavar="P",
        help="uniform, balance-sic (default), max-min, ...; over the file's",
    )


def run(options: argparse.Namespace) -> int:
    """Reads the demands and prints who gets what."""
    from penstock.cli.plan import allocate

    print(json.dumps(allocate(_text(options.file), options.policy), indent=2))
    return 0


def _text(file: str) -> str:
    try:
        if file == STANDARD_INPUT:
            return sys.stdin.buffer.read().decode()
        return Path(file).read_text()
    except OSError as error:
        raise PenstockError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PenstockError(f"{file}: this is not text in UTF-8") from None

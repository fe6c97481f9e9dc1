"""What the modules of the commands share: types of arguments, and words on what is missing."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import PenstockError

USUAL_ORACLE = "http://127.0.0.1:7100"
"""Where ``penstock oracle`` listens unless told, and the others look for it."""
USUAL_TOKEN_VARIABLE = "PENSTOCK_TOKEN"
"""The variable of the environment with the token of whoever asks."""


def share(text: str) -> float:
    """Reads a number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, such as 0.5; got {text!r}")
    return value


def check_seconds(seconds: float, example: int, option: str = "--seconds") -> None:
    """Refuses a length of time that is not above 0 and finite."""
    if not 0 < seconds < float("inf"):
        raise PenstockError(f"{option} must be above 0, such as {example}; got {seconds:g}")


def check_writable(option: str, file: Path | None) -> None:
    """Refuses a file that cannot be written before the work begins, not after it."""
    if file is None:
        return
    try:
        file.touch()
    except OSError as error:
        raise PenstockError(
            f"{option} must be a file that can be written; got {str(file)!r}: {error.strerror}"
        ) from None


@contextmanager
def installed(extras: str) -> Iterator[None]:
    """Says how to install what an import inside of the ``with`` block does not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise PenstockError(f"{error}; install it with: pip install 'penstock[{extras}]'") from None


def add_oracle(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of a command that asks the oracle."""
    parser.add_argument(
        "--oracle", default=USUAL_ORACLE, metavar="URL", help=f"default: {USUAL_ORACLE}"
    )
    parser.add_argument(
        "--token-env",
        default=USUAL_TOKEN_VARIABLE,
        metavar="NAME",
        help="the variable of the environment with your token, which no option takes; "
        f"default: {USUAL_TOKEN_VARIABLE}",
    )
    parser.add_argument(
        "--authority", metavar="FILE", help="whose TLS certificates are believed, as a PEM file"
    )


def token_of(variable: str) -> str | None:
    """Takes a token from the environment; None where there is none, or an empty one."""
    return os.environ.get(variable) or None


def add_until_eof(parser: argparse.ArgumentParser) -> None:
    """Adds the option of a process that is to end together with whoever started it."""
    parser.add_argument(
        "--until-eof",
        action="store_true",
        help="end also when standard input ends, as it does when its parent dies",
    )

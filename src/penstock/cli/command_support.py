"""What the modules of the commands share: types of arguments, and words on what is missing."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import PenstockError


def share(text: str) -> float:
    """Reads a number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, such as 0.5; got {text!r}")
    return value


def check_seconds(seconds: float, example: int) -> None:
    """Refuses a length of time that is not above 0 and finite."""
    if not 0 < seconds < float("inf"):
        raise PenstockError(f"--seconds must be above 0, such as {example}; got {seconds:g}")


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

"""Finds the recorded data that experiments and benchmarks use where the user has it."""

import os
from pathlib import Path

VARIABLE = "PENSTOCK_DATA"
"""The environment variable that names the directory with the files."""


def data_file(name: str) -> Path | None:
    """Returns the path of a file of recorded data.

    Returns None where the user names no directory or the directory lacks the file; experiments
    then make up a stream of the same shape.
    """
    directory = os.environ.get(VARIABLE)
    path = Path(directory) / name if directory else None
    return path if path is not None and path.exists() else None

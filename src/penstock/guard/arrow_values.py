"""Is a function's answer what became of it in a column? Arrow changes some without a word.

A fraction in an integer column is cut off, a number that is too large for a single becomes
infinite, a field that a structure does not have is left out, values with names go by their order,
a text is taken for a list of letters, a number for a time, and a time for a date. All of these
count as answers that do not fit.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from importlib import import_module
from math import isclose, isnan
from typing import Any


def is_lossy(kind: Any) -> bool:
    """Whether answers of this Arrow type have to be looked at."""
    types: Any = import_module("pyarrow").types
    return bool(
        types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_nested(kind)
        or types.is_float16(kind)
        or types.is_temporal(kind)
    )


def survives(given: Any, kept: Any) -> bool:
    if given is None or kept is None:
        return given is None and kept is None
    if isinstance(kept, dict):
        return _same_fields(given, kept)
    if isinstance(kept, list | tuple):
        if isinstance(given, str | bytes):
            return False
        items = list(given.items()) if isinstance(given, Mapping) else list(given)
        return len(items) == len(kept) and all(map(survives, items, kept))
    if isinstance(kept, float):
        return isclose(float(given), kept, rel_tol=1e-6) or isnan(kept)
    if isinstance(kept, date | timedelta):  # a datetime is a date, too
        return isinstance(given, datetime) == isinstance(kept, datetime) and bool(given == kept)
    return not isinstance(kept, int) or bool(given == kept)


def _same_fields(given: Any, kept: Mapping[str, Any]) -> bool:
    """A structure, from a dictionary, or from a tuple or a Row in the order of its fields.

    A field that was not given is null, as everywhere in Spark.
    """
    if isinstance(given, Mapping):
        return given.keys() <= kept.keys() and all(survives(given.get(n), kept[n]) for n in kept)
    names = getattr(given, "__fields__", getattr(given, "_fields", None))  # a Row, a named tuple
    if names is not None and list(names) != list(kept):
        return False
    if isinstance(given, Sequence):
        return len(given) == len(kept) and all(map(survives, given, kept.values()))
    return False

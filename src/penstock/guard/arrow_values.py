"""Arrow columns of values: between NumPy and Arrow, and whether a value survives its way.

Arrow's own conversions load pandas where it is installed, which takes longer than all that a guard
does. So numbers go between NumPy and Arrow by their buffers.

Arrow changes some values without a word. It cuts off a fraction in an integer column, makes a
number that is too large for single precision infinite, leaves out a field that a structure does not
have, takes named values by their order, a text for a list of letters, a number for a time, and a
time for a date. A guard counts all of these as answers that do not fit.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from math import isclose, isnan
from typing import Any

import numpy as np

from penstock import arrow
from penstock.core.types import Floats, Ints

SINGLE_PRECISION_TOLERANCE = 1e-6
"""A number may differ by this share from what single precision makes of it."""


def numbers_in(column: Any) -> Any:
    """Returns a column of 64-bit numbers as a NumPy array; what is null there is anything here.

    >>> numbers_in(arrow.array([1.5, 2.5, None]))[:2].tolist()
    [1.5, 2.5]
    """
    kind = np.float64 if arrow.types.is_floating(column.type) else np.int64
    return np.frombuffer(column.buffers()[1], kind, len(column), 8 * column.offset)


def valid_in(column: Any) -> Any:
    """Returns which values of a column are not null, as a NumPy array.

    >>> valid_in(arrow.array([1.5, None, 2.5]).slice(1)).tolist()
    [False, True]
    """
    bitmap = column.buffers()[0]
    if bitmap is None:
        return np.ones(len(column), dtype=bool)
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    return bits[column.offset : column.offset + len(column)].astype(bool)


def column_of(values: list[Any], kind: Any) -> Any:
    """Returns values as a column of an Arrow type; Arrow raises where one cannot become it."""
    if arrow.types.is_float64(kind) and all(type(value) is float for value in values):
        return column_of_numbers(np.array(values, dtype=np.float64))
    return arrow.array(values, kind)


def column_of_numbers(numbers: Floats | Ints) -> Any:
    """Returns a NumPy array of 64-bit numbers as a column, without a copy.

    >>> column_of_numbers(np.array([3, 4])).to_pylist()
    [3, 4]
    """
    kind = arrow.float64() if numbers.dtype.kind == "f" else arrow.int64()
    return arrow.Array.from_buffers(kind, numbers.size, [None, arrow.py_buffer(numbers)])


def is_lossy(kind: Any) -> bool:
    """Tells whether Arrow can change a value that it stores in a column of this type."""
    types = arrow.types
    return bool(
        types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_nested(kind)
        or types.is_float16(kind)
        or types.is_temporal(kind)
    )


def survives(given: Any, stored: Any) -> bool:
    """Tells whether what Arrow stored is what it was given.

    >>> survives(2.0, 2), survives(2.5, 2), survives("ab", ["a", "b"])
    (True, False, False)
    """
    if given is None or stored is None:
        return given is None and stored is None
    if isinstance(stored, dict):
        return _same_fields(given, stored)
    if isinstance(stored, list | tuple):
        if isinstance(given, str | bytes):
            return False
        items = list(given.items()) if isinstance(given, Mapping) else list(given)
        return len(items) == len(stored) and all(map(survives, items, stored))
    if isinstance(stored, float):
        return isclose(float(given), stored, rel_tol=SINGLE_PRECISION_TOLERANCE) or isnan(stored)
    if isinstance(stored, date | timedelta):  # a datetime is a date, too
        same_kind = isinstance(given, datetime) == isinstance(stored, datetime)
        return same_kind and bool(given == stored)
    return not isinstance(stored, int) or bool(given == stored)


def _same_fields(given: Any, stored: Mapping[str, Any]) -> bool:
    """Compares a structure with a dictionary, or with a tuple or a Row in the order of its fields.

    A field that was not given is null, as everywhere in Spark.
    """
    if isinstance(given, Mapping):
        known = given.keys() <= stored.keys()
        return known and all(survives(given.get(name), stored[name]) for name in stored)
    names = getattr(given, "__fields__", getattr(given, "_fields", None))  # a Row, a named tuple
    if names is not None and list(names) != list(stored):
        return False
    if isinstance(given, Sequence):
        return len(given) == len(stored) and all(map(survives, given, stored.values()))
    return False

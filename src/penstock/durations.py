"""Durations as people write them: '20s', '500ms', '1m'."""

import math
import re

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TEXT = re.compile(rf"\s*(\d+\.?\d*|\.\d+)\s*({'|'.join(UNITS)})?\s*")


def seconds(value: float | str) -> float:
    """A duration in seconds, from a number of seconds or a text with a unit; 'm' is a minute.

    The rule: finite, and 0 or more. Anything else is a `ValueError` here, because further on a NaN
    compares as false with everything and a wait below 0 looks like one that is over.

    >>> seconds("1.5min"), seconds("500ms"), seconds("20"), seconds(3)
    (90.0, 0.5, 20.0, 3.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    else:
        match = _TEXT.fullmatch(str(value))  # JSON may hold anything: None is no duration either
        found = float(match[1]) * UNITS[match[2] or "s"] if match else math.nan
    if not 0 <= found < math.inf:
        raise ValueError(f"{value!r} is not a duration such as '20s', '500ms', '1m', '2h' or 1.5")
    return found

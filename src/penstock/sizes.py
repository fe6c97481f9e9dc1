"""Amounts as people write them: '200k', '1.5M', 200_000."""

import math
import re

UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_TEXT = re.compile(r"\s*(\d[\d_,]*\.?\d*|\.\d+)\s*([kKMG]?)\s*(?:/s)?\s*")


def amount(value: object) -> float:
    """A number of things, from a number or a text; 'k' is a thousand, 'M' a million.

    >>> amount("200k"), amount("1.5M"), amount("200_000"), amount("20 k/s"), amount(7)
    (200000.0, 1500000.0, 200000.0, 20000.0, 7.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    else:
        match = _TEXT.fullmatch(value) if isinstance(value, str) else None
        found = math.nan
        if match:
            unit = match[2] if match[2] != "K" else "k"
            found = float(match[1].replace("_", "").replace(",", "")) * UNITS[unit]
    if not 0 <= found < math.inf:
        raise ValueError(f"{value!r} is not an amount such as 2000, '200k' or '1.5M'")
    return found

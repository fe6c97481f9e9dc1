"""Durations, amounts and shares as people write them: '20s', '200k', '5 %'."""

import math
import re

from penstock.errors import PenstockError

SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(rf"\s*(\d+\.?\d*|\.\d+)\s*({'|'.join(SECONDS_PER_UNIT)})?\s*")
AMOUNT_PER_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_AMOUNT = re.compile(r"\s*(\d[\d_,]*\.?\d*|\.\d+)\s*([kKMG]?)\s*(?:/s)?\s*")


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
        match = _DURATION.fullmatch(str(value))
        found = float(match[1]) * SECONDS_PER_UNIT[match[2] or "s"] if match else math.nan
    if not 0 <= found < math.inf:
        raise ValueError(f"{value!r} is not a duration such as '20s', '500ms', '1m', '2h' or 1.5")
    return found


def amount(value: object) -> float:
    """A number of things, from a number or a text; 'k' is a thousand, 'M' a million.

    >>> amount("200k"), amount("1.5M"), amount("200_000"), amount("20 k/s"), amount(7)
    (200000.0, 1500000.0, 200000.0, 20000.0, 7.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    else:
        match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
        found = math.nan
        if match:
            unit = match[2] if match[2] != "K" else "k"
            found = float(match[1].replace("_", "").replace(",", "")) * AMOUNT_PER_PREFIX[unit]
    if not 0 <= found < math.inf:
        raise ValueError(f"{value!r} is not an amount such as 2000, '200k' or '1.5M'")
    return found


def as_share(name: str, value: float | str) -> float:
    """
    >>> as_share("keep", "5 %"), as_share("keep", 0.25)
    (0.05, 0.25)
    """
    text = str(value).strip()
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise PenstockError(f"{name}: {value!r} is no share such as '5%'") from None

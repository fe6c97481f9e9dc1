"""Durations, amounts and shares as people write them: '20s', '1 minute', '200k', '5 %'."""

import math
import re

from penstock.errors import PenstockError

SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
SECONDS_PER_WORD = {
    "microsecond": 1e-6,
    "millisecond": 0.001,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86_400.0,
    "week": 604_800.0,
}
"""The units of Spark's intervals, in any case and number; months and years have no fixed length."""
_NUMBER = r"\d+\.?\d*|\.\d+"
_WORDS = rf"(?i:(?:{'|'.join(SECONDS_PER_WORD)})s?)"
_PART = re.compile(rf"({_NUMBER})\s*({_WORDS}|{'|'.join(SECONDS_PER_UNIT)})(?:\s+|$)")
_DURATION = re.compile(rf"(?:(?i:interval)\s+)?((?:{_PART.pattern})+)")
AMOUNT_PER_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_AMOUNT = re.compile(r"\s*(\d[\d_,]*\.?\d*|\.\d+)\s*([kKMG]?)\s*(?:/s)?\s*")


def seconds(value: float | str, name: str = "") -> float:
    """A duration in seconds, from a number of seconds, or from a text with units.

    A text is one of Spark's intervals, or short: ``"500ms"``, ``"20s"``, ``"1m"`` (a minute),
    ``"2h"``. A duration is finite, and 0 or more. Anything else is a `PenstockError` here, because
    further on a NaN compares as false with everything, and a wait below 0 looks like one that is
    over.

    Parameters
    ----------
    value
        The duration.
    name
        What the user calls it, for the message.

    Examples
    --------
    >>> seconds("1 second"), seconds("1 hour 30 minutes"), seconds("interval 250 milliseconds")
    (1.0, 5400.0, 0.25)
    >>> seconds("1.5min"), seconds("500ms"), seconds("20"), seconds(3)
    (90.0, 0.5, 20.0, 3.0)
    >>> seconds("soon", "latency")
    Traceback (most recent call last):
        ...
    penstock.errors.PenstockError: latency must be a duration, such as '1 second' or '500ms'; \
got 'soon'
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    else:
        found = _seconds_of(str(value).strip())
    if not 0 <= found < math.inf:
        raise PenstockError(
            f"{name} must be a duration, such as '1 second' or '500ms'; got {value!r}".lstrip()
        )
    return found


def _seconds_of(text: str) -> float:
    """NaN where the text is no duration."""
    if re.fullmatch(_NUMBER, text):
        return float(text)
    interval = _DURATION.fullmatch(text)
    if interval is None:
        return math.nan
    return sum(float(number) * _unit(unit) for number, unit in _PART.findall(interval[1]))


def _unit(unit: str) -> float:
    word = unit.lower().removesuffix("s")
    return SECONDS_PER_UNIT[unit] if unit in SECONDS_PER_UNIT else SECONDS_PER_WORD[word]


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
        raise PenstockError(f"must be an amount, such as 2000, '200k' or '1.5M'; got {value!r}")
    return found


def as_share(name: str, value: float | str) -> float:
    """A share of a whole, from a number or a percentage; ``name`` is what the user calls it.

    >>> as_share("keep", "5 %"), as_share("keep", 0.25)
    (0.05, 0.25)
    """
    text = str(value).strip()
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise PenstockError(
            f"{name} must be a share, such as 0.05 or '5%'; got {value!r}"
        ) from None

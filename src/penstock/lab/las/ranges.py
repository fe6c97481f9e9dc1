"""What shedders and operators are made with, refused at once where it makes no sense."""

from math import inf

from penstock.errors import PenstockError


def at_least(least: float, name: str, value: float, most: float = inf) -> float:
    """Returns the value, if it is a number in this range."""
    if least <= value <= most and value < inf:
        return value
    end = "" if most == inf else f" to {most:g}"
    raise PenstockError(f"{name}: a number from {least:g}{end} is needed, not {value!r}")

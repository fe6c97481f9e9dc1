"""Draws figures of late as a line of bars, and says what a site sheds, and why."""

from collections.abc import Iterable

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Iterable[float], most: float = 1.0) -> str:
    """Draws numbers from 0 to ``most`` as bars.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    >>> sparkline([1.0, 3.0, 5.0], most=4.0)
    '▃▇█'
    """
    shares = (value / most if most > 0 else 0.0 for value in values)
    return "".join(BARS[min(max(int(share * len(BARS)), 0), len(BARS) - 1)] for share in shares)


def why_shed(admitted: float, shed: float, capacity: float) -> str | None:
    """Says how much of what comes is shed, and that it is too much; None where nothing is.

    >>> why_shed(admitted=900, shed=1_100, capacity=950)
    'sheds 55 %: 2,000 tuples a second come, and it can admit 950'
    >>> why_shed(admitted=900, shed=0, capacity=950)
    """
    if not shed > 0:
        return None
    able = f", and it can admit {capacity:,.0f}" if capacity > 0 else ""
    come = admitted + shed
    return f"sheds {100 * shed / come:.0f} %: {come:,.0f} tuples a second come{able}"

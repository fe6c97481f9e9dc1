"""What the paper says of its figures 4 to 8, in sentences that code judges."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

Point = tuple[float, float, float]
"""Mean, least, most."""
Curves = Mapping[str, Sequence[Point]]
THRESHOLD = 6.4
"""τ where it does not vary."""
CLOSE = 1.15
"""A latency up to this ratio of what it is to be is close to it."""


def judged(
    figure: int | None, values: Sequence[float], latency: Curves, dropped: Curves
) -> dict[str, bool]:
    """Says of each sentence on a figure whether it holds here."""
    waits = {name: [mean for mean, *_ in points] for name, points in latency.items()}
    shed = {name: [mean for mean, *_ in points] for name, points in dropped.items()}
    judges = {4: _under_provisioning, 5: _threshold, 6: _largest, 7: _skew, 8: _precision}
    return judges.get(figure or 0, _distinct)(values, waits, shed)


Means = Mapping[str, Sequence[float]]


def _under_provisioning(values: Sequence[float], waits: Means, shed: Means) -> dict[str, bool]:
    short = [place for place, value in enumerate(values) if value > 0]
    enough = [place for place, value in enumerate(values) if value < 0]
    worst = max(waits["LAS"][place] for place in short) / THRESHOLD
    fewest = [
        shed["Full Knowledge"][p] <= min(shed["Base Line"][p], shed["Straw-Man"][p]) for p in short
    ]
    return {
        "Figure 4: LAS' average is close to τ wherever the operator is under-provisioned (at most "
        f"{worst:.2f} τ)": worst <= CLOSE,
        "Figure 4: with more than enough capacity all of them shed next to nothing": all(
            shed[name][place] <= 0.01 for name in shed for place in enough
        ),
        "Figure 4: Full Knowledge drops no more tuples than Base Line and Straw-Man": all(fewest),
        "Figure 4: LAS drops more than both of them": all(
            shed["LAS"][p] > max(shed["Base Line"][p], shed["Straw-Man"][p]) for p in short
        ),
    }


def _threshold(values: Sequence[float], waits: Means, shed: Means) -> dict[str, bool]:
    base = shed["Base Line"]
    full = [
        abs(wait - tau) <= 0.02 * tau
        for wait, tau in zip(waits["Full Knowledge"], values, strict=True)
    ]
    small = [place for place, tau in enumerate(values) if 0 < tau < 0.8]
    large = [place for place, tau in enumerate(values) if tau >= THRESHOLD]
    ratios = [waits["LAS"][place] / waits["Full Knowledge"][place] for place in large]
    return {
        "Figure 5: Full Knowledge's average is at τ for every τ": all(full),
        "Figure 5: Straw-Man holds small thresholds, τ < 0.8, by dropping many (at most "
        f"{max(waits['Straw-Man'][p] / values[p] for p in small):.1f} τ)": all(
            waits["Straw-Man"][p] <= CLOSE * values[p] and shed["Straw-Man"][p] > base[p]
            for p in small
        ),
        "Figure 5: from τ = 0.8 on Straw-Man's latency grows towards Base Line's": (
            waits["Straw-Man"][-1] > 0.5 * waits["Base Line"][-1]
        ),
        "Figure 5: for large τ LAS' average approaches that of Full Knowledge "
        f"({', '.join(f'{ratio:.2f}' for ratio in ratios)} of it at "
        f"{' and '.join(f'{values[place]:g}' for place in large)} ms)": all(
            abs(ratio - 1) <= CLOSE - 1 for ratio in ratios
        ),
    }


def _largest(values: Sequence[float], waits: Means, shed: Means) -> dict[str, bool]:
    ratios = [wait / tau for wait, tau in zip(waits["LAS"], values, strict=True)]
    return {
        "Figure 6: LAS behaves alike for every largest cost: its average is close to τ "
        f"({min(ratios):.2f} to {max(ratios):.2f} τ)": min(ratios) >= 1 / CLOSE
        and max(ratios) <= CLOSE,
        "Figure 6: its shedding ratio is always positive": all(
            las > base for las, base in zip(shed["LAS"], shed["Base Line"], strict=True)
        ),
    }


def _skew(values: Sequence[float], waits: Means, shed: Means) -> dict[str, bool]:
    del values
    las, drops = waits["LAS"], shed["LAS"]
    return {
        "Figure 7: the more the items' frequencies differ, the lower is LAS' latency": all(
            later <= CLOSE * earlier for earlier, later in pairwise(las)
        )
        and las[-1] < las[0],
        f"Figure 7: and the fewer tuples it drops ({drops[0]:.3f} and {drops[-1]:.3f})": (
            drops[-1] < drops[0]
        ),
        "Figure 7: it is close to τ or below for every skew "
        f"(at most {max(las) / THRESHOLD:.2f} τ)": max(las) <= CLOSE * THRESHOLD,
    }


def _precision(values: Sequence[float], waits: Means, shed: Means) -> dict[str, bool]:
    fine = [wait for wait, error in zip(waits["LAS"], values, strict=True) if error <= 0.1]
    return {
        "Figure 8: with ε ≤ 0.1 LAS' average is at or below τ "
        f"({min(fine):.1f} to {max(fine):.1f} ms)": max(fine) <= THRESHOLD,
        "Figure 8: and it drops fewer tuples the smaller ε is": all(
            later <= earlier for earlier, later in pairwise(shed["LAS"])
        ),
    }


def _distinct(values: Sequence[float], waits: Means, shed: Means) -> dict[str, bool]:
    """Judges "no unexpected deviations from what is reported", of other numbers of costs."""
    usual, many = shed["LAS"][-1], [place for place, number in enumerate(values) if number > 1]
    apart = max(abs(shed["LAS"][place] - usual) for place in many)
    return {
        "Section V-A: other numbers of distinct costs show nothing else: LAS' average is at most "
        f"1.15 τ ({max(waits['LAS'][place] for place in many) / THRESHOLD:.2f} τ at most)": (
            max(waits["LAS"][place] for place in many) <= CLOSE * THRESHOLD
        ),
        f"Section V-A: and it drops as many, to within 2 % of the stream ({apart:.1%})": (
            apart <= 0.02
        ),
    }

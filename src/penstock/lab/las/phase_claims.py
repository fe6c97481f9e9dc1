"""What the paper says of its figure 9, phase by phase, in sentences that code judges."""

from collections.abc import Mapping

import numpy as np

from penstock.core.types import Floats

PHASES = "ABCDEFG"
CLOSE = 1.15
"""A latency up to this ratio of τ is close to it."""
SLIGHT = 0.5
"""A latency that changes by at most this share changes slightly."""
NEXT_TO_NOTHING = 0.01
ALIKE_SHARE = 0.05
"""Dropped shares that are no further apart are alike."""
NAMES = ("Straw-Man", "LAS", "Full Knowledge")


def judged(
    latency: Mapping[str, Floats], dropped: Mapping[str, Floats], threshold: float
) -> dict[str, bool]:
    """Says of each sentence whether it holds; the columns are windows, each a mean over runs.

    A phase is judged by its last window, unless the sentence is about its beginning.
    """

    def waits(name: str, phase: str, window: int = -1) -> float:
        return _window(latency[name], phase, window)

    def drops(name: str, phase: str) -> float:
        return _window(dropped[name], phase, -1)

    def close(name: str, phase: str) -> bool:
        return waits(name, phase) <= CLOSE * threshold

    apart = [abs(waits(name, "B") / waits(name, "A") - 1) for name in NAMES]
    return {
        f"Figure 9, A: LAS comes close to τ or below ({waits('LAS', 'A'):.0f} ms)": close(
            "LAS", "A"
        ),
        "Figure 9, A: Straw-Man's latency grows "
        f"({waits('Straw-Man', 'A', 0):.0f} to {waits('Straw-Man', 'A'):.0f} ms)": (
            waits("Straw-Man", "A") > 2 * waits("Straw-Man", "A", 0)
        ),
        f"Figure 9, B: latencies change slightly (by {max(apart):.0%} at most)": max(apart)
        <= SLIGHT,
        "Figure 9, B: all of them drop more": all(drops(n, "B") > drops(n, "A") for n in NAMES),
        f"Figure 9, D: LAS stays close to τ or below ({waits('LAS', 'D'):.0f} ms)": close(
            "LAS", "D"
        ),
        f"Figure 9, D: and so does Full Knowledge ({waits('Full Knowledge', 'D'):.0f} ms)": close(
            "Full Knowledge", "D"
        ),
        "Figure 9, D: Straw-Man deteriorates, and drops as many as before "
        f"({waits('Straw-Man', 'C'):.0f} to {waits('Straw-Man', 'D'):.0f} ms)": (
            waits("Straw-Man", "D") > 2 * waits("Straw-Man", "C")
            and abs(drops("Straw-Man", "D") - drops("Straw-Man", "C")) <= ALIKE_SHARE
        ),
        "Figure 9, E: nobody drops anything": all(drops(n, "E") <= NEXT_TO_NOTHING for n in NAMES),
        f"Figure 9, F: LAS is far above τ at the beginning ({waits('LAS', 'F', 0):.0f} ms)": waits(
            "LAS", "F", 0
        )
        > 2 * threshold,
        f"Figure 9, F: and comes close to it within the phase ({waits('LAS', 'F'):.0f} ms)": close(
            "LAS", "F"
        ),
        "Figure 9, G: costs as at first have little effect on LAS: it drops as in A "
        f"({drops('LAS', 'G'):.3f} and {drops('LAS', 'A'):.3f})": (
            close("LAS", "G") and abs(drops("LAS", "G") - drops("LAS", "A")) <= ALIKE_SHARE
        ),
        "Figure 9, G: Straw-Man does not recover": not close("Straw-Man", "G"),
    }


def _window(of_windows: Floats, phase: str, window: int) -> float:
    windows = np.reshape(of_windows, (len(PHASES), -1))
    return float(windows[PHASES.index(phase), window])

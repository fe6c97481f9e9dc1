"""Theorem 4.2's numeric example: by its formula, and by drawing hash functions."""

import numpy as np

from penstock.core.types import Floats
from penstock.guard.hashes import Hashes, fingerprints
from penstock.lab.las.measure import FigureScale
from penstock.lab.result import Result, ResultTable

K, N = 55, 4096
"""The cells of a row and the items, as the theorem names them."""
DISTINCT_COSTS, SKETCH_ROWS = 64, 10


def expected(cost: float) -> float:
    """Returns E{W/F} of an item with this cost where all items are equally frequent."""
    total = N // DISTINCT_COSTS * DISTINCT_COSTS * (DISTINCT_COSTS + 1) / 2
    return (total - cost) / (N - 1) - K * (total - N * cost) / (N * (N - 1)) * (
        1 - (1 - 1 / K) ** N
    )


def drawn(trials: int) -> Floats:
    """Returns the ratios of all items in every row of sketches: (trials, rows, items)."""
    costs = np.tile(np.arange(1.0, DISTINCT_COSTS + 1), N // DISTINCT_COSTS)
    keys = fingerprints(np.arange(N))
    ratios = np.empty((trials, SKETCH_ROWS, N))
    for seed in range(trials):
        for row, cells in enumerate(Hashes.of(SKETCH_ROWS, K, seed).cells(keys)):
            cells = cells - row * K
            ratio = np.bincount(cells, costs, K) / np.maximum(np.bincount(cells, minlength=K), 1)
            ratios[seed, row] = ratio[cells]
    return ratios


def add(result: Result, scale: FigureScale) -> None:
    """Adds the theorem's example."""
    ratios = drawn(max(scale.associations, 10))
    mean = ratios.mean(axis=(0, 1)).reshape(-1, DISTINCT_COSTS).mean(axis=0)
    exceeds = float((ratios.min(axis=1) >= 48.0).mean())
    low, high = expected(1.0), expected(DISTINCT_COSTS)
    result.tables.append(
        ResultTable(
            "Theorem 4.2: k = 55, n = 4096, costs 1 to 64, all items equally frequent",
            ("", "paper", "formula", "drawn"),
            [
                ("E{W/F} of cost 1", 32.08, low, float(mean[0])),
                ("E{W/F} of cost 64", 32.92, high, float(mean[-1])),
                ("P{min over 10 rows ≥ 48}", 0.024, (11 / 16) ** 10, exceeds),
            ],
        )
    )
    inside = abs(low - 32.08) < 0.005 and abs(high - 32.92) < 0.005
    result.holds["Theorem 4.2: its formula gives [32.08, 32.92]"] = inside
    result.holds["Theorem 4.2: drawn hash functions come to within 0.3 of the formula"] = bool(
        abs(mean[0] - low) < 0.3 and abs(mean[-1] - high) < 0.3
    )
    result.figures["theorem 4.2"] = {"formula": [low, high], "drawn": mean.tolist()}

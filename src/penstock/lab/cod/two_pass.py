"""The oracle: sees a window twice, once to count its groups and once to shed.

It is what CoD does in a window manager (sections V and VI), and what the one-pass form at the
gate is measured by.
"""

import numpy as np

from penstock.core.types import Ints
from penstock.lab.cod.recorded import AdmittedTuples, WindowedStream
from penstock.windows import quota
from penstock.windows.sampling import shed


def oracle(stream: WindowedStream, budgets: Ints, rng: np.random.Generator) -> AdmittedTuples:
    """Keeps equal quotas in each tumbling window, as many tuples as its budget says."""
    kept = np.zeros(len(stream), dtype=np.bool_)
    weight = np.ones(len(stream))
    for window, budget in zip(stream.windows(), budgets.tolist(), strict=True):
        group = np.unique(stream.group[window], return_inverse=True)[1]
        sizes = np.bincount(group).astype(np.float64)
        level = quota.level(sizes, float(budget))
        kept[window] = chosen = shed(group, np.minimum(sizes, level), rng.random(group.size))
        weight[window] = (sizes / np.bincount(group[chosen], minlength=sizes.size))[group]
    return AdmittedTuples(kept, weight)


def uniform(stream: WindowedStream, budgets: Ints, rng: np.random.Generator) -> AdmittedTuples:
    """Keeps every tuple of a window with the same chance."""
    kept = np.zeros(len(stream), dtype=np.bool_)
    weight = np.ones(len(stream))
    for window, budget in zip(stream.windows(), budgets.tolist(), strict=True):
        size = window.stop - window.start
        kept[window] = rng.random(size) < budget / size
        weight[window] = size / max(budget, 1)
    return AdmittedTuples(kept, weight)


def as_before(stream: WindowedStream, share: float, rng: np.random.Generator) -> AdmittedTuples:
    """Keeps quotas by the frequencies of the window before, which drift defeats.

    A group that was not in it gets the share that all get; its first window has nothing to go by.
    """
    kept = np.zeros(len(stream), dtype=np.bool_)
    weight = np.ones(len(stream))
    before = np.zeros(stream.groups)
    for window in stream.windows():
        group = stream.group[window]
        level = quota.level(before[before > 0], share * group.size)
        rate = np.divide(level, before, out=np.full(before.size, share), where=before > 0)
        rate = np.minimum(rate, 1.0)[group]
        kept[window] = rng.random(group.size) < rate
        weight[window] = 1.0 / rate
        before = np.bincount(group, minlength=stream.groups).astype(np.float64)
    return AdmittedTuples(kept, weight)

"""Equi-joins: a tuple is worth something if its key is in the other stream too (CoD, VI-C.3).

Each key gets the same quota on both streams, and the two samples are independent. The number of
joined pairs of a key is then estimated by ``(k_a / r_a) (k_b / r_b)``, whose relative variance is
about ``1/k_a - 1/n_a + 1/k_b - 1/n_b``: least, for what is admitted, with equal quotas. Correlated
sampling, by a hash of the key, keeps whole keys or nothing of them. It is the better choice for
the size of the whole join; but here each key is a result, and a key that is missing is all wrong.

A key that was seen on one stream only may still come on the other. The longer it does not, the
less likely; so its quota shrinks as the window passes, and what it leaves goes to keys on both.
"""

from collections import Counter

import numpy as np

from penstock.core.types import Floats, Stratum

KEY_COMES_EXPONENT = 4
"""A key that comes at all has come by now with the chance ``1 - (1 - passed) ** exponent``."""
LONE_KEY_QUOTA_SHARE = 0.02
"""The share of a quota that a key on one stream keeps: law 10."""


def matched(strata: tuple[Stratum, ...], arrived: Floats, passed: float) -> Floats:
    """Answers the most that a group may have of a quota; no limit for a key on both streams."""
    on = Counter(s.group for s, n in zip(strata, arrived.tolist(), strict=True) if n > 0)
    alone = np.array([on[s.group] == 1 and n > 0 for s, n in zip(strata, arrived, strict=True)])
    return np.where(alone, max((1.0 - passed) ** KEY_COMES_EXPONENT, LONE_KEY_QUOTA_SHARE), np.inf)

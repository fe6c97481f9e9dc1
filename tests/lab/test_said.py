"""What a site said of SIC is compared with what was kept, not with the site's own counts."""

import pytest

from penstock.core.types import Stratum
from penstock.lab.bench.said import KeptBatch, furthest_off, true_sic

FAST, SLOW, OTHER = Stratum("q", "fast"), Stratum("q", "slow"), Stratum("r", "s")
STW, INTERVAL = 10.0, 1.0


def batch(second: int) -> KeptBatch:
    """Every second; the share that is kept grows, and differs between the sources."""
    kept = {FAST: 10 * second, SLOW: 1, OTHER: 20}
    return KeptBatch(second + 0.5, {FAST: 1000, SLOW: 10, OTHER: 100}, kept)


BATCHES = [batch(second) for second in range(40)]


def said(second: int) -> dict[str, float]:
    """What a site says that is right: of the last ten batches."""
    fast = sum(10 * n for n in range(second - 9, second + 1)) / 10_000
    return {"q": (fast + 0.1) / 2, "r": 0.2}


def test_sic_is_the_mean_over_sources() -> None:
    assert true_sic(BATCHES[11:21]) == pytest.approx(said(20))


def test_a_site_that_says_what_is_so_is_not_off() -> None:
    sayings = [(second + 0.7, said(second)) for second in range(15, 35)]
    off = furthest_off(sayings, BATCHES, STW, INTERVAL)
    assert len(off) == 20
    assert max(off) == pytest.approx(0.0, abs=1e-12)


def test_a_site_that_has_not_heard_of_the_last_batch_is_not_off() -> None:
    off = furthest_off([(20.7, true_sic(BATCHES[11:20]))], BATCHES, STW, INTERVAL)
    assert off == pytest.approx([0.0], abs=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        {"q": 0.155, "r": 0.2},  # tuples of all sources thrown together
        {"q": 0.5 * said(20)["q"], "r": 0.2},  # a source counted twice
        {"q": said(20)["q"], "r": 0.25},  # an entry dropped
        {"q": said(20)["q"]},  # a query forgotten
        {**said(20), "nobody": 0.3},
        {"q": said(8)["q"] + 0.03, "r": 0.2},
        said(34),  # far too late
    ],
)
def test_a_site_that_says_anything_else_is_off(wrong: dict[str, float]) -> None:
    (off,) = furthest_off([(20.7, wrong)], BATCHES, STW, INTERVAL)
    assert off > 0.01


def test_before_the_first_batch_nothing_is_judged() -> None:
    assert furthest_off([(0.1, {"q": 1.0}), (5.0, {})], BATCHES, STW, INTERVAL) == []

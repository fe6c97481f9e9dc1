"""Figure 4 of THEMIS without Spark: what coordinators say levels out queries that span sites."""

from __future__ import annotations

import statistics

import pytest

from penstock.core.fairness import jain
from tests.federation.driven_federation import DrivenFederation

SECONDS, MEASURED_SECONDS = 180.0, 60.0
LONG_WATERMARK = 25.0


def figures(policy: str, *, tells: bool, seed: int) -> tuple[float, float]:
    sic = DrivenFederation(policy, tells=tells, seed=seed).run(SECONDS, MEASURED_SECONDS)
    return jain(list(sic.values())), statistics.fmean(sic.values())


@pytest.mark.parametrize("seed", range(2))
def test_queries_of_two_overloaded_sites_level_out_where_coordinators_tell(seed: int) -> None:
    fair, mean = figures("balance-sic-paid", tells=True, seed=seed)
    unfair, _ = figures("balance-sic-paid", tells=False, seed=seed)
    by_chance, mean_by_chance = figures("uniform", tells=True, seed=seed)
    assert fair >= 0.98
    assert unfair < 0.9
    assert by_chance < fair
    assert mean > 1.5 * mean_by_chance


def test_news_that_is_half_a_minute_old_must_say_so() -> None:
    """Taken for what is true now, it lacks what the sites have done since, and they swing."""
    means = {
        as_of_now: statistics.fmean(_late_jain(seed, as_of_now=as_of_now) for seed in range(3))
        for as_of_now in (False, True)
    }
    assert means[False] >= 0.99
    assert means[True] < means[False] - 0.02


def _late_jain(seed: int, *, as_of_now: bool) -> float:
    federation = DrivenFederation(
        tells=True, seed=seed, watermark=LONG_WATERMARK, as_of_now=as_of_now
    )
    return jain(list(federation.run(240.0, MEASURED_SECONDS).values()))


def test_sites_whose_streams_take_all_that_they_plan_still_admit_some_and_level_it() -> None:
    """Each stream of a loaded machine took 0.6 s a batch by itself: four take more than a site has.

    What was left for tuples was less than nothing, and a site that read 40,000 of them admitted 40.
    """
    federation = DrivenFederation(tells=True, seed=0, fixed_work=0.6)
    sic = federation.run(SECONDS, MEASURED_SECONDS)
    assert min(sic.values()) > 0.05
    assert jain(list(sic.values())) >= 0.98

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


@pytest.mark.parametrize("seed", range(2))
def test_news_that_is_half_a_minute_old_must_say_so(seed: int) -> None:
    """Taken for what is true now, it lacks what the sites have done since, and they swing."""
    jains = {}
    for as_of_now in (False, True):
        federation = DrivenFederation(
            tells=True, seed=seed, watermark=LONG_WATERMARK, as_of_now=as_of_now
        )
        sic = federation.run(240.0, MEASURED_SECONDS)
        jains[as_of_now] = jain(list(sic.values()))
    assert jains[False] >= 0.98
    assert jains[True] < jains[False] - 0.02

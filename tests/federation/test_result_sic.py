"""What a result is worth: never above 1, whatever tuples were stamped with and whenever they come.

The sources, gates and links of a site are driven here without Spark: the controller stamps tuples,
and windows bring what was stamped to the result.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import policy
from penstock.core.controller import Controller
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import Batch, Count, Report, Stratum, Upcoming
from penstock.federation.result_sic import age_of_results, sic_of_results
from penstock.spark.elsewhere import CLASSES_PER_OCTAVE, Elsewhere
from penstock.spark.query import BatchLatency, ResultBatch

INTERVAL, STW = 3.0, 30.0
TUPLES = 120_000
"""That each source sends in an interval."""
amounts = st.floats(0.0, 1e4)


def steady(
    came: float, meant: float, seconds: float, until: float, since: float = 0.0
) -> list[ResultBatch]:
    """Results that come every so many seconds, each worth its time."""
    times = np.arange(since, until + 1e-9, seconds)
    return [ResultBatch(t, came * seconds / STW, meant * seconds / STW, 1) for t in times.tolist()]


@given(
    st.lists(st.tuples(st.floats(0.001, 100.0), amounts, amounts), max_size=40),
    st.floats(0.0, 200.0),
    st.floats(1.0, 100.0),
)
def test_no_results_are_worth_more_than_1(
    given_results: list[tuple[float, float, float]], later: float, stw: float
) -> None:
    results, now = [], 0.0
    for gap, came, missing in given_results:
        now += gap
        results.append(ResultBatch(now, came, came + missing, 1))
    sic = sic_of_results(results, now + later, stw)
    assert sic is None or 0.0 <= sic <= 1.0


@pytest.mark.parametrize("worth", [1.0, 25.0, 3000.0])
def test_stamps_that_are_too_high_do_not_hide_what_was_shed(worth: float) -> None:
    """A sum that is cut off at 1 would say 1 for as long as such tuples are in the STW."""
    results = steady(0.4 * worth, worth, 3.0, until=60.0)
    assert sic_of_results(results, 61.0, STW) == pytest.approx(0.4)


@pytest.mark.parametrize("seconds", [1.0, 3.0, 7.0, 11.0])
def test_it_is_the_same_at_any_moment_however_results_come_in_lumps(seconds: float) -> None:
    results = steady(0.4, 1.0, seconds, until=100.0)
    late = [result.committed for result in results[-4:]]
    found = [sic_of_results(results, now + 0.5, STW) for now in late]
    assert found == pytest.approx([0.4] * len(found))


def test_windows_that_close_two_at_a_time_or_not_at_all_change_nothing() -> None:
    one_by_one = steady(0.4, 1.0, 3.0, until=90.0)
    lumped = []
    for first, second in zip(one_by_one[::2], one_by_one[1::2], strict=False):
        lumped.append(ResultBatch(first.committed, 0.0, 0.0, 0))
        lumped.append(ResultBatch(second.committed, 0.08, 0.2, 2))
    assert sic_of_results(lumped, 90.0, STW) == pytest.approx(0.4)


def test_what_never_comes_is_missing_from_it() -> None:
    """A third of the sources is dead: it is not in what was meant to come, either."""
    results = steady(2 / 3 * 0.9, 2 / 3, 3.0, until=90.0)
    assert sic_of_results(results, 91.0, STW) == pytest.approx(0.6)


def test_it_falls_while_nothing_comes_and_is_back_within_an_stw_of_results() -> None:
    before = steady(0.8, 1.0, 3.0, until=60.0)
    falling = [sic_of_results(before, 60.0 + gone, STW) or 0.0 for gone in (2.0, 12.0, 24.0, 40.0)]
    assert falling[0] == pytest.approx(0.8)
    assert falling == sorted(falling, reverse=True)
    assert falling[1] == pytest.approx(0.8 * 18 / 27)  # 9 s beyond a usual gap
    assert falling[-1] == 0.0
    after = [*before, *steady(0.8, 1.0, 3.0, since=120.0, until=153.0)]
    assert sic_of_results(after, 153.0, STW) == pytest.approx(0.8)


def test_a_young_query_is_judged_by_what_it_has_had() -> None:
    assert sic_of_results([], 10.0, STW) is None
    first = ResultBatch(100.0, 0.5, 3000.0, 1)  # gathered over a time that nobody knows
    assert sic_of_results([first], 101.0, STW) is None
    assert sic_of_results([first], 131.0, STW) == 0.0
    young = [first, *steady(0.3, 1.0, 3.0, since=103.0, until=109.0)]
    assert sic_of_results(young, 110.0, STW) == pytest.approx(0.3)


def test_results_are_as_old_as_their_tuples_and_the_watermark() -> None:
    ages = np.linspace(2.0, 4.0, 40, dtype=np.float32)
    latencies = [BatchLatency(0.0, 1.0, 5), *[BatchLatency(0.0, 1.0, 5, ages, 5)] * 3]
    assert age_of_results(latencies, 15.0, 60.0) == pytest.approx(18.0, abs=0.1)
    assert age_of_results(latencies, 15.0, 16.0) == 16.0  # older news would fade when it comes


# --- a site from cold, driven without Spark -----------------------------------------------------


@dataclass
class ColdSite:
    """A site whose fragments start one after the other; each stream has a batch an interval."""

    capacity_share: float
    """The part of what comes that it admits."""
    state: State = field(default_factory=State)
    now: float = 1000.0
    finished: tuple[Batch, ...] = ()
    """What the controller has not heard of yet."""
    numbers: dict[str, int] = field(default_factory=dict)
    elsewhere: Elsewhere = field(default_factory=Elsewhere)

    def __post_init__(self) -> None:
        self.controller = Controller(
            Settings(policy=policy.get("balance-sic-paid"), interval=INTERVAL, latency=9.0, stw=STW)
        )

    def add(self, query: str) -> None:
        self.elsewhere.has_sources(query, "machines", 1)
        self.elsewhere.has_link(query)

    def batch(self, query: str, counted: bool) -> ResultBatch:
        """Runs a batch of a query's leaf; what it sent comes to the root beside it at once."""
        number = self.numbers[query] = self.numbers.get(query, -1) + 1
        leaf, root = f"leaf@{query}", f"root@{query}"
        starting = Upcoming(leaf, INTERVAL, TUPLES if counted else None)
        news = self.elsewhere.news(self.state.account)
        report = Report(self.now, self.finished, starting, *news)
        self.state, plan = self.controller.step(self.state, report)
        stratum = Stratum(query, "machines")
        place = plan.strata.place(stratum)
        worth = plan.default_sic if place < 0 else float(plan.sic[place])
        admitted = round(self.capacity_share * TUPLES)
        result = ResultBatch(self.now + 1, worth * admitted, worth * TUPLES, 1)
        arrived = {stratum: Count(TUPLES, admitted)}
        row = Stratum(query, f"links of root~{_class_of(result.sic)}")
        self.finished = (
            Batch(leaf, number, self.now, 1.0, arrived, overhead=0.1),
            Batch(root, number, self.now, 1.0, {row: Count(1, 1)}, overhead=0.1),
        )
        return result


def _class_of(sic: float) -> int:
    return int(np.floor(-CLASSES_PER_OCTAVE * np.log2(sic)))


@pytest.mark.parametrize("counted", [False, True])
def test_fragments_that_start_one_after_the_other_from_cold_say_what_they_shed(
    counted: bool,
) -> None:
    """The first batch of a fragment is stamped before anybody knows how many tuples it has.

    Stamped with 1, or with what the partial results beside it are worth, it brought thousands of
    times what an STW can bring, and the query stood at 1 until that had left the STW.
    """
    site, queries = ColdSite(capacity_share=0.4), ("left", "both", "right")
    results: dict[str, list[ResultBatch]] = {query: [] for query in queries}
    for step in range(40):
        for number, query in enumerate(queries):
            if step < 4 * number:
                continue
            if step == 4 * number:
                site.add(query)
            results[query].append(site.batch(query, counted))
        site.now += INTERVAL
        for query, told in results.items():
            sic = sic_of_results(told, site.now, STW)
            assert sic is None or sic == pytest.approx(0.4, abs=0.1), (step, query)
    for told in results.values():
        meant = [sum(r.meant for r in told[at : at + 10]) for at in range(len(told) - 9)]
        assert max(meant) <= 1.5  # no STW has much more than its share, the first one included
        # the newest of ten slots may have nothing of a query yet when its tuples are stamped
        assert 0.95 <= statistics.median(meant) <= 1.15

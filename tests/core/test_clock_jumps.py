"""A clock that jumps by an hour, as one does that was wrong and is set right, both ways."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.account import Account
from penstock.core.controller import Controller
from penstock.core.settings import Settings
from penstock.core.state import State
from penstock.core.types import Batch, CoordinatorNews, Count, Plan, Report, Stratum
from penstock.policy import get
from penstock.testing import Cost, Plant

HOUR_SECONDS = 3600.0
RICH, POOR = Stratum("rich", "s"), Stratum("poor", "s")
SETTINGS = Settings(policy=get("balance-sic"))


class Jumping(Controller):
    """A controller whose clock jumps once."""

    jump_at, by = 40.0, 0.0

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        def shifted(moment: float) -> float:
            return moment + self.by if moment >= self.jump_at else moment

        finished = tuple(replace(b, started=shifted(b.started)) for b in report.finished)
        return super().step(state, replace(report, now=shifted(report.now), finished=finished))


def run(by: float) -> tuple[list[float], dict[str, float]]:
    """The latency of each batch, and each query's SIC at the end."""
    plant = Plant({RICH: 60_000.0, POOR: 30_000.0}, Cost(0.2, 1e-7, 2e-5))
    controller = Jumping(SETTINGS)
    controller.by = by
    runs = plant.run(controller, batches=80)
    shares = {
        stratum.query: sum(r.counts[stratum].admitted for r in runs[-10:])
        / sum(r.counts[stratum].arrived for r in runs[-10:])
        for stratum in (RICH, POOR)
    }
    return [each.latency for each in runs], shares


@pytest.mark.parametrize("by", [HOUR_SECONDS, -HOUR_SECONDS])
def test_a_jump_costs_neither_latency_nor_fairness(by: float) -> None:
    steady, expected = run(0.0)
    latencies, shares = run(by)
    assert max(steady[10:]) <= 2.0
    assert max(latencies[10:]) <= 2.0
    assert shares == pytest.approx(expected, abs=0.02)


def test_what_was_booked_before_a_clock_was_set_back_still_counts() -> None:
    """It would otherwise stand still for an hour, and speak of what was."""
    account = Account(1.0, 10.0)
    for second in range(20):
        account = account.record(10_000.0 + second, {RICH: Count(100, 50)})
    assert account.sic() == {"rich": pytest.approx(0.5)}
    for second in range(1, 11):
        now = 10_019.0 - HOUR_SECONDS + second
        account = account.as_of(now).record(now, {RICH: Count(100, 100)})
        expected = (50 * (10 - second) + 100 * second) / 1000
        assert account.sic() == {"rich": pytest.approx(expected, abs=0.051)}
    assert account.sic() == {"rich": 1.0}


def test_what_a_site_notes_of_itself_does_not_pile_up_behind_a_clock_set_back() -> None:
    """News of coordinators is compared with it, as it was at the time that the news speaks of."""
    controller, state = Controller(SETTINGS), State()
    for second in range(100):
        now = 10_000.0 + second - (HOUR_SECONDS if second >= 50 else 0.0)
        told = {"rich": CoordinatorNews(0.5, now)}
        batch = Batch("s", second, now - 1.0, 0.5, {RICH: Count(100, 50)})
        state, _ = controller.step(state, Report(now, (batch,), None, told))
    times = [when for when, _ in state.own]
    assert times == sorted(times)
    assert times[-1] == now
    assert len(times) <= 2 * SETTINGS.stw_seconds + 1


def test_a_clock_that_goes_on_changes_nothing() -> None:
    account = Account(1.0, 10.0).record(100.0, {RICH: Count(10, 10)})
    assert account.as_of(100.0 + HOUR_SECONDS) is account


def test_a_batch_that_is_late_is_no_clock_that_was_set_back() -> None:
    account = Account(1.0, 10.0).record(100.0, {RICH: Count(10, 10)})
    assert account.as_of(95.0) is account
    assert account.record(50.0, {RICH: Count(10, 0)}).sic() == {"rich": 1.0}

"""The controller in closed loop with a simulated plant; time and chance are arguments."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.controller import Controller
from penstock.core.fairness import jain
from penstock.core.settings import QueryTerms, Settings
from penstock.core.state import State
from penstock.core.types import (
    Batch,
    CoordinatorNews,
    Count,
    Report,
    Stratum,
    Upcoming,
)
from penstock.policy.balance_sic import BalanceSic
from penstock.testing import Cost, Plant, Rates, Run

REAL = Cost(fixed=0.2, arriving=2e-7, admitting=1e-5)
QUERIES: Rates = {
    Stratum(f"q{i}", f"s{j}"): 8_000.0 * (i + 1) * (1 + 4 * j) for i in range(4) for j in range(2)
}  # 480,000 tuples a second, of which about 60,000 can be admitted
SLOW_START = (12.0, 5.0, 2.0, 1.3)
BOUND = 2.0


def _scaled(factor: float) -> Rates:
    return {stratum: rate * factor for stratum, rate in QUERIES.items()}


def _run(plant: Plant, batches: int = 60, settings: Settings | None = None) -> list[Run]:
    return plant.run(Controller(settings or Settings(policy=BalanceSic())), batches)


def _used(runs: list[Run]) -> float:
    """The time that was used of the time that was planned with."""
    return float(np.mean([run.seconds for run in runs])) / Settings(policy=BalanceSic()).headroom


def _swing(runs: list[Run]) -> float:
    """Of the admitted rate: all the way from its lowest to its highest."""
    rates = np.array([run.admitted / run.arrived for run in runs])
    return float((rates.max() - rates.min()) / rates.mean())


VARIANTS = pytest.mark.parametrize(
    ("lag", "peek"), [(1, True), (1, False), (2, True), (2, False)], ids=str
)


@VARIANTS
def test_steady_overload(lag: int, peek: bool) -> None:
    plant = Plant(QUERIES, REAL, lag=lag, peek=peek, noise=0.03, slow_start=SLOW_START)
    runs = _run(plant, 80)
    settled = runs[20:]
    assert max(run.latency for run in settled) <= BOUND * 1.03  # noise of three standard deviations
    assert _used(settled) >= 0.95
    assert _swing(settled[10:]) <= 0.1


@VARIANTS
def test_no_oscillation_without_noise(lag: int, peek: bool) -> None:
    runs = _run(Plant(QUERIES, REAL, lag=lag, peek=peek), 80)[30:]
    assert _swing(runs) <= 0.02
    assert max(run.latency for run in runs) <= BOUND


def _back_within(runs: list[Run], change: float) -> int:
    """Micro-batches that start after the change, until the bound holds for good."""
    after = [run for run in runs if run.started >= change]
    late = [i for i, run in enumerate(after) if run.latency > BOUND * 1.03]
    return late[-1] + 1 if late else 0


CHANGE = 40.5
"""Between two batches: the one that starts next is the first that it can be seen in."""
CHANGES: dict[str, tuple[Callable[[float], Rates], Callable[[float], Cost]]] = {
    "burst of 8 from calm": (
        lambda t: _scaled(0.05 * (8 if CHANGE < t < 60 else 1)),
        lambda _: REAL,
    ),
    "twice the load": (lambda t: _scaled(2 if t > CHANGE else 1), lambda _: REAL),
    "costs double": (
        lambda _: QUERIES,
        lambda t: REAL if t < CHANGE else Cost(0.2, 2e-7, 2e-5),
    ),
    "costs halve": (
        lambda _: QUERIES,
        lambda t: REAL if t < CHANGE else Cost(0.2, 2e-7, 5e-6),
    ),
    "everything slower by half": (
        lambda _: QUERIES,
        lambda t: REAL if t < CHANGE else Cost(0.3, 3e-7, 1.5e-5),
    ),
    "a new query": (
        lambda t: {**QUERIES, Stratum("new", "s"): 100_000.0} if t > CHANGE else QUERIES,
        lambda _: REAL,
    ),
    "half of the queries go": (
        lambda t: dict(list(QUERIES.items())[:4]) if t > CHANGE else QUERIES,
        lambda _: REAL,
    ),
}


@VARIANTS
@pytest.mark.parametrize("change", CHANGES)
def test_latency_is_back_within_three_intervals_of_any_change(
    change: str, lag: int, peek: bool
) -> None:
    arrivals, cost = CHANGES[change]
    for seed in range(5):
        plant = Plant(
            lambda t: arrivals(t) if t > 12 else _scaled(0.05),
            cost,
            lag=lag,
            peek=peek,
            noise=0.02,
            seed=seed,
        )
        runs = _run(plant, 90)
        assert max(run.latency for run in runs if 30 < run.started < 39) <= BOUND * 1.03
        assert _back_within(runs, CHANGE) <= 3 * lag
        assert _used(runs[-15:]) >= 0.95 or all(run.plan.open for run in runs[-15:])
        assert _swing(runs[-15:]) <= 0.1


def test_after_a_burst_the_gate_stands_open_again() -> None:
    runs = _run(Plant(lambda t: _scaled(0.05 * (8 if 40 < t < 60 else 1)), REAL, noise=0.02), 90)
    calm = [run for run in runs if run.started > 61]
    assert all(run.plan.open for run in calm[2:])
    assert all(not run.plan.open for run in runs if 44 < run.started < 60)


def test_law_6_a_slow_start_within_the_budget_sheds_nothing() -> None:
    runs = _run(Plant(_scaled(0.01), REAL, slow_start=(3.5, 3.0, 2.0, 1.3), noise=0.05), 60)
    assert all(run.plan.open for run in runs)


def test_after_a_start_that_broke_the_latency_the_gate_opens_soon() -> None:
    """What waits after a first batch of seconds is overload, if only for a moment."""
    runs = _run(Plant(_scaled(0.03), REAL, slow_start=SLOW_START, noise=0.05), 60)
    assert not runs[1].plan.open
    assert all(run.plan.open for run in runs[8:])


def test_one_pause_costs_little() -> None:
    plant = Plant(QUERIES, REAL, noise=0.02, outliers={40: 6.0})
    runs = _run(plant, 80)
    assert _used(runs[44:]) >= 0.95
    assert _back_within(runs, runs[40].started) <= 3


def _sic(run: Run) -> dict[str, float]:
    shares: dict[str, list[float]] = {}
    for stratum, count in run.counts.items():
        shares.setdefault(stratum.query, []).append(count.admitted / max(count.arrived, 1))
    return {query: float(np.mean(share)) for query, share in shares.items()}


def test_queries_are_level_and_slow_sources_are_preferred() -> None:
    run = _run(Plant(QUERIES, REAL), 40)[-1]
    assert jain(list(_sic(run).values())) >= 0.999
    slow, fast = run.plan.rate(Stratum("q3", "s0")), run.plan.rate(Stratum("q3", "s1"))
    assert slow > fast > 0
    uniform = run.admitted / run.arrived
    assert np.mean(list(_sic(run).values())) > 1.5 * uniform


def test_a_disturbed_query_catches_up_and_does_not_ring() -> None:
    """A query whose tuples were lost for some intervals is lifted, then all are level again."""
    quiet = {stratum: rate for stratum, rate in QUERIES.items() if stratum.query != "q0"}
    plant = Plant(
        lambda t: {
            **quiet,
            **{s: r * (40 if 30 < t < 33 else 1) for s, r in QUERIES.items() if s.query == "q0"},
        },
        REAL,
    )
    runs = _run(plant, 80)
    fair = [jain(list(_sic(run).values())) for run in runs]
    assert min(fair[30:36]) < 0.9  # it was disturbed
    assert min(fair[55:]) >= 0.95
    assert min(fair[68:]) >= 0.999


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_law_10_no_stratum_is_starved(share: float) -> None:
    many = {Stratum(f"q{i}", f"s{j}"): 10.0 * 3**j for i in range(30) for j in range(8)}
    scale = 480_000 / sum(many.values())
    plant = Plant({s: r * scale for s, r in many.items()}, REAL)
    runs = _run(plant, 60, Settings(policy=BalanceSic(), explore=share))
    assert all(run.plan.rates.min() > 0 for run in runs if run.plan.strata)
    totals: dict[Stratum, int] = {}
    for run in runs[20:]:
        for stratum, count in run.counts.items():
            totals[stratum] = totals.get(stratum, 0) + count.admitted
    assert min(totals.values()) > 0


def test_terms_are_kept() -> None:
    terms = {"q0": QueryTerms(floor=0.9), "q1": QueryTerms(weight=2.0)}
    sic = _sic(_run(Plant(QUERIES, REAL), 60, Settings(policy=BalanceSic(), terms=terms))[-1])
    assert sic["q0"] >= 0.88
    assert sic["q1"] > 1.5 * sic["q2"]


def test_jobs_share_a_site_and_a_job_that_goes_leaves_its_share() -> None:
    """Three jobs of different cost, told by hand: processor time is what they compete for."""
    costs = {"cheap": 5e-6, "middling": 1e-5, "dear": 4e-5}
    controller = Controller(Settings(policy=BalanceSic(), cores=2.0))

    def play(
        state: State, alive: list[str], first: int, rounds: int
    ) -> tuple[State, dict[str, float]]:
        rates: dict[str, float] = {}
        for number in range(first, first + rounds):
            for job in alive:
                stratum = Stratum(job, "s")
                outlook = Upcoming(job, 1.0, 60_000)
                state, plan = controller.step(state, Report(float(number), starting=outlook))
                rates[job] = plan.rate(stratum)
                admitted = round(60_000 * rates[job])
                work = 0.1 + admitted * costs[job] + 60_000 * 2e-7
                batch = Batch(
                    job,
                    number,
                    float(number),
                    0.2 + work / 2,
                    {stratum: Count(60_000, admitted)},
                    work=work,
                    overhead=0.2,
                )
                state, _ = controller.step(state, Report(number + 0.9, finished=(batch,)))
        return state, rates

    state, rates = play(State(), list(costs), 0, 40)
    assert max(rates.values()) - min(rates.values()) <= 0.02
    spent = sum(0.1 + 0.012 + 60_000 * rates[job] * costs[job] for job in costs)
    assert 0.95 * 1.8 <= spent <= 1.02 * 1.8
    state, _ = controller.step(state, Report(41.0, gone=("dear",)))
    _, after = play(state, ["cheap", "middling"], 42, 10)
    assert min(after.values()) > rates["cheap"] * 1.2


def test_news_from_coordinators_is_used_and_nonsense_is_not() -> None:
    controller = Controller(Settings(policy=BalanceSic()))
    strata = [Stratum("lucky", "s"), Stratum("unlucky", "s")]

    def level(told: dict[str, CoordinatorNews]) -> dict[str, float]:
        state = State()
        for number in range(30):
            now = float(number)
            report = Report(now, starting=Upcoming("j", 1.0, 200_000), told=told)
            state, plan = controller.step(state, report)
            counts = {s: Count(100_000, round(100_000 * plan.rate(s))) for s in strata}
            seconds = REAL.seconds(200_000, sum(c.admitted for c in counts.values()))
            batch = Batch("j", number, now, seconds, counts)
            state, _ = controller.step(state, Report(now + 0.9, finished=(batch,)))
        return {s.query: plan.rate(s) for s in strata}

    plain = level({})
    assert plain["lucky"] == pytest.approx(plain["unlucky"], rel=0.01)
    helped = level({"lucky": CoordinatorNews(0.9, 25.0)})
    assert helped["lucky"] < helped["unlucky"]
    for nonsense in (
        CoordinatorNews(7.0, 25.0),
        CoordinatorNews(float("nan"), 25.0),
        CoordinatorNews(-1.0, 25.0),
    ):
        assert level({"lucky": nonsense}) == plain


def test_a_batch_that_is_told_twice_counts_once() -> None:
    controller = Controller(Settings(policy=BalanceSic()))
    batch = Batch("j", 0, 0.0, 0.5, {Stratum("q", "s"): Count(10, 10)})
    once, _ = controller.step(State(), Report(1.0, finished=(batch,)))
    twice, _ = controller.step(once, Report(1.0, finished=(batch,)))
    assert twice.account is not None
    assert once.account is not None
    assert twice.account.arrived().tolist() == once.account.arrived().tolist() == [10.0]


def test_an_account_of_other_settings_is_begun_anew() -> None:
    """A site that is started again with another STW must not go on with the old one."""
    batch = Batch("j", 0, 0.0, 0.9, {Stratum("q", "s"): Count(10, 10)})
    controller = Controller(Settings(policy=BalanceSic(), stw=10.0))
    state, _ = controller.step(State(), Report(1.0, (batch,)))
    longer = controller.with_settings(Settings(policy=BalanceSic(), stw=60.0))
    state, _ = longer.step(state, Report(2.0))
    assert state.account is not None
    assert state.account.stw == 60.0


def test_steps_are_repeatable() -> None:
    """Law 8: the same state and report give the same plan."""
    plant = Plant(QUERIES, REAL, noise=0.05)
    first, again = _run(plant, 20), _run(plant, 20)
    for one, other in zip(first, again, strict=True):
        assert one.plan.strata == other.plan.strata
        assert one.plan.rates.tolist() == other.plan.rates.tolist()


rates_of_strata = st.dictionaries(
    st.builds(
        Stratum, st.sampled_from("abc"), st.sampled_from("xy"), st.sampled_from(["", "1", "2"])
    ),
    st.floats(0, 200_000),
    max_size=8,
)


@settings(max_examples=150)
@given(
    st.lists(rates_of_strata, min_size=1, max_size=4),
    st.floats(0, 0.5),
    st.floats(0, 1e-6),
    st.floats(1e-6, 1e-4),
    st.integers(1, 2),
    st.booleans(),
)
def test_law_10_in_any_plant(
    phases: list[Rates], fixed: float, arriving: float, admitting: float, lag: int, peek: bool
) -> None:
    plant = Plant(
        lambda t: phases[int(t // 5) % len(phases)],
        Cost(fixed, arriving, admitting),
        lag=lag,
        peek=peek,
    )
    for run in _run(plant, 25):
        assert ((run.plan.rates > 0) & (run.plan.rates <= 1)).all()
        assert 0 < run.plan.default_rate <= 1
        assert all(0 <= count.admitted <= count.arrived for count in run.counts.values())

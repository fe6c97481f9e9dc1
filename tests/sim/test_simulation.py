"""The laws in every step of randomised runs, repeatability, and the parts of the engine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Floats, Plan, Report
from penstock.errors import PenstockError
from penstock.lab.study import COMPLEX_KINDS
from penstock.lab.themis.central import Problem, lexicographic_max_min
from penstock.sim.deployment import deploy
from penstock.sim.network import Coordinators, Mail
from penstock.sim.scenario import Scenario
from penstock.sim.simulated_site import SimulatedSite
from penstock.sim.simulation import Simulation
from tests.reference.quality import Operator, Query, exactly
from tests.sim.support import run, small

scenarios = st.builds(
    lambda seed, kinds, sites, overload, policy, placement, burst, failing, latency, interval: (
        Scenario.model_validate(
            {
                "seed": seed,
                "duration": "20s",
                "stw": "5s",
                "interval": interval,
                "policy": policy,
                "placement": placement,
                "sites": {"count": sites, "capacity": 6000.0 / overload, "latency": latency},
                "queries": [
                    {"kind": kind, "count": 2, "fragments": "1" if kind == "avg" else "1-3"}
                    for kind in kinds
                ]
                + [{"kind": "max", "count": 1, "from": "4s", "until": "9s"}],
                "sources": {"rate": 100, "burst": burst},
                "failures": [{"site": 0, "at": "6s", "for": "3s"}] if failing else [],
            }
        )
    ),
    st.integers(0, 1000),
    st.lists(st.sampled_from(["avg", *COMPLEX_KINDS]), min_size=1, max_size=3),
    st.integers(1, 3),
    st.sampled_from([0.3, 1.0, 4.0, 20.0]),
    st.sampled_from(["balance-sic", "balance-sic-paid", "random", "max-min"]),
    st.sampled_from(["zipf", "uniform", "round-robin", "by-load"]),
    st.sampled_from([None, {"share": 0.1, "factor": 10}]),
    st.booleans(),
    st.sampled_from(["0ms", "5ms", "600ms"]),
    st.sampled_from(["100ms", "250ms", "1s"]),
)


@settings(max_examples=25, deadline=None)
@given(scenarios)
def test_laws_1_and_2_hold_in_every_step(scenario: Scenario) -> None:
    simulation = Simulation(scenario)
    waiting = np.zeros(len(simulation.deployment.strata))
    held = 0.0
    for _ in range(scenario.steps):
        step = simulation.step()
        waiting += step.arrived - step.lost
        # law 1: where a site shed, all that waited was admitted or shed, to the last tuple
        decided = step.admitted + step.shed
        assert (decided[step.worked] == waiting[step.worked]).all()
        assert (decided[~step.worked] == 0).all()
        assert (step.admitted >= 0).all()
        assert (step.shed >= 0).all()
        waiting -= decided
        # law 2: what entered windows is still there, or has left them with all its SIC
        held += step.sic_in - step.sic_out
        assert held == pytest.approx(step.sic_held, abs=1e-9)
        # law 3
        assert ((simulation.sic >= 0) & (simulation.sic <= 1)).all()


def test_a_run_is_repeatable_bit_for_bit() -> None:
    scenario = small(
        sources={"burst": {"share": 0.1, "factor": 10}},
        failures=[{"site": 1, "at": "15s", "for": "5s"}],
        placement="zipf",
    )
    first, again = run(scenario), run(scenario)
    assert first.over_time.tobytes() == again.over_time.tobytes()
    assert first.json() == again.json()
    other = run(scenario.changed(seed=4))
    assert other.over_time.tobytes() != first.over_time.tobytes()


def test_random_shedding_repeats_too() -> None:
    scenario = small(policy="random", duration="20s")
    assert run(scenario).json() == run(scenario).json()


def test_without_overload_every_query_has_everything() -> None:
    outcome = run(small(overload=0.5))
    assert outcome.measured.min() > 0.98  # results of the last second may come a step later
    assert outcome.tuples["shed"] == 0


@pytest.mark.parametrize(("kind", "emits"), [("top-5", 5), ("avg-all", 1)])
def test_sic_travels_as_the_algebra_has_it(
    kind: str, emits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the source tuples and, of TOP-5's, three in five partial results are kept."""
    kept = 0.6 if emits == 5 else 1.0
    scenario = small(sites=3, overload=0.1).changed(
        queries=[{"kind": kind, "count": 1, "fragments": 3}]
    )
    simulation = Simulation(scenario)
    work = simulation.deployment.work
    in_stw = float(work.sources[0]) * 150.0 * scenario.stw

    def fixed(
        site: SimulatedSite, _now: float, waiting: Floats, *_: object
    ) -> tuple[Floats, Floats]:
        rates = np.full(waiting.size, 0.5)
        rates[site.partials] = kept
        site._started = _now
        return rates, np.full(waiting.size, 1 / 3 / in_stw)

    monkeypatch.setattr(SimulatedSite, "decide", fixed)
    outcome = simulation.run()
    made = 10 * emits
    names = [f"f{i}" for i in range(3)]
    fed = {i: [j for j in range(3) if work.down[j] == i] for i in range(3)}
    query = Query(
        {f"s{i}": 100 for i in range(3)},
        {names[i]: Operator((f"s{i}", *(names[j] for j in fed[i])), exactly(made)) for i in fed},
    )
    shed = {(f"s{i}", names[i]): 50 for i in range(3)}
    shed |= {(names[j], names[i]): round((1 - kept) * made) for i in fed for j in fed[i]}
    assert outcome.sic[0] == pytest.approx(float(query.sic(shed)), rel=0.02)


def test_sites_run_the_shared_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    step = Controller.step

    def counted(controller: Controller, state: State, report: Report) -> tuple[State, Plan]:
        asked.append(report.now)
        return step(controller, state, report)

    monkeypatch.setattr(Controller, "step", counted)
    simulation = Simulation(small(sites=2))
    simulation.step()
    assert len(asked) == 2


@pytest.mark.parametrize("headroom", [0.5, 0.9])
def test_the_headroom_is_left_and_the_rest_of_the_capacity_is_used(headroom: float) -> None:
    scenario = small(overload=5.0, placement="by-load", headroom=headroom)
    counted = run(scenario.changed(knows="strata")).utilisation
    assert counted.tolist() == pytest.approx([headroom] * counted.size, abs=0.04)
    guessed = run(scenario).utilisation  # it is for what waits on average, not for each interval
    assert guessed.tolist() == pytest.approx([headroom] * guessed.size, abs=0.08)


def test_work_costs_what_is_worked_out_by_hand() -> None:
    """Two fragments of COV, without overload: two sources each, and one partial result a second.

    A tuple passes four operators, where AVG's pass three, and a partial result is sent by one.
    """
    scenario = Scenario.model_validate(
        {
            "duration": "40s",
            "sites": {"count": 2, "capacity": 2000},
            "queries": [{"kind": "cov", "count": 1, "fragments": 2}],
            "placement": "round-robin",
            "costs": {"message": 70, "fragment": 40},
        }
    )
    outcome = run(scenario)
    sources, root = 2 * 150 * 4 / 3, int(outcome.deployment.site_of[0])
    costs = [sources + 40 + 1 / 3 + 70, sources + 40 + 1 / 3 + 70]
    costs[root] = sources + 40 + 4 / 3 + 70
    assert (outcome.utilisation * 2000).tolist() == pytest.approx(costs, rel=0.02)
    problem = Problem.of(outcome.deployment, 150.0)
    assert (2000 - problem.room + sources).tolist() == pytest.approx(costs)
    assert problem.load.sum(axis=1).tolist() == pytest.approx([sources, sources])
    assert problem.tuples.tolist() == [300.0, 300.0]
    alike = run(scenario.changed(costs={"by_kind": False}))
    assert (alike.utilisation * 2000).tolist() == pytest.approx([301, 301], rel=0.02)


def test_a_site_that_does_not_know_which_tuples_wait_is_a_little_less_fair() -> None:
    rows, strata = (run(small(queries=30, knows=what)).spread.jain for what in ("rows", "strata"))
    assert 0.97 < rows < strata


def test_a_query_that_comes_and_goes_takes_its_share_only_then() -> None:
    scenario = small(duration="60s", sites=1, fragments="1", overload=3.0)
    groups = [g.model_dump(by_alias=True) for g in scenario.queries]
    for group in groups:
        group["fragments"] = 1
    guest = {"kind": "top-5", "count": 6, "from": "20s", "until": "40s"}
    outcome = run(scenario.changed(queries=[*groups, guest], warm_up="0s"))
    host = outcome.over_time[:, 0]
    before, during, after = (
        host[np.abs(outcome.times - at) < 0.2].mean() for at in (19.0, 39.0, 59.0)
    )
    assert during < 0.75 * before
    assert after == pytest.approx(before, rel=0.1)
    assert np.isnan(outcome.over_time[outcome.times < 29, -1]).all()


def test_a_profile_raises_the_load() -> None:
    calm = run(small(overload=0.5))
    busy = run(small(overload=0.5, sources={"profile": [{"at": "10s", "factor": 4}]}))
    assert busy.spread.mean < 0.7 * calm.spread.mean


@pytest.mark.parametrize(("keep", "factor"), [(True, 1.0), (False, 1.9)])
def test_bursts_keep_the_mean_load_or_raise_it(keep: bool, factor: float) -> None:
    burst = {"share": 0.1, "factor": 10, "keep_mean": keep}
    calm = small(queries=60, sites=1)
    plain = run(calm).tuples["arrived"]
    bursty = run(calm.changed(sources={"burst": burst})).tuples["arrived"]
    assert bursty == pytest.approx(factor * plain, rel=0.05)


def test_a_coordinator_that_is_down_tells_nothing_new() -> None:
    coordinators = Coordinators(queries=2, slots=4, interval=1.0, latency=0.1)
    coordinators.hear(1.0, np.array([0.2, 0.2]), np.array([], dtype=np.int64))
    coordinators.hear(2.0, np.array([0.2, 0.2]), np.array([1]))
    sic, at = coordinators.news()
    assert sic.tolist() == [0.4, 0.2]
    assert at.tolist() == [2.0, 1.0]


def test_sites_that_hear_nothing_more_go_on_by_what_they_know() -> None:
    """Law 9: all coordinators fall silent; capacity is respected, and queries stay level."""
    silent = run(small(overload=4.0, failures=[{"coordinator": "all", "at": "20s", "for": "20s"}]))
    assert (silent.utilisation <= 1.0).all()
    assert (silent.utilisation > 0.9).all()
    assert silent.spread.jain > 0.95


@pytest.mark.parametrize(
    ("latency", "ago", "steps"),
    [(0.0, 0.1, 0), (0.05, 0.1, 0), (0.05, 0.01, 1), (0.25, 0.0, 1), (0.6, 0.2, 2)],
)
def test_mail_comes_when_the_link_lets_it(latency: float, ago: float, steps: int) -> None:
    mail = Mail(receivers=1, interval=0.25, latency=latency)
    mail.send(np.array([0]), np.array([3.0]), np.array([0.5]), np.array([ago]))
    came = [mail.arrive() for _ in range(4)]
    assert [float(tuples[0]) for tuples, _ in came].index(3.0) == steps
    assert sum(float(sic[0]) for _, sic in came) == 0.5


def test_the_central_optimum_by_hand() -> None:
    """Two sites, one with twice the load: single fragments stay apart, a bridge levels them."""
    scenario = small(queries=3, fragments="2", sites=2, placement="round-robin")
    problem = Problem.of(deploy(scenario), 150.0)
    sic = lexicographic_max_min(problem)
    demand = problem.load.sum()
    assert sic.tolist() == pytest.approx([problem.room.sum() / demand] * 3, rel=1e-6)


def test_nobody_can_be_raised_above_the_central_optimum() -> None:
    """Law 5, for the yardstick: raising anybody lowers somebody who has no more."""
    from scipy.optimize import linprog

    for seed in range(3):
        scenario = small(queries=9, sites=3, placement="zipf", seed=seed)
        problem = Problem.of(deploy(scenario), 150.0)
        sic = lexicographic_max_min(problem)
        for query in range(sic.size):
            below = np.flatnonzero((sic <= sic[query] + 1e-6) & (np.arange(sic.size) != query))
            best = linprog(
                -problem.gain[query],
                A_ub=np.vstack((problem.load, -problem.gain[below])),
                b_ub=np.concatenate((problem.room, -(sic[below] - 1e-7))),
                bounds=(0.0, 1.0),
            )
            assert best.fun is not None
            assert -best.fun <= sic[query] + 1e-4


def test_where_no_query_is_measured_it_is_said() -> None:
    late = [{"kind": "avg", "count": 2, "from": 100.0}]
    with pytest.raises(
        PenstockError, match="no query lives for an STW of 10 s in what is measured"
    ):
        Simulation(small(duration=30.0).changed(queries=late)).run()

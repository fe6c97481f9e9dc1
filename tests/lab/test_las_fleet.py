"""Many runs at once are the runs one by one, decision by decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from penstock.guard.sketch import Sketch
from penstock.lab.las import (
    Average,
    BaseLine,
    DearestFirst,
    FadingOperator,
    FullKnowledge,
    LoadAware,
    Operator,
    StrawManShedder,
    TupleShedder,
)
from penstock.lab.las.fleet import (
    BaseLineFleet,
    FleetShedder,
    FullKnowledgeFleet,
    StrawManFleet,
    simulate_fleet,
)
from penstock.lab.las.fleet_learning import DearestFirstFleet, LoadAwareFleet, warmed
from penstock.lab.las.protocol_messages import Message, Reply
from penstock.lab.las.streams import ParallelRuns, Setting, StreamPhase, runs, seven_phases
from tests.reference.las_simulation import exact_costs, simulate

TUPLES, WINDOW = 1200, 64


def _small(warm: bool, changing: bool) -> ParallelRuns:
    """A few runs of several settings, with costs and rates that change on the way."""
    settings = [Setting(), Setting(under=0.6, error=0.3), Setting(under=-0.2, threshold=1.0)]
    made = runs(settings, 2, 2, TUPLES, warm=200 if warm else 0, items=64)
    first = made.phases[0]
    later = StreamPhase(TUPLES // 2, first.costs * 2.0, first.gap * 0.9)
    return replace(made, phases=[first, later]) if changing else made


def _reference(kind: str, alone: ParallelRuns) -> tuple[TupleShedder, Operator]:
    check, seed, error = Average(float(alone.threshold[0])), int(alone.seed[0]), alone.error[0]
    made = FadingOperator if kind == "dearest first" else Operator
    operator, warm = made(Sketch(float(error), 0.1, seed), WINDOW), None
    if alone.warm is not None:
        warm = warmed(operator, alone.warm[:, 0], alone.phases[0].costs[0]).sketch
    shedders: dict[str, Callable[[], TupleShedder]] = {
        "base line": lambda: BaseLine(float(alone.share[0]), np.random.default_rng(seed)),
        "straw man": lambda: StrawManShedder(check, float(alone.mean[0])),
        "full knowledge": lambda: FullKnowledge(check, exact_costs(alone)),
        "las": lambda: LoadAware(check, float(error), warm),
        "dearest first": lambda: DearestFirst(float(alone.threshold[0]), warm),
    }
    return shedders[kind](), operator


FLEETS: dict[str, Callable[[ParallelRuns], FleetShedder]] = {
    "base line": BaseLineFleet,
    "straw man": StrawManFleet,
    "full knowledge": FullKnowledgeFleet,
    "las": partial(LoadAwareFleet, window=WINDOW),
    "dearest first": partial(DearestFirstFleet, window=WINDOW),
}


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("changing", [True, False], ids=["changing", "steady"])
@pytest.mark.parametrize("kind", FLEETS)
def test_a_fleet_is_its_runs(kind: str, warm: bool, changing: bool) -> None:
    together = _small(warm, changing)
    found = simulate_fleet(together, FLEETS[kind](together), window=100)
    for run in range(together.width):
        alone = together.one(run)
        expected = simulate(alone, *_reference(kind, alone))
        kept = np.array(expected.kept)
        waits = np.zeros(TUPLES)
        waits[kept] = expected.waits
        assert found.kept[:, run].tolist() == kept.reshape(-1, 100).sum(axis=1).tolist()
        assert np.allclose(found.waits[:, run], waits.reshape(-1, 100).sum(axis=1), rtol=1e-12)


class Listening(LoadAware):
    """Counts how often it was answered."""

    replies = 0

    def receive(self, message: Message) -> None:
        self.replies += isinstance(message, Reply)
        super().receive(message)


def test_the_small_runs_exercise_what_they_should() -> None:
    """Matrices, drops and synchronisations all happen in the runs that are compared."""
    alone = _small(warm=False, changing=True).one(0)
    _, operator = _reference("las", alone)
    shedder = Listening(Average(float(alone.threshold[0])), float(alone.error[0]))
    outcome = simulate(alone, shedder, operator)
    assert shedder.sketch is not None
    assert shedder.replies > 0
    assert 0 < sum(outcome.kept) < TUPLES


def test_must_show_in_small() -> None:
    """The order of things in the default setting; `penstock reproduce las` has all runs."""
    made = runs([Setting()], 3, 2, tuples=8192)
    full, las, ours = (
        simulate_fleet(made, fleet(made))
        for fleet in (FullKnowledgeFleet, LoadAwareFleet, DearestFirstFleet)
    )
    assert full.highest.max() <= 6.4 + 1e-9
    assert las.latency.mean() <= 1.5 * 6.4
    assert (ours.latency <= 6.4).all()
    assert (ours.dropped < 0.9 * full.dropped).all()


@pytest.mark.parametrize("warm", [2048, 0], ids=["warm", "cold"])
def test_ten_times_too_much_is_survived(warm: int) -> None:
    """Only the cheapest are executed then, and a dear key must not pass for one of them."""
    made = runs([Setting(under=0.9)], 3, 2, tuples=16_384, warm=warm)
    found = simulate_fleet(made, DearestFirstFleet(made), window=4096)
    assert (found.waits[-1] / found.kept[-1] <= 1.05 * 6.4).all()
    assert (found.kept[-1] / 4096 > 0.1).all()  # the share of the load that can be done
    assert (found.kept[-1] / 4096).mean() > 0.14  # more, since the dear ones are not among them


def test_the_rule_has_no_scale() -> None:
    """Costs, gaps and threshold that are 64 times as long are the same decisions."""
    made = runs([Setting()], 2, 2, tuples=4096)
    phase = made.phases[0]
    longer = replace(
        made,
        phases=[StreamPhase(0, 64.0 * phase.costs, 64.0 * phase.gap)],
        threshold=64.0 * made.threshold,
    )
    one, other = (simulate_fleet(m, DearestFirstFleet(m)) for m in (made, longer))
    assert one.kept.tolist() == other.kept.tolist()


def test_figure_9_in_small() -> None:
    """Of each of the seven phases, the third window of 4,000 tuples is at or below τ."""
    made = seven_phases(2, each=12_000)
    swapped = made.items[36_000:72_000]
    dearest = made.phases[0].costs.max()
    assert all(  # in D, E and F the most frequent item is one of the dearest
        made.phases[0].costs[run, np.bincount(swapped[:, run]).argmax()] == dearest
        for run in range(2)
    )
    found = simulate_fleet(made, DearestFirstFleet(made), window=4000)
    waits = (found.waits / found.kept).reshape(7, 3, 2)
    assert (waits[:, 2] <= 64.0).all()


def test_costs_that_rise_fourfold_make_no_lasting_queue() -> None:
    made = runs([Setting(under=0.0, threshold=64.0)], 2, 2, tuples=16_000)
    first = made.phases[0]
    rising = replace(made, phases=[first, StreamPhase(6000, 4.0 * first.costs, first.gap)])
    found = simulate_fleet(rising, DearestFirstFleet(rising), window=2000)
    waits = found.waits / found.kept
    assert waits.max() <= 10 * 64.0
    assert (waits[-1] <= 1.05 * 64.0).all()


def test_a_threshold_far_below_the_cost_of_a_tuple_is_held() -> None:
    """A quarter of the load can be done, and τ is half of what a tuple costs on average."""
    made = runs([Setting(under=0.75, threshold=1.6)], 3, 2, tuples=16_384)
    assert (simulate_fleet(made, DearestFirstFleet(made)).latency <= 1.01 * 1.6).all()

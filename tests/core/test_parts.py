"""A controller is made of parts, and each of them can be another one."""

import ast
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pytest

import penstock.core
from penstock.core.account import Account
from penstock.core.capacity import Capacity
from penstock.core.controller import Controller
from penstock.core.demand import Forecast
from penstock.core.projection import Projection, project
from penstock.core.settings import QueryTerms, Settings
from penstock.core.standing import Standing
from penstock.core.state import State, StreamState
from penstock.core.types import Batch, Count, Report, Stratum, Upcoming
from penstock.errors import PenstockError
from penstock.policy.balance_sic import BalanceSic
from penstock.testing import Cost, Plant
from penstock.windows.concept import Concept
from penstock.windows.in_force import ConceptWindows

Q = Stratum("q", "s", "a")
REAL = Cost(fixed=0.1, arriving=1e-6, admitting=4e-5)
SETTINGS = Settings(policy=BalanceSic())
CONCEPT = SETTINGS.with_concept("q", Concept(20))


@dataclass(frozen=True)
class Knows:
    """A cost model that knows what a tuple costs, and was told how often it was told."""

    told: int = 0
    known: bool = True
    admitting: float = REAL.admitting
    spread: float = 0.0

    def seconds(self, arrived: float, admitted: float) -> float:
        return REAL.seconds(arrived, admitted)

    def update(
        self,
        seconds: float,
        arrived: float,
        admitted: float,
        overhead: float | None = None,
        span: float | None = None,
    ) -> Self:
        assert seconds == pytest.approx(self.seconds(arrived, admitted))
        del overhead, span
        return replace(self, told=self.told + 1)

    def informed(self, admitting: float) -> Self:
        del admitting
        return self


def test_a_cost_model_that_knows_sheds_right_from_the_first_batch() -> None:
    """Penstock's own takes several batches to learn as much."""
    plant = Plant({Q: 60_000.0}, REAL, restarted=True)
    first = plant.run(Controller(SETTINGS, cost=Knows()), batches=1)[0]
    assert first.seconds == pytest.approx(SETTINGS.headroom, rel=0.02)
    assert plant.run(Controller(SETTINGS), batches=1)[0].seconds < 0.6  # it begins with a few


def test_each_stream_begins_with_the_model_and_teaches_its_own() -> None:
    batches = [
        Batch(name, number, float(number), REAL.seconds(10, 5), {Stratum(name, "s"): Count(10, 5)})
        for number in range(3)
        for name in ("one", "other")
    ]
    report = Report(3.0, tuple(batches[:-1]))
    state, _ = Controller(SETTINGS, cost=Knows()).step(State(), report)
    told = {name: stream.clock for name, stream in state.streams.items()}
    assert told == {"one": Knows(told=3), "other": Knows(told=2)}


class Stingy(Capacity):
    """Spends a tenth of a second a batch, whatever the latency."""

    def spare(
        self, name: str, stream: StreamState, expected: float, starting: Upcoming | None
    ) -> float:
        del name, stream, expected, starting
        return 0.1


def test_another_capacity() -> None:
    runs = Plant({Q: 60_000.0}, REAL, restarted=True).run(
        Controller(SETTINGS, cost=Knows(), capacity=Stingy), batches=10
    )
    assert [run.admitted * REAL.admitting for run in runs] == pytest.approx([0.1] * 10, rel=0.1)


def test_another_projection() -> None:
    asked = []

    def watched(
        state: State,
        account: Account,
        standing: Standing,
        forecast: Forecast,
        now: float,
        settings: Settings,
    ) -> Projection:
        asked.append(now)
        return project(state, account, standing, forecast, now, settings)

    Plant({Q: 60_000.0}, REAL).run(Controller(SETTINGS, project=watched), batches=10)
    assert asked


def test_other_settings_keep_the_parts() -> None:
    controller = Controller(SETTINGS, cost=Knows(), capacity=Stingy, windows=ConceptWindows())
    changed = controller.with_settings(CONCEPT)
    assert changed == replace(controller, settings=CONCEPT)
    assert changed.settings is CONCEPT


def test_a_concept_needs_windows() -> None:
    with pytest.raises(PenstockError, match=r"windows must be given .* got none for 'q'"):
        Controller(CONCEPT)
    with pytest.raises(PenstockError, match="windows must be given"):
        Controller(SETTINGS).with_settings(CONCEPT)


def _stepped(controller: Controller, state: State, number: int) -> State:
    batch = Batch("j", number, float(number), 0.5, {Q: Count(10, 10)})
    return controller.step(state, Report(number + 1.0, (batch,)))[0]


def test_a_state_of_a_controller_without_windows_can_go_on_with_them() -> None:
    state = _stepped(Controller(SETTINGS), State(), 0)
    state = _stepped(Controller(CONCEPT, windows=ConceptWindows()), state, 1)
    assert isinstance(state.windows, ConceptWindows)
    assert state.windows.by_query["q"].groups == (Q,)


@pytest.mark.parametrize("settings", [SETTINGS, CONCEPT])
def test_a_state_survives_a_pickle_and_a_step_leaves_it_alone(settings: Settings) -> None:
    controller = Controller(settings, windows=ConceptWindows())
    state = State()
    for number in range(5):
        state = _stepped(controller, state, number)
    before = pickle.dumps(state)
    report = Report(6.0, starting=Upcoming("j", 1.0, 10_000_000))
    _, plan = controller.step(state, report)
    _, again = controller.step(pickle.loads(before), report)
    assert pickle.dumps(state) == before
    assert again.strata is plan.strata
    assert again.rates.tolist() == plan.rates.tolist()
    assert not plan.open


def test_terms_of_a_query_that_has_none_yet() -> None:
    assert CONCEPT.terms == {"q": QueryTerms(concept=Concept(20))}
    assert CONCEPT.concepts == {"q": Concept(20)}
    assert SETTINGS.concepts == {}


# --- what the core does not know ---------------------------------------------------------------

LEAVES = {"penstock.core", "penstock.errors", "penstock.units"}
NOT_PURE = {"asyncio", "datetime", "os", "pathlib", "pyspark", "random", "socket", "time"}


def _imports() -> Iterator[tuple[str, str]]:
    for path in sorted(Path(str(penstock.core.__file__)).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path.name, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.module is not None
                yield path.name, node.module


def test_the_core_imports_no_other_room_no_spark_no_clock_and_no_files() -> None:
    """Also not inside functions: the same code runs on Spark and in the simulator."""
    found = list(_imports())
    assert len(found) > 30
    rooms = [(file, name) for file, name in found if name.split(".")[0] == "penstock"]
    assert [each for each in rooms if ".".join(each[1].split(".")[:2]) not in LEAVES] == []
    assert [each for each in found if each[1].split(".")[0] in NOT_PURE] == []


def test_a_read_limit_hurries_batches_only_where_what_waits_would_be_late() -> None:
    """Of a latency of two seconds: a backlog of one second is no reason, one of a minute is."""
    capacity, stream = Capacity(SETTINGS), StreamState(rate=1000.0)
    patient = Settings(policy=BalanceSic(), interval=0.1, latency=2.0)
    for backlog, seconds in ((None, 1.0), (1000.0, 1.0), (60_000.0, 0.1)):
        starting = Upcoming("s", 0.1, 100, backlog=backlog, read_limited=True)
        assert Capacity(patient)._budget("s", stream, starting) == seconds
    assert capacity._budget("s", stream, None) == SETTINGS.budget_of("s")
    begun = Upcoming("s", 0.1, 100, backlog=60_000.0, read_limited=True)
    assert Capacity(patient)._budget("s", StreamState(), begun) == 1.0  # no rate is known yet

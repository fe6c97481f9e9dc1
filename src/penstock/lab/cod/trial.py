"""A stream through the controller, batch by batch, without Spark: what a gate would keep."""

from collections.abc import Callable

import numpy as np

from penstock.core.controller import Controller
from penstock.core.settings import QueryTerms, Settings
from penstock.core.state import State
from penstock.core.types import Batch, Count, Floats, Ints, Plan, Report, Stratum, Upcoming
from penstock.lab.cod.recorded import AdmittedTuples, WindowedStream
from penstock.policy import get
from penstock.windows.concept import Concept
from penstock.windows.in_force import ConceptWindows

QUERY, SOURCE = "q", "s"


def one_pass(
    stream: WindowedStream, concept: Concept, seed: int = 0, batches: int = 60, values: int = 2000
) -> AdmittedTuples:
    """Sheds a stream in event-time windows, with about so many batches a pane."""
    settings = Settings(policy=get("balance-sic"), terms={QUERY: QueryTerms(concept=concept)})
    steps = _Steps(Controller(settings, windows=ConceptWindows()))
    return _through(stream, steps.plan, steps.hear, seed, batches, values if concept.value else 0)


class _Steps:
    """Keeps the controller's state between batches."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.state, self.heard = State(), list[Batch]()

    def plan(self, number: int, size: int) -> Plan:
        """Returns the plan for a batch."""
        report = Report(float(number), tuple(self.heard), Upcoming("job", 1.0, size))
        self.state, plan = self.controller.step(self.state, report)
        self.heard = []
        return plan

    def hear(self, batch: Batch) -> None:
        """Tells the controller how a batch went."""
        self.heard = [batch]


def _through(
    stream: WindowedStream,
    plan: Callable[[int, int], Plan],
    hear: Callable[[Batch], None],
    seed: int,
    batches: int,
    values: int,
) -> AdmittedTuples:
    rng = np.random.default_rng(seed)
    strata, stratum = _strata(stream)
    kept, weight = np.zeros(len(stream), dtype=np.bool_), np.ones(len(stream))
    for number, batch in enumerate(stream.batches(batches)):
        group = stratum[batch]
        given = plan(number, group.size)
        rate = _rates(given, strata)[group]
        kept[batch] = passes = rng.random(group.size) < rate
        weight[batch] = 1.0 / rate
        arrived = np.bincount(group, minlength=len(strata))
        admitted = np.bincount(group[passes], minlength=len(strata))
        counts = {
            strata[g]: Count(int(arrived[g]), int(admitted[g]))
            for g in np.flatnonzero(arrived).tolist()
        }
        sample: dict[Stratum, list[float]] = {}
        for g, x in zip(group[passes][:values], stream.value[batch][passes][:values], strict=True):
            sample.setdefault(strata[g], []).append(float(x))
        clock = float(stream.time[batch.stop - 1])
        thinned = dict(zip(given.strata, given.rates.tolist(), strict=True))
        hear(
            Batch(
                "job",
                number,
                float(number),
                0.0,
                counts,
                clocks={QUERY: clock},
                values=sample,
                rates=thinned,
            )
        )
    return AdmittedTuples(kept, weight)


def _strata(stream: WindowedStream) -> tuple[list[Stratum], Ints]:
    """Returns all strata, and which one each tuple belongs to."""
    if stream.source is None:
        return [Stratum(QUERY, SOURCE, str(g)) for g in range(stream.groups)], stream.group
    sources = int(stream.source.max()) + 1
    strata = [Stratum(QUERY, f"s{s}", str(g)) for s in range(sources) for g in range(stream.groups)]
    return strata, stream.source * stream.groups + stream.group


def _rates(plan: Plan, strata: list[Stratum]) -> Floats:
    listed = dict(zip(plan.strata, plan.rates.tolist(), strict=True))
    default = plan.default_of(QUERY)
    return np.array([listed.get(stratum, default) for stratum in strata])

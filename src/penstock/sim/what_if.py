"""Answers what a planner asks: how many queries fit, and what does one more site buy?

One dial of a scenario is swept; everything else, the seed too, stays. Where a least mean SIC is
asked for, the place between the last point that reaches it and the first that does not is found
by halving.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import PenstockError
from penstock.sim.scenario import Scenario
from penstock.sim.simulation import Simulation

HALVINGS = 6
"""How often the interval is halved in which a least mean SIC is lost."""
LEAST_ADVANTAGE = 0.01
"""An advantage of less than this is none."""


@dataclass(frozen=True)
class Dial:
    """Is something of a scenario that can be turned."""

    turn: Callable[[Scenario, float], Scenario]
    whole: bool
    """Whether only whole numbers make sense."""
    more_is_better: bool
    """Whether more of it raises the mean SIC."""


def _queries(scenario: Scenario, total: float) -> Scenario:
    """Asks for so many queries in all, in the proportions of the scenario."""
    groups = scenario.queries
    before = sum(group.count for group in groups)
    wanted = [total * group.count / before for group in groups]
    counts = [math.floor(count) for count in wanted]
    by_rest = sorted(range(len(groups)), key=lambda i: counts[i] - wanted[i])
    for i in by_rest[: round(total) - sum(counts)]:
        counts[i] += 1
    changed = [
        {**group.model_dump(by_alias=True), "count": count}
        for group, count in zip(groups, counts, strict=True)
        if count
    ]
    return scenario.changed(queries=changed)


def _sites(scenario: Scenario, count: float) -> Scenario:
    if isinstance(scenario.sites.capacity, list):
        raise PenstockError("sites can only be added where all have the same capacity")
    return scenario.changed(sites={**scenario.sites.model_dump(), "count": round(count)})


def _capacity(scenario: Scenario, capacity: float) -> Scenario:
    return scenario.changed(sites={**scenario.sites.model_dump(), "capacity": capacity})


def _rate(scenario: Scenario, rate: float) -> Scenario:
    return scenario.changed(sources={**scenario.sources.model_dump(by_alias=True), "rate": rate})


DIALS = {
    "queries": Dial(_queries, whole=True, more_is_better=False),
    "sites": Dial(_sites, whole=True, more_is_better=True),
    "capacity": Dial(_capacity, whole=False, more_is_better=True),
    "rate": Dial(_rate, whole=False, more_is_better=False),
}


@dataclass(frozen=True)
class Question:
    """``queries=60:600:10``: a dial, from, to, and how many points."""

    dial: str
    points: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Question":
        match = re.fullmatch(r"([a-z]+)=([\d.]+):([\d.]+)(?::(\d+))?", text)
        if match is None or match[1] not in DIALS:
            raise PenstockError(
                f"--what-if {text!r}: write DIAL=FROM:TO[:POINTS], such as queries=60:600:10; "
                f"dials are {', '.join(DIALS)}"
            )
        low, high, count = float(match[2]), float(match[3]), int(match[4] or 8)
        if not 0 < low < high or count < 2:
            raise PenstockError(f"--what-if {text!r}: FROM is above 0 and below TO, POINTS above 1")
        points = [low + (high - low) * i / (count - 1) for i in range(count)]
        if DIALS[match[1]].whole:
            points = [float(p) for p in sorted({round(point) for point in points})]
        return cls(match[1], tuple(points))


@dataclass(frozen=True)
class SweepPoint:
    at: float
    mean_sic: float
    jain: float
    utilisation: float


@dataclass(frozen=True)
class Answer:
    question: Question
    points: tuple[SweepPoint, ...]
    """All points in order of the dial, those found by halving too."""
    at_least: float | None
    limit: float | None
    """The most queries (or the highest rate, the fewest sites, the least capacity) at which the
    mean SIC is still reached; None where no point reaches it."""

    @property
    def everywhere(self) -> bool:
        """The whole sweep reaches what is asked for: its end is not the answer."""
        return self.at_least is not None and all(p.mean_sic >= self.at_least for p in self.points)

    def advantages(self) -> list[tuple[float, float]]:
        """Thesis, section 6.4: by how much more the cost of a query falls than its quality.

        With a fixed infrastructure a query costs ``1 / N``. From the first point on,
        ``Δcost = 1 - N₀ / N`` and ``Δquality = 1 - SIC / SIC₀``; while the former is larger,
        more queries pay. (Equation 6.5 prints it the other way round; the text has it so.)
        """
        base = self.points[0]
        return [
            (p.at, (1 - base.at / p.at) - (1 - p.mean_sic / max(base.mean_sic, 1e-12)))
            for p in self.points
        ]

    def best(self) -> tuple[float, float]:
        """Where a query's cost is furthest ahead of its quality, and by how much."""
        return max(self.advantages(), key=lambda pair: pair[1])

    def tipping_point(self) -> float | None:
        """The first number of queries, past the best one, at which more of them do not pay."""
        best, _ = self.best()
        return next(
            (at for at, pays in self.advantages() if at > best and pays < LEAST_ADVANTAGE), None
        )

    def json(self) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "dial": self.question.dial,
            "points": [
                {
                    self.question.dial: p.at,
                    "mean_sic": p.mean_sic,
                    "jain": p.jain,
                    "utilisation": p.utilisation,
                }
                for p in self.points
            ],
        }
        if self.at_least is not None:
            answer |= {
                "at_least": self.at_least,
                "limit": self.limit,
                "everywhere": self.everywhere,
            }
        if self.question.dial == "queries":
            answer["advantage"] = [{"queries": at, "gain": pays} for at, pays in self.advantages()]
            answer["tipping_point"] = self.tipping_point()
        return answer


Say = Callable[[str, float], None]


def ask(scenario: Scenario, question: Question, at_least: float | None, say: Say) -> Answer:
    """Runs the sweep, and halves where a least mean SIC is asked for."""
    dial, found = DIALS[question.dial], dict[float, SweepPoint]()
    extra = HALVINGS if at_least is not None else 0

    def run(at: float) -> SweepPoint:
        done = len(found) / (len(question.points) + extra)
        say(f"{question.dial} {at:g}", done)
        outcome = Simulation(dial.turn(scenario, at)).run()
        spread = outcome.spread
        found[at] = SweepPoint(at, spread.mean, spread.jain, float(outcome.utilisation.mean()))
        return found[at]

    for at in question.points:
        run(at)
    limit = None if at_least is None else _limit(dial, found, at_least, run)
    return Answer(question, tuple(found[at] for at in sorted(found)), at_least, limit)


def _limit(
    dial: Dial, found: dict[float, SweepPoint], at_least: float, run: Callable[[float], SweepPoint]
) -> float | None:
    good = [at for at, point in found.items() if point.mean_sic >= at_least]
    bad = [at for at, point in found.items() if point.mean_sic < at_least]
    if not good:
        return None
    edge = min(good) if dial.more_is_better else max(good)
    beyond = [at for at in bad if (at < edge) == dial.more_is_better]
    if not beyond:
        return edge
    other = max(beyond) if dial.more_is_better else min(beyond)
    for _ in range(HALVINGS):
        middle = (edge + other) / 2
        middle = float(round(middle)) if dial.whole else middle
        if middle in (edge, other):
            break
        if run(middle).mean_sic >= at_least:
            edge = middle
        else:
            other = middle
    return edge

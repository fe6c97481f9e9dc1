"""Describes the scenario of a simulation, a YAML file, with every default in one place."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from penstock.core.types import Floats, Ints
from penstock.documents import MisplacedError, read, validate
from penstock.errors import PenstockError
from penstock.policy import get
from penstock.sim.query_graph import KINDS
from penstock.units import seconds

AVG_PATH = KINDS["avg"].path
"""The operators that a tuple passes which costs one."""
Seconds = Annotated[float, BeforeValidator(seconds)]
Span = Annotated[float, BeforeValidator(seconds), Field(gt=0)]


class Part(BaseModel):
    """Is a mapping of the file; a key that it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Sites(Part):
    count: int = Field(gt=0, le=10_000)
    capacity: Annotated[float, Field(gt=0)] | list[Annotated[float, Field(gt=0)]]
    """Tuples a second; one number for all, or one for each."""
    latency: Seconds = 0.005
    """The latency between any two sites."""

    @model_validator(mode="after")
    def _one_for_each(self) -> "Sites":
        if isinstance(self.capacity, list) and len(self.capacity) != self.count:
            raise MisplacedError(
                ("capacity",), f"{len(self.capacity)} capacities for {self.count} sites"
            )
        return self

    def capacities(self) -> list[float]:
        if isinstance(self.capacity, list):
            return self.capacity
        return [self.capacity] * self.count


def _range(value: Any) -> Any:
    """Reads ``3`` and ``1-6``, as people write them."""
    if isinstance(value, tuple):
        return value
    match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", str(value))
    if match is None:
        raise ValueError(f"{value!r} is not a number such as 3 or a range such as 1-6")
    low, high = int(match[1]), int(match[2] or match[1])
    if not 1 <= low <= high:
        raise ValueError(f"{value!r} is not a range: it begins with 1 or more and does not fall")
    return low, high


def _kind(value: Any) -> Any:
    if not isinstance(value, str) or value not in KINDS:
        raise ValueError(f"{value!r} is not a kind: there are {', '.join(KINDS)}")
    return value


class QueryGroup(Part):
    """Asks for some queries of a kind; each draws its number of fragments from the range."""

    kind: Annotated[str, BeforeValidator(_kind)]
    count: int = Field(gt=0, le=1_000_000)
    fragments: Annotated[tuple[int, int], BeforeValidator(_range)] = (1, 1)
    start: Seconds = Field(0.0, alias="from")
    until: Seconds | None = None
    weight: float = Field(1.0, gt=0)

    @model_validator(mode="after")
    def _possible(self) -> "QueryGroup":
        if self.fragments[1] > 1 and not KINDS[self.kind].divisible:
            raise MisplacedError(
                ("fragments",), f"a query of kind {self.kind!r} has one source and one fragment"
            )
        if self.until is not None and self.until <= self.start:
            raise MisplacedError(("until",), "comes after 'from'")
        return self


class Burst(Part):
    """Has a source send so many times as much in a share of its time.

    With ``keep_mean`` the rate of the scenario is the mean over both, so that bursts move load
    but do not add any; without, it is the rate between bursts, and the load rises.
    """

    share: float = Field(gt=0, lt=1)
    factor: float = Field(gt=1)
    length: Span = 1.0
    """How long a burst lasts on average."""
    keep_mean: bool = True


class Change(Part):
    at: Seconds
    factor: float = Field(ge=0)


class Sources(Part):
    rate: float = Field(150.0, gt=0)
    """Tuples a second of each source."""
    batches: float = Field(3.0, gt=0)
    """How many batches a source sends in a second."""
    burst: Burst | None = None
    profile: list[Change] = []
    """From a time on, all rates are multiplied by a factor."""


class Failure(Part):
    site: int | None = Field(None, ge=0)
    coordinator: str | None = None
    """The id of a query; ``all`` for every coordinator."""
    at: Seconds
    lasts: Span = Field(alias="for")

    @model_validator(mode="after")
    def _of_something(self) -> "Failure":
        if (self.site is None) == (self.coordinator is None):
            raise ValueError("a failure names either a site or a coordinator")
        return self


class Costs(Part):
    """Says what work costs a site, where a tuple that passes the operators of AVG costs one.

    A tuple costs by the operators that it passes. So does a partial result, which passes one more
    where it is sent.
    """

    by_kind: bool = True
    """Whether a tuple costs by its query's operators; without, all tuples cost the same."""
    message: float = Field(0.0, ge=0)
    """What a partial result costs its sender, and again its receiver, besides operators."""
    fragment: float = Field(0.0, ge=0)
    """What a fragment costs its site a second, whatever arrives."""

    def of_path(self, path: Ints) -> Floats:
        """Returns the cost of a tuple that passes so many operators."""
        return path / AVG_PATH if self.by_kind else np.ones(path.size)


Placement = Literal["zipf", "uniform", "round-robin", "by-load"]


def _policy(value: Any) -> Any:
    if value not in ("random", "as-published"):
        try:
            get(str(value))
        except PenstockError as error:
            raise ValueError(str(error)) from None
    return value


class Scenario(Part):
    seed: int = Field(0, ge=0)
    duration: Span = 300.0
    interval: Span = 0.25
    stw: Span = 10.0
    warm_up: Seconds | None = None
    """How long the run is not measured; by default two STWs, or half of a short run."""
    policy: Annotated[str, BeforeValidator(_policy)] = "balance-sic"
    update_sic: bool = True
    """Whether coordinators tell sites how their queries fare."""
    sites: Sites
    queries: list[QueryGroup] = Field(min_length=1)
    placement: Placement = "uniform"
    sources: Sources = Field(default_factory=lambda: Sources.model_validate({}))
    costs: Costs = Field(default_factory=lambda: Costs.model_validate({}))
    headroom: float = Field(0.9, gt=0, le=1)
    """The share of an interval that a site plans with."""
    knows: Literal["rows", "strata"] = "rows"
    """What a site knows of the tuples that wait: how many there are, as a site on Spark knows by a
    source's offsets, or also how many there are of each stratum."""
    failures: list[Failure] = []

    @model_validator(mode="after")
    def _fits(self) -> "Scenario":
        if self.stw < 2 * self.interval:
            raise MisplacedError(("stw",), "the STW covers at least two intervals")
        if self.duration < 2 * self.stw:
            raise MisplacedError(("duration",), "a run lasts for at least two STWs")
        if self.unmeasured >= self.duration:
            raise MisplacedError(("warm_up",), "nothing is left of the run to be measured")
        burst = self.sources.burst
        if burst is not None and burst.length < self.interval * burst.share / (1 - burst.share):
            raise MisplacedError(
                ("sources", "burst", "length"),
                f"spells of {burst.length:g} s cannot fill a share of {burst.share:g}: a pause "
                f"lasts for an interval, {self.interval:g} s, at least; make them longer",
            )
        for number, failure in enumerate(self.failures):
            if failure.site is not None and failure.site >= self.sites.count:
                raise MisplacedError(
                    ("failures", number, "site"),
                    f"there is no site {failure.site}: they are numbered from 0 to "
                    f"{self.sites.count - 1}",
                )
        return self

    @property
    def unmeasured(self) -> float:
        return min(2 * self.stw, self.duration / 2) if self.warm_up is None else self.warm_up

    @property
    def steps(self) -> int:
        return round(self.duration / self.interval)

    def changed(self, **values: Any) -> "Scenario":
        """Makes the same scenario with some values replaced, and checks it again."""
        return Scenario.model_validate({**self.model_dump(by_alias=True), **values})


def load(path: Path) -> Scenario:
    """Reads a scenario from a file; an error says file, line, key and remedy."""
    return validate(read(path), Scenario)

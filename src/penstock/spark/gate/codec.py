"""Translates plans into a gate's terms, and what the gate counted into the controller's.

On the way out, rates by stratum become thresholds by ordinal in a table. On the way back, Spark
reports how often it saw each place of the table, and the names of strata that the table lacked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.types import Bools, Count, Floats, Plan, Strata, Stratum, Tally
from penstock.spark.elsewhere import rate_of_new_class
from penstock.spark.gate.arrival_metrics import ArrivalSample, arrivals_of
from penstock.spark.gate.keys import SEPARATOR, Keys
from penstock.spark.gate.strata import KnownStrata
from penstock.spark.gate.window_metrics import VALUES_PER_BATCH, newest, values_of
from penstock.spark.gate.wire import Shipment, thresholds
from penstock.windows.concept import Concept

PLANS_REMEMBERED = 8
"""Plans whose rates are kept for the batches that report late."""
FIRST_BATCH_TUPLES = 100_000
"""What a first batch is taken to admit; a site may begin with millions of tuples that wait."""


@dataclass(frozen=True)
class GateReport:
    """Says what one gate did in a batch, as far as its counts could be read."""

    arrived: int
    admitted: int
    counts: Mapping[Stratum, Count]
    """By stratum; tuples that were not told apart are under the gate's ``others``."""
    span: float | None = None
    """Seconds between the first tuple and the last, where that was timed."""
    event_time: float | None = None
    """Of the newest tuple, where a window goes by it."""
    values: Mapping[Stratum, list[float]] = field(default_factory=dict)
    """A sample of the values that a window's means are made of."""
    rates: Mapping[Stratum, float] = field(default_factory=dict)
    """Of the groups of a window that the batch thinned."""
    arrivals: ArrivalSample | None = None
    """When its admitted tuples arrived, where the stream tells."""


class PlanCodec:
    """Translates for one gate between the controller and Spark."""

    def __init__(
        self,
        keys: Keys,
        strata: KnownStrata,
        concept: Concept | None = None,
        of_fragment: bool = False,
    ) -> None:
        self._keys, self._strata, self._concept = keys, strata, concept
        self._of_fragment = of_fragment
        """Whether the SIC of tuples is handed on to other sites, which need it as it is."""
        self._rates: dict[int, dict[Stratum, float]] = {}
        """By version of a plan: the rates of the groups that it thinned."""
        self._admitted = FIRST_BATCH_TUPLES if concept is None else 1
        """In the last batch. A window's first values are wanted, however many there are."""
        if keys.only is not None:
            strata.meet(keys.only, 0)

    # --- out ------------------------------------------------------------------------------------

    def encode(self, plan: Plan, *, counting: bool) -> Shipment:
        """Returns the plan in this gate's terms; with ``counting``, an open gate counts strata."""
        self._strata.make_room(plan.strata)
        strata = self._listed(plan.strata)
        table = self._strata.list(plan.version, strata)
        known = plan.strata.places(strata)
        default = self._default(plan)
        rates = np.append(plan.rates, default)[known]
        worth, default_worth = self._worth(plan)
        sic = np.append(worth, default_worth)[known]
        if self._concept is not None:
            self._rates[plan.version] = dict(zip(strata, rates.tolist(), strict=True))
            self._rates = dict(list(self._rates.items())[-PLANS_REMEMBERED:])
        unknown = float(sic[0]) if self._keys.same_value and sic.size else default_worth
        look = min(1.0, VALUES_PER_BATCH / max(self._admitted, 1))
        return Shipment(
            version=plan.version,
            open=plan.open and not counting and self._concept is None,
            table=table,
            thresholds=thresholds(np.append(default, rates), self._whole(plan, strata, default)),
            sic=np.append(unknown, sic),
            look=int(thresholds(np.array([look]))[0]),
        )

    def _default(self, plan: Plan) -> float:
        """Returns the rate of a stratum that the plan does not list."""
        query = self._keys.others.query
        is_link = self._of_fragment and not self._keys.same_value
        return rate_of_new_class(plan, query) if is_link else plan.default_of(query)

    def sheds(self, plan: Plan) -> bool:
        """Says whether tuples of this gate may be shed under a plan.

        A stratum that nobody has seen yet is admitted at the default rate, which is below 1
        wherever another one is.
        """
        only = self._keys.only
        return not plan.open if only is None else plan.rate(only) < 1.0

    def _worth(self, plan: Plan) -> tuple[Floats, float]:
        """Returns what a tuple of each planned stratum is stamped with, and one of any other."""
        if self._of_fragment:
            return plan.sic, plan.default_sic
        return plan.beside_others(), 1.0

    def _whole(self, plan: Plan, strata: Strata, default: float) -> Bools:
        """Says by ordinal whether the plan sheds nothing of a stratum's query.

        A group that is new is admitted at the default rate; a stream of one stratum has none.
        """
        if plan.open or (default < 1.0 and self._keys.only is None):
            return np.full(len(strata) + 1, plan.open)
        thinned, mine = plan.thinned, self._keys.query
        unknown = mine not in thinned if isinstance(mine, str) else not thinned
        return np.array([unknown, *(stratum.query not in thinned for stratum in strata)])

    def _listed(self, planned: Strata) -> Strata:
        """Returns the strata that go into the table.

        These are all that the gate knows; of a window's groups, those that are planned.
        """
        known = self._strata.fingerprints
        if self._concept is None or self._keys.only:
            return Strata(known)
        return Strata(stratum for stratum in planned if stratum in known)

    # --- back -----------------------------------------------------------------------------------

    def decode(self, metrics: Mapping[str, Any]) -> GateReport:
        """Reads what Spark observed at the gate, and registers strata that are new.

        Raises KeyError where the plan of the batch is forgotten.
        """
        arrived, admitted = int(metrics["arrived"]), int(metrics["admitted"])
        self._admitted = admitted
        span, concept = metrics.get("span"), self._concept
        asked_for_values = concept is not None and concept.value is not None
        return GateReport(
            arrived=arrived,
            admitted=admitted,
            counts=self._columns(metrics, arrived) or self._counts(metrics, arrived, admitted),
            span=None if span is None else float(span) / 1000,
            event_time=None if concept is None else newest(metrics),
            values=values_of(metrics, self._strata.by_fingerprint()) if asked_for_values else {},
            rates={} if concept is None else self._rates.get(metrics["version"] or 0, {}),
            arrivals=arrivals_of(metrics, admitted),
        )

    def _columns(self, metrics: Mapping[str, Any], arrived: int) -> Tally | None:
        """Returns counts in columns, where the table had a stratum for every tuple.

        With thousands of strata that is many times as fast as one by one.
        """
        if self._keys.only or self._concept is not None:
            return None
        tally = self._numbered(metrics)
        return tally if tally is not None and int(tally.arrived.sum()) == arrived else None

    def _counts(
        self, metrics: Mapping[str, Any], arrived: int, admitted: int
    ) -> dict[Stratum, Count]:
        if self._keys.only:
            return {self._keys.only: Count(arrived, admitted)} if arrived else {}
        numbered = self._numbered(metrics)
        counted = {s: c for s, c in numbered.items() if c.arrived} if numbered else {}
        for text, seen in _pairs(metrics.get("names")):
            was_admitted, fingerprint, *name = text.split(SEPARATOR, 4)
            stratum = Stratum(*name)
            self._strata.meet(stratum, _signed(int(fingerprint, 16)))
            if self._concept is None or stratum in self._strata.fingerprints:
                before = counted.get(stratum, Count(0, 0))
                counted[stratum] = Count(
                    before.arrived + seen, before.admitted + seen * int(was_admitted)
                )
        rest = Count(
            arrived - sum(count.arrived for count in counted.values()),
            admitted - sum(count.admitted for count in counted.values()),
        )
        if rest.arrived > 0:
            counted[self._keys.others] = rest
        return counted

    def _numbered(self, metrics: Mapping[str, Any]) -> Tally | None:
        """Counts strata of the table, whose place and decision come back as one number."""
        pairs = _pairs(metrics.get("numbers"))
        if not pairs:
            return None
        table, strata = self._strata.listed(int(metrics["version"]))
        numbers, seen = np.array(pairs, dtype=np.int64).T
        ordinals = table.ordinals[numbers // 2] - 1
        arrived, admitted = (
            np.bincount(ordinals, counted, len(strata)).astype(np.float64)
            for counted in (seen, seen * (numbers % 2))
        )
        return Tally(strata, arrived, admitted)


def _signed(unsigned: int) -> int:
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned


def _pairs(text: str | None) -> list[tuple[Any, int]]:
    """Reads what was counted; that is nothing in a batch in which the gate was idle."""
    if text is None:
        return []
    return [(item, int(seen)) for item, seen in json.loads(text) if item is not None]

"""The gate: admits or sheds each tuple of a streaming DataFrame by the plan in force.

Native expressions only; no Python runs for a row. It knows strata, rates and hashes, and no
policy. A tuple is admitted if a hash of its identity lies below its stratum's threshold, so a
retry decides alike on any executor (law 8). Admitted tuples carry ``_weight`` (one over the
rate) and ``_sic``; what is shed never reaches the parser.

Everything is counted in one ``observe`` in front of the filter, which also keeps Spark from
pushing the filter down and evaluating the look-up twice.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.core.types import OTHER_GROUPS, Count, Plan, Strata, Stratum, Tally
from penstock.spark.gate.keys import SEPARATOR, Keys
from penstock.spark.gate.table import Table
from penstock.spark.gate.window_metrics import (
    MOST_VALUES,
    clock_metric,
    look,
    newest,
    values_metric,
    values_of,
)
from penstock.spark.gate.wire import ALWAYS, Shipment, Wire, thresholds
from penstock.windows.concept import Concept

Value = TypeVar("Value")
WEIGHT, SIC = "_weight", "_sic"


@dataclass
class Gate:
    """One gated stream: what goes into Spark's plan, and what comes back from it."""

    name: str
    keys: Keys
    most_strata: int
    concept: Concept | None = None
    """Where strata are groups of a window: only those that are thinned are in the table."""
    fingerprints: dict[Stratum, int] = field(default_factory=dict)
    """Strata that tuples were seen of, in the order of their ordinals."""
    _shipped: dict[int, tuple[Table, Strata]] = field(default_factory=dict)
    """By version of a plan: the table, and the strata by ordinal, for counts that come back."""
    _rates: dict[int, dict[Stratum, float]] = field(default_factory=dict)
    """By version: the rates of groups that were thinned."""
    _admitted: int = 0
    """In the last batch."""

    def admit(self, stream: DataFrame, wire: Wire) -> DataFrame:
        """The stream with what is shed left out, and the rest stamped.

        Where the gate is idle nothing refers to what was looked up and decided, and the optimizer
        takes all of that out: what is left is a counter.
        """
        columns = [sf.col(f"`{name}`") for name in stream.columns]
        looked_up = self._only(stream, wire) if self.keys.only else self._look_up(stream, wire)
        lucky = self.keys.luck() <= sf.col("_threshold")
        decided = looked_up.select(
            "*", ((sf.col("_threshold") == ALWAYS) | lucky).alias("_admitted")
        )
        counted = decided.select(
            *columns,
            "_place",
            "_threshold",
            "_admitted",
            wire.clock().alias("_passed"),
            *self._countable(),
            *self._seen(wire),
        ).observe(self.name, *self._metrics(wire))
        idle = self._idle(wire)
        return counted.where(idle | sf.col("_admitted")).select(
            *columns,
            sf.when(idle | (sf.col("_threshold") == ALWAYS), sf.lit(1.0))
            .otherwise(sf.lit(2.0**63) / (sf.col("_threshold").cast("double") + 1))
            .alias(WEIGHT),
            sf.get(wire.plan("sic"), sf.when(idle, _nowhere()).otherwise(sf.col("_place"))).alias(
                SIC
            ),
        )

    def _idle(self, wire: Wire) -> Column:
        """It stands open, and need not know a tuple's stratum to stamp it."""
        return wire.is_open if self.keys.same_value else sf.lit(False)

    def _only(self, stream: DataFrame, wire: Wire) -> DataFrame:
        return stream.select(
            "*",
            sf.lit(ONLY_PLACE).alias("_place"),
            sf.get(wire.plan("thresholds"), sf.lit(ONLY_PLACE)).alias("_threshold"),
        )

    def _look_up(self, stream: DataFrame, wire: Wire) -> DataFrame:
        """One ``select`` a step: Spark keeps them apart, and evaluates each once."""
        key, mask, keys = sf.col("_fingerprint"), wire.plan("mask"), wire.plan("keys")
        place_1 = (key.bitwiseAND(mask) + 1).cast("int")
        place_2 = (sf.shiftrightunsigned(key, 32).bitwiseAND(mask) + 1).cast("int")
        return (
            stream.select("*", self.keys.fingerprint().alias("_fingerprint"))
            .select(
                "*",
                sf.when(sf.get(keys, place_1) == key, place_1)
                .when(sf.get(keys, place_2) == key, place_2)
                .otherwise(sf.lit(0))
                .alias("_place"),
            )
            .select("*", sf.get(wire.plan("thresholds"), sf.col("_place")).alias("_threshold"))
        )

    def _countable(self) -> list[Column]:
        """What is counted a stratum: known ones by number, others by name."""
        if self.keys.only:
            return []
        known = sf.col("_place") > 0
        admitted = sf.col("_admitted").cast("int")
        number = sf.when(known, (sf.col("_place") * 2 + admitted).cast("bigint"))
        name = sf.when(
            ~known,
            self.keys.name(admitted.cast("string"), sf.hex(sf.col("_fingerprint"))),
        )
        return [number.alias("_number"), name.alias("_name")]

    def _seen(self, wire: Wire) -> list[Column]:
        """What a window wants to know beyond counts: the time, and some values."""
        if self.concept is None:
            return []
        key = sf.lit(0).cast("bigint") if self.keys.only else sf.col("_fingerprint")
        lucky = sf.col("_admitted") & (
            self.keys.luck(other=1) <= sf.get(wire.plan("look"), sf.lit(0))
        )
        return look(self.concept, key, lucky)

    def _metrics(self, wire: Wire) -> list[Column]:
        arrived = sf.count(sf.lit(1))
        metrics = [
            wire.version().alias("version"),
            arrived.alias("arrived"),
            sf.when(self._idle(wire), arrived)
            .otherwise(sf.count_if("_admitted"))
            .alias("admitted"),
            sf.when(
                wire.plan("timed") & ~self._idle(wire), sf.max("_passed") - sf.min("_passed")
            ).alias("span"),
        ]
        if self.concept is not None:
            metrics.append(clock_metric(self.concept))
            if self.concept.value is not None:
                metrics.append(values_metric())
        if self.keys.only:
            return metrics
        return [
            *metrics,
            self._tally("_number", "bigint", wire).alias("numbers"),
            self._tally("_name", "string", wire).alias("names"),
        ]

    def _tally(self, column: str, kind: str, wire: Wire) -> Column:
        """Its values, each with how often it was seen, as a text of pairs: Spark takes tens of
        milliseconds to write thousands of structs into a progress report. Where the gate is idle
        the optimizer leaves nothing of this but a null.
        """
        most = 2 * self.most_strata + 2  # exact while fewer than three quarters are in use
        top = sf.call_function("approx_top_k", sf.col(column), sf.lit(most), sf.lit(2 * most))
        pairs = sf.transform(top, lambda e: sf.array(e["item"], e["count"].cast(kind)))
        return sf.when(~self._idle(wire), sf.to_json(pairs))

    def shipment(self, plan: Plan, counting: bool) -> Shipment:
        """The plan in this gate's terms; ``counting`` keeps an open gate from looking away."""
        if self.keys.only:
            self.fingerprints.setdefault(self.keys.only, 0)
        if len(self.fingerprints) >= self.most_strata:
            self._forget_all_but(plan.strata)
        strata = self._listed(plan.strata)
        table = self._table_of(strata)
        self._remember(plan.version, table, strata)
        known = plan.strata.places(strata)
        default = plan.default_of(self.keys.rest.query)
        rates = np.append(plan.rates, default)[known]
        sic = np.append(plan.sic, plan.default_sic)[known]
        if self.concept is not None:
            self._rates[plan.version] = dict(zip(strata, rates.tolist(), strict=True))
            self._rates = dict(list(self._rates.items())[-PLANS_REMEMBERED:])
        unknown = float(sic[0]) if self.keys.same_value and sic.size else plan.default_sic
        return Shipment(
            version=plan.version,
            open=plan.open and not counting and self.concept is None,
            timed=plan.open,
            table=table,
            thresholds=table.by_place(thresholds(np.append(default, rates))),
            sic=table.by_place(np.append(unknown, sic)),
            look=int(thresholds(np.array([min(1.0, MOST_VALUES / max(self._admitted, 1))]))[0]),
        )

    def _listed(self, planned: Strata) -> Strata:
        """The strata of the table, by ordinal: all that are known, or those that are thinned."""
        if self.concept is None or self.keys.only:
            return Strata(self.fingerprints)
        return Strata(stratum for stratum in planned if stratum in self.fingerprints)

    def shipped(self, version: int) -> dict[Stratum, int]:
        """The table that went with a plan, for the record."""
        return {s: self.fingerprints[s] for s in self._shipped[version][1]}

    def _table_of(self, strata: Strata) -> Table:
        """The last one, unless there are new strata."""
        if self._shipped:
            table, known = next(reversed(self._shipped.values()))
            if known == strata:
                return table
        keys = (self.fingerprints[stratum] for stratum in strata)
        return Table.of(np.fromiter(keys, dtype=np.int64, count=len(strata)))

    def recall(self, shipment: Shipment, fingerprints: Mapping[Stratum, int]) -> None:
        """What it knew when a plan was shipped, before the driver was started again."""
        self.fingerprints = dict(fingerprints)
        self._remember(shipment.version, shipment.table, Strata(fingerprints))

    def _remember(self, version: int, table: Table, strata: Strata) -> None:
        self._shipped.pop(version, None)
        self._shipped[version] = (table, strata)
        while len(self._shipped) > PLANS_REMEMBERED:
            del self._shipped[next(iter(self._shipped))]

    def _forget_all_but(self, alive: Strata) -> None:
        """Makes room for new strata when old ones have vanished from the account."""
        kept = {s: f for s, f in self.fingerprints.items() if s in alive}
        if len(kept) < len(self.fingerprints):
            self.fingerprints = kept

    def tally(self, metrics: Mapping[str, Any]) -> Tally | None:
        """What was observed, in columns, where the table had a stratum for every tuple: with
        thousands of strata that is many times as fast as ``counts``, which answers else.
        """
        if self.keys.only or self.concept is not None:
            return None
        tally = self._numbered(metrics)
        if tally is None or int(tally.arrived.sum()) != int(metrics["arrived"]):
            return None
        self._admitted = int(metrics["admitted"])
        return tally

    def counts(self, metrics: Mapping[str, Any]) -> dict[Stratum, Count]:
        """What was observed, by stratum; in a batch that was not counted, by what is not known.

        Strata that are seen for the first time get a number here.
        """
        arrived, admitted = int(metrics["arrived"]), int(metrics["admitted"])
        self._admitted = admitted
        if self.keys.only:
            return {self.keys.only: Count(arrived, admitted)} if arrived else {}
        numbered = self._numbered(metrics)
        counted = {s: c for s, c in numbered.items() if c.arrived} if numbered else {}
        for text, seen in _pairs(metrics.get("names")):
            kept, fingerprint, *name = text.split(SEPARATOR, 4)
            stratum = Stratum(*name)
            self._meet(stratum, int(fingerprint, 16))
            if self.concept is None or stratum in self.fingerprints:
                before = counted.get(stratum, Count(0, 0))
                counted[stratum] = Count(before.arrived + seen, before.admitted + seen * int(kept))
        rest = Count(
            arrived - sum(count.arrived for count in counted.values()),
            admitted - sum(count.admitted for count in counted.values()),
        )
        if rest.arrived > 0:
            others = self.keys.rest._replace(group=OTHER_GROUPS)
            counted[REST if self.concept is None else others] = rest
        return counted

    def _numbered(self, metrics: Mapping[str, Any]) -> Tally | None:
        """Of strata that were in the table: place and decision come back as one number."""
        pairs = _pairs(metrics.get("numbers"))
        if not pairs:
            return None
        table, strata = self._shipped[int(metrics["version"])]
        numbers, seen = np.array(pairs, dtype=np.int64).T
        ordinals = table.ordinals[numbers // 2] - 1
        arrived, admitted = (
            np.bincount(ordinals, counted, len(strata)).astype(np.float64)
            for counted in (seen, seen * (numbers % 2))
        )
        return Tally(strata, arrived, admitted)

    def by_stratum(self, values: Mapping[int, Value]) -> dict[Stratum, Value]:
        """What is known by fingerprint, by the strata that it knows."""
        return {s: values[f] for s, f in self.fingerprints.items() if f in values}

    def clock(self, metrics: Mapping[str, Any]) -> float | None:
        """The event time of the newest tuple, where a window goes by it."""
        return None if self.concept is None else newest(metrics)

    def span(self, metrics: Mapping[str, Any]) -> float | None:
        """Seconds between a batch's first tuple and its last, where that was timed."""
        span = metrics.get("span")
        return None if span is None else float(span) / 1000

    def rates(self, metrics: Mapping[str, Any]) -> dict[Stratum, float]:
        """Of the groups that a batch thinned."""
        if self.concept is None or int(metrics["version"]) not in self._rates:
            return {}
        return self._rates[int(metrics["version"])]

    def values(self, metrics: Mapping[str, Any]) -> dict[Stratum, list[float]]:
        """A sample of the values that a window's means are made of."""
        if self.concept is None or self.concept.value is None:
            return {}
        return values_of(metrics, {key: stratum for stratum, key in self.fingerprints.items()})

    def _meet(self, stratum: Stratum, unsigned: int) -> None:
        if stratum not in self.fingerprints and len(self.fingerprints) < self.most_strata:
            self.fingerprints[stratum] = unsigned - 2**64 if unsigned >= 2**63 else unsigned


PLANS_REMEMBERED = 8
ONLY_PLACE = 1
"""Where a gate with a single stratum, whose fingerprint is 0, finds it without looking."""

REST = Stratum("", "")
"""Tuples that arrived while nobody counted by stratum, or that were one stratum too many."""


def _nowhere() -> Column:
    """Place 0, in words that the optimizer does not see through: a constant place would make a
    tuple's SIC a constant in the generated code, to be compiled anew whenever it changes.
    """
    return sf.spark_partition_id() * 0


def _pairs(text: str | None) -> list[tuple[Any, int]]:
    """What was counted; nothing in a batch that the gate was idle in."""
    if text is None:
        return []
    return [(item, int(seen)) for item, seen in json.loads(text) if item is not None]

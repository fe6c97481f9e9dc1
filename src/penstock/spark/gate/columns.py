"""Admits or sheds each tuple of a streaming DataFrame by the plan in force.

The gate is made of native expressions, so that no Python runs for a row. It knows strata, rates and
hashes, and no policy. It admits a tuple if a hash of the tuple's identity lies below the threshold
of its stratum, so that a retry decides alike on any executor (law 8). Admitted tuples carry
``_weight`` (one over the rate) and ``_sic``: their worth beside the query's other tuples, or, in
a fragment of a federated query, their SIC. A tuple that is shed never reaches the parser. A tuple
that was sure to be admitted while others of its query were not has a weight just above 1: so the
result that it goes into knows that something may be missing, also where all the others are gone.

One ``observe`` in front of the filter counts everything. It also keeps Spark from pushing the
filter down and evaluating the look-up twice.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.core.declared import DeclaredSources
from penstock.estimates import JUST_ABOVE_ONE
from penstock.spark.gate import arrival_metrics
from penstock.spark.gate.codec import PlanCodec
from penstock.spark.gate.keys import Keys
from penstock.spark.gate.strata import KnownStrata
from penstock.spark.gate.window_metrics import clock_metric, look, values_metric
from penstock.spark.gate.wire import ALWAYS, SURE, Wire, nowhere
from penstock.windows.concept import Concept

WEIGHT, SIC = "_weight", "_sic"
ONLY_PLACE = 1
"""Where a gate with a single stratum, whose fingerprint is 0, finds it without looking."""


class Gate:
    """Gates one stream: has its columns in Spark's plan, its strata, and its wire to the site."""

    def __init__(
        self,
        name: str,
        keys: Keys,
        most_strata: int,
        concept: Concept | None = None,
        arrival: Column | None = None,
        declared: DeclaredSources | None = None,
        of_fragment: bool = False,
    ) -> None:
        self.name, self.keys, self.concept, self.arrival = name, keys, concept, arrival
        self.declared = declared or DeclaredSources()
        self.of_fragment = of_fragment
        """Whether its query has other fragments, at this site or elsewhere."""
        self.strata = KnownStrata(most_strata)
        self.codec = PlanCodec(keys, self.strata, concept, of_fragment)
        self.wire = Wire(name)

    def admit(self, stream: DataFrame) -> DataFrame:
        """Returns the stream without the tuples that the gate sheds, and stamps the others.

        Where the gate is idle nothing refers to what was looked up and decided, and the optimizer
        takes all of that out: what is left is a counter.
        """
        columns = [sf.col(f"`{name}`") for name in stream.columns]
        counted = (
            self.decide(stream)
            .select(
                *columns,
                "_place",
                "_threshold",
                "_admitted",
                self.wire.passing().alias("_passed"),
                *self._countable(),
                *self._seen(),
                *self._sampled(),
            )
            .observe(self.name, *self._metrics())
        )
        place = sf.when(self._idle, nowhere()).otherwise(sf.col("_place"))
        one_over_rate = sf.lit(2.0**63) / (sf.col("_threshold").cast("double") + 1)
        return counted.where(self._passes).select(
            *columns,
            sf.when(self._idle | (sf.col("_threshold") == ALWAYS), sf.lit(1.0))
            .otherwise(sf.greatest(one_over_rate, sf.lit(JUST_ABOVE_ONE)))
            .alias(WEIGHT),
            sf.get(self.wire.sic, place).alias(SIC),
        )

    def decide(self, stream: DataFrame) -> DataFrame:
        """Adds each tuple's place in the table, the threshold there, and whether it is admitted."""
        looked_up = self._only(stream) if self.keys.only else self.look_up(stream)
        drawn = self.keys.draw() <= sf.col("_threshold")
        return looked_up.select("*", ((sf.col("_threshold") >= SURE) | drawn).alias("_admitted"))

    @property
    def _idle(self) -> Column:
        """Says whether the gate is open and need not know a tuple's stratum to stamp it."""
        return self.wire.is_open if self.keys.same_value else sf.lit(False)

    @property
    def _passes(self) -> Column:
        """Says whether a tuple is admitted; no decision is looked at where the gate is idle."""
        return self._idle | sf.col("_admitted")

    def _only(self, stream: DataFrame) -> DataFrame:
        """Adds place and threshold; at a constant place it would be a constant, see `nowhere`."""
        place = sf.lit(ONLY_PLACE) + nowhere()
        threshold = sf.get(self.wire.thresholds, place)
        return stream.select("*", place.alias("_place"), threshold.alias("_threshold"))

    def look_up(self, stream: DataFrame) -> DataFrame:
        """Adds each tuple's place in the table, and the threshold there.

        One ``select`` a step: Spark keeps them apart, and evaluates each once.
        """
        key, mask, keys = sf.col("_fingerprint"), self.wire.mask, self.wire.keys
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
            .select("*", sf.get(self.wire.thresholds, sf.col("_place")).alias("_threshold"))
        )

    def _countable(self) -> list[Column]:
        """Returns what the gate counts by stratum: numbers of known strata, names of others."""
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

    def _seen(self) -> list[Column]:
        """Returns what a window wants to know beyond counts: the time, and some values."""
        if self.concept is None:
            return []
        key = sf.lit(0).cast("bigint") if self.keys.only else sf.col("_fingerprint")
        chosen = sf.col("_admitted") & (self.keys.draw(other=1) <= self.wire.look)
        return look(self.concept, key, chosen)

    def _sampled(self) -> list[Column]:
        """Returns the arrivals of some admitted tuples, where the stream tells arrivals."""
        if self.arrival is None:
            return []
        return [arrival_metrics.sampled(self.arrival, self.wire.looks() & self._passes)]

    def _metrics(self) -> list[Column]:
        arrived = sf.count(sf.lit(1))
        span = sf.max("_passed") - sf.min("_passed")
        metrics = [
            self.wire.version().alias("version"),
            arrived.alias("arrived"),
            sf.when(self._idle, arrived).otherwise(sf.count_if("_admitted")).alias("admitted"),
            sf.when(~self._idle, span).alias("span"),
        ]
        if self.arrival is not None:
            metrics += arrival_metrics.metrics(self.arrival, self._passes)
        if self.concept is not None:
            metrics.append(clock_metric(self.concept))
            if self.concept.value is not None:
                metrics.append(values_metric())
        if self.keys.only:
            return metrics
        return [
            *metrics,
            self._tally("_number", "bigint").alias("numbers"),
            self._tally("_name", "string").alias("names"),
        ]

    def _tally(self, column: str, kind: str) -> Column:
        """Counts how often each value of a column comes, as a text of pairs.

        Spark takes tens of milliseconds to write thousands of structs into a progress report. Where
        the gate is idle the optimizer leaves nothing of this but a null.
        """
        most = 2 * self.strata.most + 2  # exact while fewer than three quarters are in use
        top = sf.call_function("approx_top_k", sf.col(column), sf.lit(most), sf.lit(2 * most))
        pairs = sf.transform(top, lambda e: sf.array(e["item"], e["count"].cast(kind)))
        return sf.when(~self._idle, sf.to_json(pairs))

"""Runs the fragments of a split query over tables, batch by batch, without streams or gates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.federation.fragment_plan import (
    DERIVED_MARKS,
    PlannedFragment,
    SplitQuery,
    view_of,
)
from penstock.federation.messages import LentSource
from penstock.federation.query_file import ROOT
from penstock.jobs.results import answer
from penstock.sql.relations import MARKS
from penstock.sql.rewrite import BOUND_SUFFIXES

BATCHES = 3
Gate = Callable[[DataFrame], DataFrame]


def nothing_shed(rows: DataFrame) -> DataFrame:
    """Passes all rows of a link, as a gate without overload does."""
    return rows.withColumn("_weight", sf.lit(1.0)).withColumn("_sic", sf.lit(0.0))


def on_a_link(rows: DataFrame) -> DataFrame:
    """Computes what is sent, as a link does; a plan of all that came before would grow and grow."""
    return rows.localCheckpoint()


@dataclass
class BatchRun:
    """Runs fragments in order; ``tuples`` has a source's tuples, with their marks, by full name."""

    spark: SparkSession
    split: SplitQuery
    catalog: Mapping[str, LentSource]
    tuples: Mapping[str, DataFrame]
    gate: Gate = nothing_shed
    batches: int = BATCHES
    sent: dict[str, list[DataFrame]] = field(default_factory=dict)
    """For each fragment what it sends, batch by batch."""

    def result(self) -> DataFrame:
        """Returns the result as users see it."""
        root = self._run_senders()
        assert root.rewritten is not None
        self._link_views(root)
        return answer(self.spark, root.rewritten, self._plain(root).schema)

    def rows(self) -> DataFrame:
        """Returns the rows of the result with their marks, hidden ones included."""
        root = self._run_senders()
        self._link_views(root)
        return self._marked(root)

    def carried(self) -> float:
        """Returns the SIC of all rows that leaves have sent."""
        leaves = [f.name for f in self.split.fragments if f.sources]
        rows = reduce(DataFrame.union, (r.select("_carried") for f in leaves for r in self.sent[f]))
        return float(rows.agg(sf.sum("_carried")).collect()[0][0])

    def _run_senders(self) -> PlannedFragment:
        *senders, root = self.split.fragments
        assert root.name == ROOT
        for fragment in senders:
            if fragment.by_batch:
                batches = [self._batch(fragment, b) for b in range(self.batches)]
            else:
                self._source_views(fragment)
                self._link_views(fragment)
                batches = [self._derived(fragment)]
            self.sent[fragment.name] = [on_a_link(rows) for rows in batches]
        self._source_views(root)
        return root

    def _batch(self, fragment: PlannedFragment, batch: int) -> DataFrame:
        view = f"{fragment.name}:{batch}"
        if fragment.sources:
            names = [f"{fragment.site}.{source}" for source in fragment.sources]
            whole = [self.tuples[name] for name in names]
            parts = [rows.where(f"pmod(hash(*), {self.batches}) = {batch}") for rows in whole]
        else:
            senders = [name for names in fragment.inputs.values() for name in names]
            parts = [self.gate(self._to(name, fragment.name, batch)) for name in senders]
        reduce(DataFrame.unionByName, parts).createOrReplaceTempView(f"`{view}`")
        return self.spark.sql(fragment.batch_query(view))

    def _to(self, sender: str, receiver: str, batch: int) -> DataFrame:
        rows, routes = self.sent[sender][batch], self.split.fragment(sender).routes
        if routes is None:
            return rows
        return rows.where(f"{routes} = {self.split.receivers(sender).index(receiver)}")

    def _source_views(self, fragment: PlannedFragment) -> None:
        for source in fragment.sources:
            view = view_of(self.split.query, fragment.name, source)
            rows = self.tuples[f"{fragment.site}.{source}"]
            rows.createOrReplaceTempView(f"`{view}`")

    def _link_views(self, fragment: PlannedFragment) -> None:
        for relation, senders in fragment.inputs.items():
            parts = [
                self._to(sender, fragment.name, batch)
                for sender in senders
                for batch in range(len(self.sent[sender]))
            ]
            rows = self.gate(reduce(DataFrame.unionByName, parts))
            view = view_of(self.split.query, fragment.name, relation)
            rows.createOrReplaceTempView(f"`{view}`")

    def _marked(self, fragment: PlannedFragment) -> DataFrame:
        query = fragment.rewritten
        assert query is not None
        names = self._plain(fragment).columns
        shown = zip(query.columns, names, strict=False)
        ends = [name + end for column, name in shown if column.bounds for end in BOUND_SUFFIXES]
        atoms = [f"atom {number}" for number in range(query.atoms)]
        return self.spark.sql(query.sql).toDF(*atoms, *names, *ends, *MARKS).drop(*atoms)

    def _derived(self, fragment: PlannedFragment) -> DataFrame:
        return self._marked(fragment).withColumnsRenamed(DERIVED_MARKS)

    def _plain(self, fragment: PlannedFragment) -> DataFrame:
        """Runs the plain query over empty views, for its columns."""
        assert fragment.rewritten is not None
        for name, lent in self.catalog.items():
            self._empty(name, lent.columns)
        for sender, sent in self.sent.items():
            bare = sent[0].drop(*DERIVED_MARKS.values())
            bare.limit(0).createOrReplaceTempView(f"`{sender}`")
        return self.spark.sql(fragment.rewritten.plain)

    def _empty(self, name: str, columns: str) -> None:
        self.spark.createDataFrame([], columns).createOrReplaceTempView(f"`{name}`")

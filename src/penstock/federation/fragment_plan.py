"""Describes the fragments that a federated query is cut into: what each reads, runs and sends.

Fragments are of two sorts.

**By batch** (``partial``, ``relay`` and ``forward``): ``batch_sql`` runs on each micro-batch alone
and keeps no state; what it gives is written to the link as it is. ``batch_query(view)`` is the
text with the name of the view that holds the batch.

- ``partial`` reads ``sources``, all of its site, behind their gates: the columns of the source,
  ``_weight`` and ``_sic``. Where there are several, the view is their ``UNION ALL``; their columns
  are the same. It gives *partial rows*.
- ``relay`` reads partial rows behind the gate of its link, and gives partial rows.
- ``forward`` reads one source behind its gate, and gives *derived rows*.

**With state** (``merge`` and ``written``): ``rewritten`` runs as any query of a site does, by
``penstock.jobs.results.answer`` over its views. The view of a source or of a relation of ``inputs``
has the name ``view_of(query, fragment, relation)``. A view of a link has the link's columns, and
``_weight`` (at least 1) and ``_sic`` as its gate stamps them; its watermark is on the ``time`` of
the senders. The gate should take ``_carried`` for the SIC of a row; what it stamps as ``_sic`` is
not read. The root's rows go to the sink; those of another fragment, such
as a copy, go to its link as derived rows.

**Partial rows** have ``_time`` (the latest event time of their tuples), ``_key_0`` ... (values that
tuples are grouped by), ``_part_0`` ... (the aggregates), ``_between_0`` ... (sums of products that
intervals need behind a relay), ``_carried`` (the SIC of the tuples) and ``_carried_missing`` (an
estimate of the SIC that was shed of them).

**Derived rows** have the columns of a source or a result (intervals after them), then
``_sent_weight``, ``_carried``, ``_carried_missing`` and ``_shown``. A fragment with state sends its
marks ``_weight``, ``_sic``, ``_missing`` and ``_shown`` under these names (``DERIVED_MARKS``), rows
with ``_shown`` false too: they carry SIC, and whoever reads them counts it and no more.

``rewritten.plain`` is the query over views without marks: a source is called ``site.source``, one
name in backquotes, in split queries as in written ones; another fragment by its name. Its schema,
which ``answer`` needs, comes from empty views: ``spark.createDataFrame([], columns)`` with the
columns of the catalog, or those of a link (without the names of ``DERIVED_MARKS``), then
``createOrReplaceTempView("`site.source`")`` and ``spark.sql(rewritten.plain).schema``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.errors import PenstockError
from penstock.federation.ids import fragment_id as fragment_id
from penstock.hints import hint
from penstock.sql import Rewritten
from penstock.sql.relations import MISSING, SHOWN, SIC, WEIGHT

Kind = Literal["partial", "relay", "merge", "forward", "written"]
BATCH_KINDS: tuple[Kind, ...] = ("partial", "relay", "forward")
BATCH = "{batch}"
"""Stands in ``batch_sql`` for the name of the view that holds a micro-batch."""
LINKS = "links"
"""The usual name of the relation through which a fragment reads others."""

TIME, SENT_WEIGHT = "_time", "_sent_weight"
CARRIED, CARRIED_MISSING = "_carried", "_carried_missing"
DERIVED_MARKS = {WEIGHT: SENT_WEIGHT, SIC: CARRIED, MISSING: CARRIED_MISSING, SHOWN: SHOWN}
"""The marks of a row, and what they are called on a link, in this order."""


@dataclass(frozen=True)
class PlannedFragment:
    """Is one fragment of a query; the module says what each kind expects and gives."""

    name: str
    site: str
    """Where it has to run, or ``any``."""
    kind: Kind
    sources: tuple[str, ...] = ()
    """The sources that it reads, by the names that they have at its site."""
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each relation the fragments that send to it; they share one link."""
    batch_sql: str | None = None
    rewritten: Rewritten | None = None
    time: str | None = None
    """The column of the rows it sends that is their event time; None for the first timestamp."""
    routes: str | None = None
    """SQL over the rows it sends: the place, from 0, in ``receivers`` of the one that gets a row.

    None sends every row to all receivers.
    """

    @property
    def by_batch(self) -> bool:
        """Whether it runs ``batch_sql`` on each batch, and keeps no state."""
        return self.kind in BATCH_KINDS

    def batch_query(self, view: str) -> str:
        """Returns ``batch_sql`` over a view of this name."""
        if self.batch_sql is None:
            raise PenstockError(f"the fragment {self.name!r} does not run by batch")
        return self.batch_sql.replace(f"`{BATCH}`", f"`{view}`")


@dataclass(frozen=True)
class SplitQuery:
    """Holds the fragments of a query; those that send come before those that receive."""

    query: str
    fragments: tuple[PlannedFragment, ...]
    declared: int
    """How many sources the query has: |S| (THEMIS, equation 1)."""
    unsplit: str | None = None
    """Why tuples are forwarded to the root, where the query could not be split."""

    def fragment(self, name: str) -> PlannedFragment:
        """Returns the fragment of this name."""
        for fragment in self.fragments:
            if fragment.name == name:
                return fragment
        names = [fragment.name for fragment in self.fragments]
        raise PenstockError(f"unknown fragment {name!r} of {self.query!r}; {hint(name, names)}")

    def receivers(self, name: str) -> tuple[str, ...]:
        """Returns the fragments that read this one, in the order that ``routes`` counts."""
        return tuple(
            fragment.name
            for fragment in self.fragments
            if any(name in senders for senders in fragment.inputs.values())
        )

    def time_of(self, fragment: str, relation: str) -> str | None:
        """Returns the column that is the event time of a relation; None as in ``time``."""
        senders = self.fragment(fragment).inputs[relation]
        return self.fragment(senders[0]).time


def view_of(query: str, fragment: str, relation: str) -> str:
    """Names the view through which a fragment with state reads a source or a link."""
    return f"{fragment}@{query}:{relation}"

"""Several results of one query: Spark queries behind the same gate, with one SIC together.

The thesis' queries may have a fan-out (its assumption A9): what a source sent is shared by the
results that it goes into. So the controller sees the stream of every further result as a source of
its own of the query. Sources of a query count alike, and the query's SIC is the mean over its
results: a user with nine of them is worth as much as a user with one.

A gate itself knows nothing of it. Its counts and its plans have the names that the user gave; they
are translated on the way.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from penstock.core.declared import NOT_TOLD_APART, DeclaredSources
from penstock.core.types import Batch, Plan, Strata, Stratum, Tally

V = TypeVar("V")


@dataclass(frozen=True)
class ResultNames:
    """Translates the sources of one result; ``result`` is empty for the first of a gate."""

    result: str = ""

    @property
    def _mark(self) -> str:
        return f" for {self.result}"

    def stratum(self, stratum: Stratum) -> Stratum:
        """Returns how the site calls a stratum of the gate."""
        if stratum.source == NOT_TOLD_APART:
            return stratum
        return stratum._replace(source=stratum.source + self._mark)

    def batch(self, batch: Batch) -> Batch:
        """Returns the batch as the site counts it."""
        if not self.result:
            return batch
        return replace(
            batch,
            counts=self._renamed(dict(batch.counts.items())),
            values=self._renamed(dict(batch.values)),
            rates=self._renamed(dict(batch.rates)),
            costs=self._renamed(dict(batch.costs)),
        )

    def tally(self, tally: Tally) -> Tally:
        """Returns counts as the site has them."""
        if not self.result:
            return tally
        return replace(tally, strata=Strata(self.stratum(each) for each in tally.strata))

    def declared(self, sources: DeclaredSources) -> DeclaredSources:
        """Returns the sources that this result declares."""
        if not self.result:
            return sources
        return replace(sources, names=frozenset(name + self._mark for name in sources.names))

    def plan(self, plan: Plan) -> Plan:
        """Returns the plan in the gate's names, with nothing of other results."""
        if not self.result:
            return plan
        mine = [n for n, each in enumerate(plan.strata) if each.source.endswith(self._mark)]
        places = np.array(mine, dtype=np.int64)
        short = (plan.strata[n] for n in mine)
        return replace(
            plan,
            strata=Strata(s._replace(source=s.source.removesuffix(self._mark)) for s in short),
            rates=plan.rates[places],
            sic=plan.sic[places],
        )

    def _renamed(self, by_stratum: dict[Stratum, V]) -> dict[Stratum, V]:
        return {self.stratum(stratum): value for stratum, value in by_stratum.items()}

"""Keeps each query's SIC at its gates and at its result, for people to read.

The gate's account has what gates admitted, the result's what of that was not lost behind them (see
``losses``). Both add up strata by source, which is all that a query's SIC depends on, so that they
cost the same for any number of groups.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from penstock.core.account import Account
from penstock.core.declared import Declared
from penstock.core.settings import Settings
from penstock.core.types import Count, Strata, Stratum, Tally
from penstock.spark.elsewhere import Elsewhere
from penstock.spark.query import SparkQuery


class SicAccounts:
    """Books every batch twice: as its gates admitted it, and as it reached the result."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self._elsewhere = elsewhere
        self._gate: Account | None = None
        self._result: Account | None = None
        self._heard_of: set[str] = set()
        """Queries of which tuples have come."""

    def record(
        self, now: float, gated: Mapping[Stratum, Count], reached: Tally, settings: Settings
    ) -> None:
        """Books a batch at a time: when it began, since it is made of what came before that.

        If it were booked when it is told, a source that falls silent would show only an STW and the
        time of two batches later. One that took half of an STW is booked later, to be there at all.
        """
        gate = self._gate or Account(settings.interval, settings.stw_seconds)
        result = self._result or gate
        self._gate = gate.as_of(now).record(now, _by_source(Tally.of(gated)))
        self._result = result.as_of(now).record(now, _by_source(reached))
        self._heard_of |= set(self._gate.began)

    def at_gates(self, now: float, declared: Declared) -> dict[str, float]:
        """Returns each query's SIC over the STW that ends now, as its gates admitted it."""
        return {} if self._gate is None else self._sic_of(self._gate, now, declared)

    def at_results(self, now: float, declared: Declared) -> dict[str, float]:
        """Returns the same at the result, of the queries of which tuples came in the STW."""
        return {} if self._result is None else self._sic_of(self._result, now, declared)

    def _sic_of(self, account: Account, now: float, declared: Declared) -> dict[str, float]:
        """Returns what this site gives each query; what other sites gave only passes here."""
        return account.as_of(now).slide(now).sic(self._elsewhere.own_shares(account), declared)

    def silent(self, streams: Iterable[SparkQuery]) -> dict[str, float]:
        """Returns 0 for each query that could have lost all of its sources.

        If nothing of it came in the STW, it has. Of one whose batch is still running, nobody knows.
        """
        return dict.fromkeys(self._heard_of.intersection(_waiting_for_sources(streams)), 0.0)


def _waiting_for_sources(streams: Iterable[SparkQuery]) -> list[str]:
    """Returns the queries that run, declare a source, and have no batch under way."""
    idle = [s for s in streams if s.runs and s.planned <= s.last_batch]
    declaring = [gate for stream in idle for gate in stream.gates if len(gate.declared)]
    return [query for gate in declaring if (query := gate.keys.others.query)]


def _by_source(tally: Tally) -> Tally:
    grouping = tally.strata.grouping
    sources = len(grouping.sources)
    return Tally(
        Strata(Stratum(*source) for source in grouping.sources),
        np.bincount(grouping.source, tally.arrived, sources).astype(np.float64),
        np.bincount(grouping.source, tally.admitted, sources).astype(np.float64),
    )

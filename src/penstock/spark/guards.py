"""Keeps the guards of a site, and passes on what they tell its controller."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.types import Batch, Count, Stratum
from penstock.errors import PenstockError
from penstock.guard.admission import Function
from penstock.guard.plan_server import PlanServer
from penstock.guard.task import MakeAdmission
from penstock.spark import arguments, guard_arguments
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.strata import Value
from penstock.spark.guard_driver import Guard, GuardNews
from penstock.spark.guarded_stream import OnError, guarded_stream
from penstock.spark.site_engine import SiteEngine

_guard_numbers = count()


class Guards:
    """Keeps all guards of one site, and starts their plan server with the first of them."""

    def __init__(self, engine: SiteEngine) -> None:
        self._engine = engine
        self._spark = engine.spark
        self._server: PlanServer | None = None
        self._guards: list[tuple[Guard, tuple[Gate, ...]]] = []
        self._closed = False
        self._costs: dict[Guard, dict[Stratum, float]] = {}
        """The seconds that each guard last told for a tuple of each stratum that still comes."""

    def add(
        self,
        stream: DataFrame,
        function: Function,
        gates: Sequence[Gate],
        *,
        key: str | Column | Sequence[str | Column],
        wait: float | str,
        output: str = "result double",
        arrival: str | Column | None = None,
        inputs: Sequence[str] = (),
        on_error: OnError = "fail",
        make: MakeAdmission | None = None,
    ) -> DataFrame:
        """Guards a stream, as ``Site.guard`` does.

        ``gates`` are those that the stream went through. ``make`` makes other admissions than the
        usual one, to compare.
        """
        if self._closed:
            raise PenstockError("this site was stopped: make another one, and guard with that")
        columns = guard_arguments.guardable(stream, function, inputs, on_error)
        if self._server is None:
            address = guard_arguments.driver_address(self._spark)
            self._server = PlanServer(*address, guard_arguments.port(self._spark))
        guard = Guard(
            self._spark,
            f"penstock_guard_{next(_guard_numbers)}",
            arguments.duration("wait", wait),
            arguments.cores(self._spark),
            getattr(function, "__name__", type(function).__name__),
        )
        if arrival is not None:
            arrival = arguments.arrival_column(stream, arrival, columns)
        answered = guarded_stream(
            guard,
            self._server,
            stream,
            function,
            arguments.some_columns("key", key, columns),
            output=output,
            arrival=arrival,
            # behind two gates, a fingerprint does not say which gate's stratum it is
            stratum=gates[0].keys.fingerprint_in(stream) if len(gates) == 1 else None,
            inputs=inputs,
            on_error=on_error,
            make=make,
        )
        self._guards.append((guard, tuple(gates)))
        return answered

    def run_on(self, cores: int) -> None:
        """Says to all guards how many tasks can run at once."""
        for guard, _ in self._guards:
            guard.most_tasks = max(cores, 1)

    def __iter__(self) -> Any:
        return iter([guard for guard, _ in self._guards])

    def costs_of(self, guard: Guard) -> dict[Stratum, float]:
        """Returns the seconds that a tuple of each stratum took a guard, as far as it has told."""
        return dict(self._costs.get(guard, {}))

    def of(self, thing: DataFrame | StreamingQuery) -> list[Guard]:
        """Returns the guards behind a gate that a query goes through.

        Another query of the same gate may have others.
        """
        if not self._guards:
            return []
        names = self._engine.names_in(thing)
        return [guard for guard, gates in self._guards if gates and guard.name in names]

    def corrected(self, batch: Batch, guards: Collection[Guard]) -> Batch:
        """Returns the batch with what the guards of its query have learnt since the last call.

        A tuple that a guard sheds was admitted by the gate and carries nothing: it does not count
        as admitted.
        """
        mine = [(guard, behind) for guard, behind in self._guards if guard in guards]
        if not mine:
            return batch
        counts, told = dict(batch.counts.items()), set[Stratum]()
        for guard, behind in mine:
            news = guard.take_news()
            fresh = _known(behind, news.costs)
            told |= fresh.keys()
            known = {s: c for s, c in self._costs.get(guard, {}).items() if s in counts}
            self._costs[guard] = {**known, **fresh}
            if news.gone:
                _take_off(counts, news, behind)
        # a tuple costs what all guards on its way take, also those that let none of it pass now
        costs = {s: sum(self._costs[guard].get(s, 0.0) for guard, _ in mine) for s in told}
        return replace(batch, costs=costs, counts=counts)

    def close(self) -> None:
        """Closes the plan server; no guard can be added afterwards."""
        self._closed = True
        if self._server is not None:
            self._server.close()
            self._server = None


def _known(gates: Sequence[Gate], values: Mapping[int, Value]) -> dict[Stratum, Value]:
    """Returns values by stratum; none behind two gates, where fingerprints are ambiguous."""
    return gates[0].strata.by_stratum(values) if len(gates) == 1 else {}


def _take_off(counts: dict[Stratum, Count], news: GuardNews, behind: Sequence[Gate]) -> None:
    """Takes off each stratum's count the share that its tuples lost at the guard.

    It is a share, since rows may have become more or fewer between gate and guard. A stratum of
    which no tuple came by its name, since its columns are gone or were changed, bears the share of
    all tuples.
    """
    seen, lost = _known(behind, news.seen), _known(behind, news.lost)
    owed = 0.0  # parts of tuples, so that many small strata lose as much as one large
    for stratum, have in counts.items():
        if not any(gate.keys.may_be(stratum) for gate in behind):
            continue
        came, gone = seen.get(stratum, 0), lost.get(stratum, 0)
        share = gone / came if came else news.gone / news.arrived
        owed += have.admitted * share
        off = min(round(owed), have.admitted)
        owed -= off
        counts[stratum] = Count(have.arrived, have.admitted - off)

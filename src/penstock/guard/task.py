"""The executors' half of a guard: what happens in one task, beside the user's function."""

import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from pyspark.accumulators import Accumulator

from penstock.core.types import Floats, Ints
from penstock.errors import PenstockError
from penstock.guard import arrow_values
from penstock.guard.admission import Admission, Costs, Function, GuardPlan, TaskReport, complaint
from penstock.guard.plan_server import PlanClient
from penstock.guard.sketch import Sketch

KEY, ARRIVED, STRATUM = "_penstock_key", "_penstock_arrived", "_penstock_stratum"
_NUMBERS = struct.Struct("<Qddd")
MakeAdmission = Callable[[Function, GuardPlan, Callable[[], float]], Admission]
Told = tuple[int, TaskReport]
"""What a task tells when it ends, with the ticket that it got when it began."""


def encoded(ticket: int, orders: GuardPlan) -> bytes:
    head = _NUMBERS.pack(ticket, orders.threshold, orders.limit, orders.trial)
    return head + bytes(orders.sketch)


def decoded(data: bytes) -> tuple[int, GuardPlan]:
    sketch = Sketch.from_bytes(data[_NUMBERS.size :])
    ticket, threshold, limit, trial = _NUMBERS.unpack_from(data)
    return ticket, GuardPlan(threshold, limit, sketch, trial)


@dataclass(frozen=True)
class Task:
    """One call a partition of a micro-batch."""

    function: Function
    address: PlanClient
    told: Accumulator[list[Told]]
    columns: tuple[str, ...]
    """What comes out, besides the result."""
    inputs: tuple[str, ...]
    """What the function gets, as a dictionary."""
    output: Any
    """The field of the result, as Arrow has it."""
    arrival: bool
    strata: bool
    skip_errors: bool
    make: MakeAdmission | None = None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """A task without rows neither asks nor tells."""
        began, epoch = time.perf_counter(), time.time()
        admission: Admission | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if admission is None:
                ticket, orders = decoded(self.address.fetch())
                admission = self._admission(orders)
            yield self._answered(batch, admission, self._arrived(batch, began, epoch))
        if admission is not None:
            self.told.add([(ticket, admission.tally)])

    def _arrived(self, batch: Any, began: float, epoch: float) -> Floats:
        """When the tuples began to wait, in the time of the admission's clock."""
        arrived = np.full(batch.num_rows, began)
        if self.arrival:
            moments = batch.column(ARRIVED).to_numpy(zero_copy_only=False) - (epoch - began)
            np.copyto(arrived, moments, where=~np.isnan(moments))
        return arrived

    def _answered(self, batch: Any, admission: Admission, arrived: Floats) -> Any:
        strata = batch.column(STRATUM).to_numpy(zero_copy_only=False) if self.strata else None
        keys = batch.column(KEY).to_numpy(zero_copy_only=False).view(np.uint64)
        places, results = admission.admit(
            partial(_rows, batch.select(list(self.inputs))), keys, arrived, strata
        )
        try:
            answers = self._column(results)
        except Exception as error:  # whatever an answer makes Arrow, or its own methods, raise
            if not self.skip_errors:
                raise self._complaint(error) from None
            fits = np.array([self._fits(result) for result in results])
            admission.take_back(np.array(places)[~fits], strata, complaint(error))
            places = np.array(places)[fits].tolist()
            answers = self._column([r for r, fit in zip(results, fits, strict=True) if fit])
        return self._joined(batch, places, answers)

    def _admission(self, orders: GuardPlan) -> Admission:
        if self.make is not None:
            return self.make(self.function, orders, time.perf_counter)
        return Admission(self.function, orders, time.perf_counter, self.skip_errors)

    def _column(self, results: list[Any]) -> Any:
        arrow: Any = import_module("pyarrow")
        column = arrow.array(results, self.output.type)
        if arrow_values.is_lossy(column.type):
            for result, kept in zip(results, column.to_pylist(), strict=True):
                if not arrow_values.survives(result, kept):
                    raise ValueError(f"{result!r} would become {kept!r}")
        return column

    def _fits(self, result: Any) -> bool:
        try:
            self._column([result])
        except Exception:
            return False
        return True

    def _complaint(self, error: Exception) -> PenstockError:
        return PenstockError(
            f"guard: an answer of the function is no {self.output.type} for the column "
            f"{self.output.name!r}; mend the function, or say output=...: {error}"
        )

    def _joined(self, batch: Any, places: list[int], answers: Any) -> Any:
        arrow: Any = import_module("pyarrow")
        kept = batch.select(list(self.columns))
        if len(places) < batch.num_rows:
            kept = kept.take(arrow.array(places, arrow.int64()))
        schema = kept.schema.append(self.output)
        return arrow.RecordBatch.from_arrays([*kept.columns, answers], schema=schema)


def _rows(batch: Any, places: Ints) -> list[Any]:
    """What the function gets, made for these rows alone."""
    first, size = int(places[0]), places.size
    if int(places[-1]) - first + 1 == size:
        part = batch.slice(first, size)
    else:
        part = batch.take(import_module("pyarrow").array(places))
    rows: list[Any] = part.to_pylist()
    return rows


def with_costs(costs: Costs) -> MakeAdmission:
    """Doormen who are told what keys cost, and learn nothing; for comparisons."""

    def make(function: Function, orders: GuardPlan, clock: Callable[[], float]) -> Admission:
        return Admission(function, orders, clock, costs=costs)

    return make

"""The executors' half of a guard: what happens in one task, beside the user's function.

A Python worker loads this module, and what it imports, before it runs a guarded task. None of it
may load pandas, ``penstock.spark`` or, before the first row, PyArrow.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pyspark import TaskContext
from pyspark.accumulators import Accumulator

from penstock import arrow
from penstock.core.types import Floats, Ints
from penstock.errors import PenstockError
from penstock.guard import arrow_values
from penstock.guard.admission import Admission, Costs, Function
from penstock.guard.guard_plan import GuardPlan, decode_plan
from penstock.guard.plan_server import PlanClient
from penstock.guard.report_queue import Reports
from penstock.guard.task_report import error_line

KEY, ARRIVED, STRATUM = "_penstock_key", "_penstock_arrived", "_penstock_stratum"
"""The columns that a guard adds to the rows on their way to a task, and that it takes off again."""
MakeAdmission = Callable[[Function, GuardPlan, Callable[[], float]], Admission]


@dataclass(frozen=True)
class Task:
    """What Spark calls once for each partition of a micro-batch."""

    function: Function
    plans: PlanClient
    reports: Accumulator[Reports]
    columns: tuple[str, ...]
    """The columns that come out, besides the result."""
    inputs: tuple[str, ...]
    """The columns that the function gets, as a dictionary."""
    output: Any
    """The field of the result, as Arrow has it."""
    arrival: bool
    """Whether the rows have the column ``ARRIVED``."""
    strata: bool
    """Whether the rows have the column ``STRATUM``."""
    skip_errors: bool
    make: MakeAdmission | None = None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yields the admitted rows with their results.

        A task without rows neither fetches a plan nor reports.
        """
        began, epoch = time.perf_counter(), time.time()
        admission: Admission | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if admission is None:
                ticket, plan = decode_plan(self.plans.fetch())
                admission = self._admission(plan)
            yield self._answered(batch, admission, self._arrived(batch, began, epoch))
        if admission is not None:
            context = TaskContext.get()
            if context is not None:
                admission.report.part = context.stageId(), context.partitionId()
                admission.report.attempt = context.taskAttemptId()
            self.reports.add(Reports([(ticket, admission.report)]))

    def _arrived(self, batch: Any, began: float, epoch: float) -> Floats:
        """Returns when the tuples began to wait, in the time of the admission's clock."""
        arrived = np.full(batch.num_rows, began)
        if self.arrival:
            column = batch.column(ARRIVED)
            moments = arrow_values.numbers_in(column) - (epoch - began)
            known = arrow_values.valid_in(column) & ~np.isnan(moments)
            np.copyto(arrived, moments, where=known)
        return arrived

    def _answered(self, batch: Any, admission: Admission, arrived: Floats) -> Any:
        """Returns the admitted rows of a batch with what the function answered."""
        strata = arrow_values.numbers_in(batch.column(STRATUM)) if self.strata else None
        keys = arrow_values.numbers_in(batch.column(KEY)).view(np.uint64)
        places, results = admission.admit(
            partial(_rows, batch.select(list(self.inputs))), keys, arrived, strata
        )
        try:
            answers = self._column(results)
        except Exception as error:  # whatever an answer makes Arrow, or its own methods, raise
            if not self.skip_errors:
                raise self._misfit(error) from None
            fits = np.array([self._fits(result) for result in results])
            admission.take_back(np.array(places)[~fits], strata, error_line(error))
            places = np.array(places)[fits].tolist()
            answers = self._column([r for r, fit in zip(results, fits, strict=True) if fit])
        return self._joined(batch, places, answers)

    def _admission(self, plan: GuardPlan) -> Admission:
        if self.make is not None:
            return self.make(self.function, plan, time.perf_counter)
        return Admission(self.function, plan, time.perf_counter, self.skip_errors)

    def _column(self, results: list[Any]) -> Any:
        """Returns the results as an Arrow column; an answer that would be changed is an error."""
        column = arrow_values.column_of(results, self.output.type)
        if arrow_values.is_lossy(column.type):
            for result, stored in zip(results, column.to_pylist(), strict=True):
                if not arrow_values.survives(result, stored):
                    raise ValueError(f"{result!r} would become {stored!r}")
        return column

    def _fits(self, result: Any) -> bool:
        try:
            self._column([result])
        except Exception:
            return False
        return True

    def _misfit(self, error: Exception) -> PenstockError:
        return PenstockError(
            f"the function's answer must be of type {self.output.type} for the column "
            f"{self.output.name!r}; change the function, or give guard(output=...) another type: "
            f"{error}"
        )

    def _joined(self, batch: Any, places: list[int], answers: Any) -> Any:
        """Returns the rows at these places, without the guard's own columns, and the answers."""
        admitted = batch.select(list(self.columns))
        if len(places) < batch.num_rows:
            where = np.array(places, dtype=np.int64)
            admitted = admitted.take(arrow_values.column_of_numbers(where))
        schema = admitted.schema.append(self.output)
        return arrow.RecordBatch.from_arrays([*admitted.columns, answers], schema=schema)


def _rows(batch: Any, places: Ints) -> list[Any]:
    """Returns what the function gets, made for the rows at these places alone."""
    first, size = int(places[0]), places.size
    if int(places[-1]) - first + 1 == size:
        part = batch.slice(first, size)
    else:
        part = batch.take(arrow_values.column_of_numbers(places))
    rows: list[Any] = part.to_pylist()
    return rows


def with_costs(costs: Costs) -> MakeAdmission:
    """Makes admissions that know what keys cost and do not look at what was learnt, to compare."""

    def make(function: Function, plan: GuardPlan, clock: Callable[[], float]) -> Admission:
        return Admission(function, plan, clock, costs=costs)

    return make

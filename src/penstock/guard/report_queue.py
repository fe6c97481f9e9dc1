"""How the reports of tasks reach the driver: through one of Spark's accumulators.

Spark adds up the reports of tasks that have ended well. A task whose rows were lost with their
executor runs again, and reports again: its report says which part of which stage it was, so that
the guard counts the last. A thread of Spark appends to the accumulator while the driver takes
reports out. Its value is therefore a ``deque``, whose ``append`` and
``popleft`` are atomic: no report is lost and none is taken twice.
"""

from collections import deque
from collections.abc import Iterator

from pyspark.accumulators import AccumulatorParam

from penstock.guard.task_report import TaskReport

Reports = deque[tuple[int, TaskReport]]
"""Reports on their way to the driver, each with the ticket that the task got with its plan."""


class ReportQueue(AccumulatorParam[Reports]):
    """How Spark adds up the reports of tasks: it puts them into one queue."""

    def zero(self, value: Reports) -> Reports:
        del value
        return deque()

    def addInPlace(self, value1: Reports, value2: Reports) -> Reports:
        value1.extend(value2)
        return value1


def take_reports(queue: Reports) -> Iterator[tuple[int, TaskReport]]:
    """Takes reports out of the queue until it is empty; another thread may append meanwhile."""
    while True:
        try:
            yield queue.popleft()
        except IndexError:
            return

"""Reports on their way from tasks to the driver: none is lost, and none is counted twice."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterator

import pytest
from pyspark.accumulators import Accumulator

from penstock.guard.report_queue import ReportQueue, Reports, take_reports
from penstock.guard.sketch import Sketch
from penstock.guard.task_report import TaskReport

TASKS = 20_000
TASKS_A_STRETCH = 2_000
NEVER_SPARKS_OWN_ID = -14


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Python changes from thread to thread a thousand times as often as it does elsewhere."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
def test_reports_that_come_while_others_are_taken_are_counted_once() -> None:
    accumulator: Accumulator[Reports] = Accumulator(NEVER_SPARKS_OWN_ID, deque(), ReportQueue())
    report = TaskReport(Sketch(shape=(1, 1)))

    def append() -> None:
        """Adds what tasks sent, two at a time, as the thread of Spark's that listens to them.

        It begins a stretch only when some of the one before were taken, as otherwise all might
        have come before anybody looks.
        """
        for ticket in range(0, TASKS, 2):
            if ticket and ticket % TASKS_A_STRETCH == 0:
                assert some_were_taken.wait(60)
                some_were_taken.clear()
            accumulator.add(deque([(ticket, report), (ticket + 1, report)]))

    some_were_taken = threading.Event()
    thread = threading.Thread(target=append)
    taken: list[int] = []
    rounds = 0
    thread.start()
    while thread.is_alive():
        fresh = [ticket for ticket, _ in take_reports(accumulator.value)]
        taken += fresh
        rounds += bool(fresh)
        if fresh:
            some_were_taken.set()
    thread.join()
    taken += [ticket for ticket, _ in take_reports(accumulator.value)]
    assert taken == list(range(TASKS))
    assert rounds >= TASKS // TASKS_A_STRETCH - 1  # the last stretch may have come alone
    assert not accumulator.value


def test_a_worker_begins_with_an_empty_queue() -> None:
    """Else each task would send again what the driver has heard before."""
    heard: Reports = deque([(1, TaskReport(Sketch(), admitted=3))])
    begun = ReportQueue().zero(heard)
    assert not begun
    sent = ReportQueue().addInPlace(begun, deque([(2, TaskReport(Sketch(), admitted=5))]))
    assert [ticket for ticket, _ in sent] == [2]
    assert [ticket for ticket, _ in heard] == [1]

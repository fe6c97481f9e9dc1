"""The driver's half of one guard: it merges the reports of tasks and gives new tasks a plan.

A task (``penstock.guard.task``) begins with the ``GuardPlan`` in force, which it fetches from the
driver's ``PlanServer``, and ends with a ``TaskReport``, which reaches the driver through an
accumulator. Sketches are linear, so those of all partitions and batches add up. Executors may be
processes or machines of their own; they need this package and NumPy.
"""

import itertools
import random
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from penstock.guard.guard_plan import GuardPlan, encode_plan
from penstock.guard.report_queue import ReportQueue, Reports, take_reports
from penstock.guard.sketch import Sketch
from penstock.guard.task_report import TaskReport

SKETCH_ERROR = 0.01
"""The ε of a guard's sketches: they have 272 columns, which is some 9 kB for each task."""
DEAD_AFTER_ROUNDS = 8
"""A guard takes a task for dead when so many rounds of tasks have begun after it; a round is as
many tasks as can run at once."""
RECENT_SECONDS = 30.0
"""The span of time that a report calls recent."""
PARTS_REMEMBERED = 256
"""Tasks of a batch whose counts are kept, so that one that runs again does not count twice."""
NOTHING_LEARNT = Sketch()
COSTS_PER_TRIAL = 10
"""Trials take a tenth of the time at most: a guard waits for as long as so many average tuples cost
before it gives the next."""


class RecentTask(NamedTuple):
    """What a task reported, and when."""

    moment: float
    admitted: int
    shed: int
    waited: float


@dataclass
class GuardNews:
    """What tasks reported about strata, by fingerprint, and about all tuples."""

    timed: dict[int, tuple[int, float]] = field(default_factory=dict)
    """The tuples that tasks timed, and their seconds in sum."""
    seen: dict[int, int] = field(default_factory=dict)
    """The tuples that came."""
    lost: dict[int, int] = field(default_factory=dict)
    """The tuples that were shed or failed."""
    arrived: int = 0
    """The tuples that came, of whatever stratum."""
    gone: int = 0
    """The tuples that were shed or failed, of whatever stratum."""

    def count(self, report: TaskReport) -> None:
        """Adds what a task reported."""
        self._add(report, 1)
        for name, (count, seconds) in report.timed.items():
            known, before = self.timed.get(name, (0, 0.0))
            self.timed[name] = known + count, before + seconds

    def take_back(self, report: TaskReport) -> None:
        """Takes off what was counted of a task that was run again; what it learnt stays."""
        self._add(report, -1)

    def _add(self, report: TaskReport, sign: int) -> None:
        self.arrived += sign * report.arrived
        self.gone += sign * (report.shed + report.failed)
        for mine, reported in ((self.seen, report.seen), (self.lost, report.lost)):
            for name, count in reported.items():
                mine[name] = mine.get(name, 0) + sign * count

    @property
    def costs(self) -> dict[int, float]:
        """The mean seconds that a tuple of each stratum took."""
        return {name: seconds / count for name, (count, seconds) in self.timed.items()}


class Guard:
    """Merges what the tasks of one guard report, and knows the plan in force.

    ``wait`` is what tuples may wait on average, in seconds, and ``tasks`` how many tasks can run at
    once.
    """

    def __init__(
        self, spark: SparkSession, name: str, wait: float, tasks: int, function: str = ""
    ) -> None:
        self.name, self.wait, self.function = name, wait, function
        self.plan = GuardPlan(wait, sketch=Sketch(SKETCH_ERROR))
        self.reports: Accumulator[Reports] = spark.sparkContext.accumulator(deque(), ReportQueue())
        """The reports that tasks have sent and that nobody has counted yet."""
        self.most_tasks = max(tasks, 1)
        self._tickets = itertools.count()
        self._running: set[int] = set()
        """Tickets of tasks that have a plan and have not reported."""
        self._side_by_side = 0
        """The most tasks that ran side by side since none did."""
        self._last_trial = -inf
        self._lock = threading.Lock()
        self._total = TaskReport(Sketch())
        self._news = GuardNews()
        self._recent: deque[RecentTask] = deque()
        self._parts: dict[tuple[int, int], list[TaskReport]] = {}
        """What was counted in this batch by stage and partition, all of one task each."""

    def next_plan(self) -> bytes:
        """Returns the plan of a task that starts now, and counts the task as running."""
        self._count_reports()
        with self._lock:
            ticket = next(self._tickets)
            # a task that died never reports
            newest_dead = ticket - DEAD_AFTER_ROUNDS * self.most_tasks
            self._running = {other for other in self._running if other > newest_dead}
            beside = len(self._running) + 1
            self._side_by_side = max(self._side_by_side, beside) if self._running else 1
            self._running.add(ticket)
            plan = replace(self.plan, trial=self._take_trial(time.monotonic()))
            return encode_plan(ticket, plan)

    def take_news(self) -> GuardNews:
        """Returns what tasks reported since the last call, and forgets it."""
        self._count_reports()
        with self._lock:
            news, self._news = self._news, GuardNews()
            self._parts.clear()  # the batch is over, and nothing of it is run again
        return news

    def report(self) -> dict[str, Any]:
        """Returns what the guard has done so far, for the report of its site."""
        self._count_reports()
        with self._lock:
            self._forget_before(time.monotonic() - RECENT_SECONDS)
            recent, total = list(self._recent), replace(self._total)
        admitted, shed = (sum(getattr(task, n) for task in recent) for n in ("admitted", "shed"))
        return {
            "guard": self.name,
            "function": self.function,
            "arrived": total.arrived,
            "kept": total.admitted,
            "shed": total.shed,
            "failed": total.failed,
            "shed_share": total.shed / max(total.arrived, 1),
            "mean_wait_ms": 1000 * total.waited / max(total.admitted, 1),
            "mean_cost_ms": 1000 * total.busy / max(total.admitted + total.failed, 1),
            "wait_ms": 1000 * self.wait,
            "recent_wait_ms": 1000 * sum(task.waited for task in recent) / max(admitted, 1),
            "recent_shed_share": shed / max(admitted + shed, 1),
            "last_error": total.error or None,
        }

    def cost_of(self, fingerprint: int) -> float:
        """Returns the seconds that a tuple with this ``xxhash64`` of its key should take."""
        self._count_reports()
        return self.plan.sketch.cost(fingerprint % 2**64)

    def _take_trial(self, now: float) -> float:
        """Returns the trial of a task that starts now, or -1 where the last one was just before.

        Trials come once in ``wait`` at most, and more rarely where tuples take long, so that they
        do not change what tuples wait.
        """
        every = max(self.wait, COSTS_PER_TRIAL * self.plan.sketch.mean)
        if now - self._last_trial < every:
            return -1.0
        self._last_trial = now
        return random.random()

    def _count_reports(self) -> None:
        """Counts all reports that have come."""
        with self._lock:
            beside = max(min(self._side_by_side, self.most_tasks), 1)
            for ticket, report in take_reports(self.reports.value):
                self._count(report, beside)
                self._running.discard(ticket)

    def _count(self, report: TaskReport, beside: int = 1) -> None:
        """Counts the report of one task; ``beside`` tasks ran side by side."""
        self.plan = self.plan.after(report, beside)
        self._total.error = report.error or self._total.error
        for before in self._instead_of(report):
            self._add_up(before, -1)
            self._news.take_back(before)
        self._add_up(report, 1)
        self._news.count(report)
        now = time.monotonic()
        self._recent.append(RecentTask(now, report.admitted, report.shed, report.waited))
        self._forget_before(now - RECENT_SECONDS)

    def _instead_of(self, report: TaskReport) -> list[TaskReport]:
        """Returns what another task told of the same part of a stage, and remembers the report."""
        if report.part is None:
            return []
        known = self._parts.pop(report.part, [])
        again = bool(known) and known[0].attempt != report.attempt
        counted = replace(report, sketch=NOTHING_LEARNT, timed={})
        self._parts[report.part] = [counted] if again else [*known, counted]
        while len(self._parts) > PARTS_REMEMBERED:
            del self._parts[next(iter(self._parts))]
        return known if again else []

    def _add_up(self, report: TaskReport, sign: int) -> None:
        total = self._total
        total.admitted += sign * report.admitted
        total.shed += sign * report.shed
        total.failed += sign * report.failed
        total.waited += sign * report.waited
        total.busy += sign * report.busy

    def _forget_before(self, moment: float) -> None:
        """Forgets tasks that are not recent; nobody may ever ask for a report."""
        while self._recent and self._recent[0].moment < moment:
            self._recent.popleft()

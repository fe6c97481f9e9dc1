"""Settles the queries of a job file, as ``penstock settle`` asks, and says what became of it."""

import fcntl
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from rich.console import Console

from penstock.cli.command_support import check_seconds
from penstock.cli.interrupt import Interrupt
from penstock.cli.terminal import say
from penstock.errors import PenstockError
from penstock.hints import hint
from penstock.jobs.check import check as check_on_spark
from penstock.jobs.inputs import located, site_directory
from penstock.jobs.load import LoadedJob, load
from penstock.settle.past_stream import Budget, PastStream
from penstock.settle.settling import Settling
from penstock.settle.shed_sink import write_shed
from penstock.spark.session import check_java, session, workspace

LOST_EXIT_CODE = 1
"""The exit code where something cannot be settled any more."""
OUT_OF_TIME_EXIT_CODE = 3
"""The exit code where the time is over and something is left."""
MICROS = 1e6


@dataclass(frozen=True)
class SettleOptions:
    """Says what is to be settled, and where it goes; the texts are the user's."""

    queries: list[str] | None = None
    seconds: float | None = None
    since: str | None = None
    until: str | None = None
    into: str | None = None
    shed_to: str | None = None


def settle(path: Path, wanted: SettleOptions, *, as_json: bool = False) -> int:
    """Settles a job's queries and returns the exit code."""
    if wanted.seconds is not None:
        check_seconds(wanted.seconds, 60)
    since, until = _time("--from", wanted.since, -inf), _time("--to", wanted.until, inf)
    loaded = load(path)
    names = _queries(loaded, wanted.queries)
    check_java()
    interrupt = Interrupt()
    mistake: PenstockError | None = None
    with interrupt.installed():
        try:
            with (
                _alone(loaded),
                workspace("settle") as directory,
                session(directory, "settle", loaded.job.spark) as spark,
            ):
                interrupt.spark_started()
                budget = Budget(wanted.seconds or inf, interrupt.check)
                try:
                    schemas = check_on_spark(spark, loaded)
                    reports, refused = list[dict[str, Any]](), list[str]()
                    for name in names:
                        of_query = partial(settle_query, spark, loaded, schemas, name, wanted)
                        _settled(partial(of_query, budget, since, until), reports, refused)
                    if not reports:
                        mistake = PenstockError(refused[0])
                except PenstockError as error:
                    mistake = error  # told outside: it is no failure of Spark's
        except KeyboardInterrupt:
            return 128 + (interrupt.number or signal.SIGINT)
    if mistake is not None:
        raise mistake
    if as_json:
        print(json.dumps({"queries": reports, "refused": refused}, indent=1))
    else:
        console = Console()
        for report in reports:
            for line in told(report):
                say(console, line)
        for reason in refused:
            say(console, reason)
    if any(report["out_of_time"] for report in reports):
        return OUT_OF_TIME_EXIT_CODE
    return LOST_EXIT_CODE if any(report["lost"] for report in reports) else 0


def _settled(
    settle_one: Callable[[], dict[str, Any]], reports: list[dict[str, Any]], refused: list[str]
) -> None:
    """Settles a query; one that cannot be settled keeps none of the others from it."""
    try:
        reports.append(settle_one())
    except PenstockError as error:
        refused.append(str(error))


def settle_query(
    spark: SparkSession,
    loaded: LoadedJob,
    schemas: Mapping[str, StructType],
    name: str,
    wanted: SettleOptions,
    budget: Budget,
    since: float = -inf,
    until: float = inf,
) -> dict[str, Any]:
    """Settles one query, or writes what it has shed, and reports."""
    stream = PastStream(spark, loaded, name)
    if wanted.shed_to is not None:
        return write_shed(stream, f"{located(wanted.shed_to, Path())}/{name}", budget)
    into = None if wanted.into is None else f"{located(wanted.into, Path())}/{name}"
    return Settling(stream, schemas[name], budget, into=into, since=since, until=until).run()


def _queries(loaded: LoadedJob, wanted: list[str] | None) -> list[str]:
    for name in wanted or ():
        if name not in loaded.job.queries:
            raise PenstockError(f"--query: no query {name!r}; {hint(name, loaded.job.queries)}")
    return wanted or list(loaded.job.queries)


def _time(option: str, text: str | None, otherwise: float) -> float:
    """Reads a time, in microseconds since the epoch."""
    if text is None:
        return otherwise
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise PenstockError(
            f"{option} must be a time, such as 2026-03-01T08:00:00; got {text!r}"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * MICROS


@contextmanager
def _alone(loaded: LoadedJob) -> Iterator[None]:
    """Keeps two calls from settling the same windows; a killed one holds nothing back."""
    site = site_directory(loaded)
    if site is None or not site.is_dir():
        yield  # what is missing is told further on
        return
    with (site / "settle.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PenstockError(f"another penstock settle is at work on {site}") from None
        yield


def told(report: Mapping[str, Any]) -> Iterator[str]:
    """Says in words what became of a query."""
    name = report["query"]
    if "windows" in report:
        windows = report["windows"]
        left = "" if windows["left"] is None else f", {windows['left']:,} left"
        yield (
            f"{name}: {report['shed']:,} tuples were shed; of {windows['touched']:,} windows that "
            f"lack some or may, {windows['settled']:,} are settled ({windows['settled_now']:,} of "
            f"them now){left}; in {report['seconds']:.0f} s"
        )
        if windows["not_over"]:
            yield f"  {windows['not_over']:,} windows are not over yet"
        if windows["lost"]:
            yield f"  {windows['lost']:,} windows cannot be settled any more"
    else:
        yield (
            f"{name}: {report['shed']:,} tuples were shed; {report['written']:,} of them are "
            f"written ({report['written_now']:,} now); in {report['seconds']:.0f} s"
        )
    for lost in report["lost"]:
        first, last = lost["batches"]
        batches = f"batch {first}" if first == last else f"batches {first} to {last}"
        time = f"event times from {lost['since'] or '?'} to {lost['until'] or '?'}"
        yield (
            f"  LOST: {batches}, of which {lost['arrived']:,} tuples arrived and {lost['shed']:,} "
            f"were shed ({time}): {lost['why']}"
        )
    if report["out_of_time"]:
        yield "  the time is over: the next call goes on from here"
    yield f"  {report['into']}"

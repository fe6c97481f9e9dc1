"""Runs and checks job files, as ``penstock run`` and ``penstock check`` ask for."""

import json
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from penstock.cli.command_support import check_seconds, check_writable
from penstock.cli.interrupt import Interrupt
from penstock.cli.run_view import (
    RecentRates,
    RunMoment,
    RunView,
    backlog,
    held_back,
    latency,
    view,
    would_be,
)
from penstock.cli.terminal import say
from penstock.errors import PenstockError
from penstock.jobs.check import check as check_on_spark
from penstock.jobs.load import LoadedJob, load
from penstock.jobs.start import open_site, start
from penstock.metrics.listening import place
from penstock.spark.session import check_java, session, workspace
from penstock.spark.site import Site
from penstock.spark.site_page import opened
from penstock.spark.site_report import LatencyReport, QueryReport
from penstock.sql import Rewritten

POLL_SECONDS = 0.25
BATCHES_OF_LATE = 12
"""Of which the view shows the latency."""
Outcome = tuple[dict[str, Any], dict[str, str]]
"""The report, and the reasons why queries failed."""


@dataclass(frozen=True)
class WatchedFrom:
    """Says where a job may be watched from outside: ports, or addresses with ports."""

    metrics: str | None = None
    dashboard: str | None = None


QUERY_FAILED_EXIT_CODE = 1
"""The exit code where a query ended with an error."""


def check(path: Path) -> int:
    """Says what is wrong with a job; what needs no Spark it says before Spark starts."""
    loaded = load(path)
    check_java()
    mistake: PenstockError | None = None
    with workspace("check") as directory, session(directory, "check", loaded.job.spark) as spark:
        try:
            check_on_spark(spark, loaded)
        except PenstockError as error:
            mistake = error  # told outside: it is no failure of Spark's
    if mistake is not None:
        raise mistake
    console = Console()
    say(console, f"{path}: good")
    for name, query in loaded.queries.items():
        say(console, f"  {name}: {described(query)}")
    return 0


def described(query: Rewritten) -> str:
    """Says what becomes of a query's columns, and which sources it reads."""
    kinds = {"weighted": "weighted", "unscaled": "unscaled", "derived": "of estimates"}
    parts = [f"reads {', '.join(query.sources)}"]
    for kind, words in kinds.items():
        names = [column.name for column in query.columns if column.kind == kind]
        parts += [f"{words}: {', '.join(names)}"] if names else []
    bounded = [column.name for column in query.columns if column.bounds]
    return "; ".join([*parts, f"with bounds: {', '.join(bounded)}"] if bounded else parts)


def run(
    path: Path,
    seconds: float | None = None,
    report: Path | None = None,
    watched: WatchedFrom | None = None,
) -> int:
    """Runs a job until it is stopped, or for so many seconds, and returns the exit code."""
    watched = watched or WatchedFrom()
    _check_options(seconds, report, watched)
    loaded = load(path)
    check_java()
    console, interrupt = Console(), Interrupt()
    lines = any(query.sink.format == "console" for query in loaded.job.queries.values())
    seen = view(Console(force_terminal=False) if lines else console, loaded.job.site)
    with interrupt.installed():
        try:
            outcome = _performed(loaded, seconds, seen, interrupt, watched)
        except KeyboardInterrupt:  # before anything ran
            return 128 + (interrupt.number or signal.SIGINT)
    if isinstance(outcome, PenstockError):
        raise outcome
    told, failures = outcome
    if report is not None:
        report.write_text(json.dumps(told, indent=2) + "\n")
    _sum_up(console, told)
    for name, reason in failures.items():
        say(console, f"the query {name} failed: {reason}")
    if failures:
        return QUERY_FAILED_EXIT_CODE
    return 128 + interrupt.number if interrupt.number else 0


def _check_options(seconds: float | None, report: Path | None, watched: WatchedFrom) -> None:
    if seconds is not None:
        check_seconds(seconds, 30)
    check_writable("--report", report)
    if watched.metrics is not None:
        place(watched.metrics)
    if watched.dashboard is not None:
        place(watched.dashboard, "dashboard")


def _performed(
    loaded: LoadedJob,
    seconds: float | None,
    seen: RunView,
    interrupt: Interrupt,
    watched: WatchedFrom,
) -> Outcome | PenstockError:
    """Returns the report and why queries failed, or what is wrong with the job."""
    with seen, workspace("run", warns=True) as directory:
        seen.stage("starting Spark")
        with session(directory, "run", loaded.job.spark) as spark:
            interrupt.spark_started()
            seen.stage("checking the job")
            try:
                schemas = check_on_spark(spark, loaded)
            except PenstockError as error:
                return error
            try:
                site = open_site(spark, loaded, watched.metrics)
            except PenstockError as error:
                return error
            try:
                page = opened(site, watched.dashboard, loaded.job.site)
            except PenstockError as error:
                site.stop()
                return error
            if site.metrics_address is not None:
                seen.stage(f"metrics are at {site.metrics_address}")
            try:
                seen.stage("starting the queries")
                queries = start(spark, loaded, site, schemas, directory)
                where = "" if page is None else f", with a page at {page.address}"
                seen.stage(f"running{where}; Ctrl-C stops it")
                failures = _watched(queries, site, seconds, seen, interrupt)
            finally:
                if page is not None:
                    page.close()
                site.stop()
            return _whole(site.report().to_dict(), list(queries)), failures


def _whole(report: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Adds the queries that reported nothing: none of their tuples came, and none is missing."""
    heard = {query["id"]: query for query in report["queries"]}
    would = {"would_shed": 0, "would_latency_ms": 0.0} if report["watch"] else {}
    queries = [heard.get(name, asdict(QueryReport(name)) | would) for name in sorted(names)]
    return {**report, "queries": queries}


def _watched(
    queries: Mapping[str, StreamingQuery],
    site: Site,
    seconds: float | None,
    seen: RunView,
    interrupt: Interrupt,
) -> dict[str, str]:
    """Watches until the time is over, the user stops the job, or all queries have ended."""
    began, rates = time.monotonic(), RecentRates(site.settings.stw_seconds)
    failures: dict[str, str] = {}
    while seconds is None or time.monotonic() < began + seconds:
        try:
            interrupt.pause(POLL_SECONDS)
        except KeyboardInterrupt:
            break
        seen.moment(_moment(time.monotonic() - began, site, rates))
        failures = {name: why for name, query in queries.items() if (why := _failure(query))}
        if failures or not any(query.isActive for query in queries.values()):
            break
    return failures


def _moment(elapsed: float, site: Site, rates: RecentRates) -> RunMoment:
    report = site.report().to_dict()
    admitted, shed = rates.note(elapsed, report)
    return RunMoment(
        elapsed, site.sic(), report, site.settings.target_seconds, _late(site), admitted, shed
    )


def _late(site: Site) -> dict[str, list[float]]:
    """Returns of each query the p95 of its last batches, in seconds, the oldest first."""
    recent = {
        name: [each for each in list(stream.latencies)[-BATCHES_OF_LATE:] if each.admitted > 0]
        for name, stream in site.streams.items()
    }
    return {
        name: [LatencyReport.of([batch]).p95 / 1000 for batch in batches]
        for name, batches in recent.items()
    }


def _failure(query: StreamingQuery) -> str | None:
    """Returns in one line why a query failed, if it did."""
    error = None if query.isActive else query.exception()
    if error is None:
        return None
    return " ".join(str(error).partition("=== Streaming Query")[0].split())[:500]


def _sum_up(console: Console, told: Mapping[str, Any]) -> None:
    for query in told["queries"]:
        say(
            console,
            f"{query['id']}: {query['arrived']:,} arrived, {query['admitted']:,} admitted, "
            f"{query['shed']:,} shed; SIC {query['sic']:.3f}; "
            f"latency p95 {latency(query['latency_ms'])}; backlog {backlog(query['backlog'])}; "
            f"{query['batches']} batches",
        )
    for sentence in held_back(told):
        say(console, sentence)
    if told["watch"]:
        say(console, "nothing was shed: this site only watches")
        for query in told["queries"]:
            say(console, f"{query['id']}: {would_be(query)}")
    balanced = "balanced" if told["ledger_balanced"] else "NOT balanced"
    say(console, f"Jain's index {told['site']['jain']:.4f}; ledger {balanced}")

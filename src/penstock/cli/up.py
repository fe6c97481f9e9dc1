"""Runs a federation on this machine from start to end: starts, submits, shows, sums up, stops."""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.cli.command_support import USUAL_TOKEN_VARIABLE, token_of
from penstock.cli.federation_view import federation_console, picture
from penstock.cli.interrupt import Interrupt
from penstock.cli.oracle_watch import FederationMoment, OracleWatch
from penstock.cli.terminal import say
from penstock.cli.top import FederationView, federation_view
from penstock.cli.waiting import Submissions
from penstock.errors import PenstockError
from penstock.federation.client import CallError
from penstock.federation.federation_report import federation_report
from penstock.federation.known_sites import KnownSites
from penstock.federation.query_file import load_query
from penstock.federation.site_file import TOKEN_CHARACTERS
from penstock.federation.trial_files import CITIES
from penstock.federation.trial_run import (
    LONGEST_START_SECONDS,
    POLL_SECONDS,
    ChildEndedError,
    Trial,
)
from penstock.spark.session import check_java

LOOK_SECONDS = 2.0
FEWEST_SITES = 2
CHILD_ENDED_EXIT_CODE = 1
"""The exit code where a process of the federation ended by itself."""


@dataclass(frozen=True)
class UpOptions:
    """Holds what the command line says."""

    sites: int
    seconds: float | None = None
    report: Path | None = None
    port: int = 0
    directory: Path | None = None
    interval: str = "5s"
    latency: str = "15s"
    queries: tuple[Path, ...] = ()


def up(options: UpOptions) -> int:
    """Runs the federation, and returns the exit code."""
    if not FEWEST_SITES <= options.sites <= len(CITIES):
        raise PenstockError(
            f"--sites must lie between {FEWEST_SITES} and {len(CITIES)}, such as 3; "
            f"got {options.sites}"
        )
    token = token_of(USUAL_TOKEN_VARIABLE)
    if token is not None and len(token) < TOKEN_CHARACTERS[0]:
        raise PenstockError(
            f"{USUAL_TOKEN_VARIABLE} must have {TOKEN_CHARACTERS[0]} characters or more; "
            f"got {len(token)} of them"
        )
    for file in options.queries:
        load_query(file)  # a mistake is told before anything starts
    check_java()
    interrupt = Interrupt()
    with interrupt.installed(), _directory(options.directory) as directory:
        names = CITIES[: options.sites]
        trial = Trial(directory, names, token, options.interval, options.latency)
        with federation_view(federation_console()) as view:
            run = _UpRun(options, trial, view, interrupt)
            try:
                run.whole()
            finally:
                view.stage("ending all processes")
                killed = trial.close()
    console = federation_console()
    for name in killed:
        say(console, f"{name} did not end when it was asked to, and was killed")
    run.sum_up()
    if run.ended_by_themselves:
        return CHILD_ENDED_EXIT_CODE
    return 128 + interrupt.number if interrupt.number else 0


class _UpRun:
    """Is one run of the command."""

    def __init__(
        self, options: UpOptions, trial: Trial, view: FederationView, interrupt: Interrupt
    ) -> None:
        self._options, self._trial, self._view = options, trial, view
        self._interrupt = interrupt
        self._began = time.monotonic()
        self._first_rows: dict[str, float] = {}
        self.ended_by_themselves: list[str] = []
        self._report: dict[str, Any] | None = None
        self._without_report: dict[str, str] = {}
        """The sites that gave no report, and why."""
        self._last: FederationMoment | None = None

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def whole(self) -> None:
        """Starts everything, watches it until the end, and takes the report."""
        try:
            self._start()
            files = self._options.queries or tuple(self._trial.write_queries())
            sites = KnownSites(self._trial.oracle.address, token=self._trial.token)
            with Submissions(files, sites) as submissions:
                self._watch(submissions)
        except KeyboardInterrupt:
            pass
        if self._last is not None:
            self._take_report()

    def _start(self) -> None:
        address = self._trial.start_oracle(self._options.port, self._interrupt.pause)
        self._say(f"the oracle listens on {address}, where a browser shows the page")
        self._trial.start_sites()
        self._say(f"{', '.join(self._trial.names)}: starting a Spark each")
        self._wait_for_sites()

    def _wait_for_sites(self) -> None:
        up: set[str] = set()
        while len(up) < len(self._trial.names):
            self._interrupt.pause(POLL_SECONDS)
            self._trial.check()
            for name in sorted(set(self._trial.sites_up()) - up):
                up.add(name)
                self._say(f"{name} is up")
            if self._elapsed > LONGEST_START_SECONDS:
                missing = sorted(set(self._trial.names) - up)
                raise ChildEndedError(f"{', '.join(missing)}: not up in time")

    def _watch(self, submissions: Submissions) -> None:
        watch, seconds = OracleWatch(self._trial.oracle), self._options.seconds
        while seconds is None or self._elapsed < seconds:
            left = LOOK_SECONDS if seconds is None else seconds - self._elapsed
            self._interrupt.pause(min(LOOK_SECONDS, max(left, 0.0)))
            self._note_ended()
            for text in submissions.news():
                self._say(text)
            try:
                self._last = watch.look()
            except CallError:
                continue
            self._note_first_rows(self._last)
            self._view.moment(self._last, self._elapsed)

    def _note_ended(self) -> None:
        for name in self._trial.ended():
            if name not in self.ended_by_themselves:
                self.ended_by_themselves.append(name)
                self._say(f"{name} has ended by itself; the others go on")

    def _note_first_rows(self, now: FederationMoment) -> None:
        for query in now.queries.queries:
            if query.rows and query.query not in self._first_rows:
                self._first_rows[query.query] = self._elapsed
                self._say(f"{query.query} has its first results")

    def _take_report(self) -> None:
        self._view.stage("asking all sites for their reports")
        try:
            self._last = OracleWatch(self._trial.oracle).look()
            queries = self._last.queries.queries
            accounts = self._trial.accounts()
            self._report = federation_report(accounts, queries)
            without = (account for account in accounts if account.report is None)
            self._without_report = {account.site: account.why_none for account in without}
        except CallError as error:
            self._say(f"there is no report: {error}")

    def sum_up(self) -> None:
        """Prints how it went, and writes the report."""
        console = federation_console()
        if self._last is not None:
            console.print(picture(self._last, "Penstock: a federation on this machine"))
        for name, seconds in self._first_rows.items():
            say(console, f"{name}: first results after {seconds:.0f} s")
        for name, why in self._without_report.items():
            say(console, f"{name} gave no report: {why}")
        if self._report is None:
            return
        balanced = "balanced" if self._report["ledger_balanced"] else "NOT balanced"
        say(
            console, f"ledger {balanced}; {self._report['messages']['update_sic']['count']} updates"
        )
        if self._options.report is not None:
            self._options.report.write_text(json.dumps(self._report, indent=2) + "\n")

    def _say(self, text: str) -> None:
        self._view.stage(f"[{self._elapsed:4.0f} s] {text}")


@contextmanager
def _directory(kept: Path | None) -> Iterator[Path]:
    """Makes the directory; a temporary one is removed, unless something has gone wrong."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.absolute()
        return
    directory = Path(tempfile.mkdtemp(prefix="penstock-up-"))
    try:
        yield directory
    except ChildEndedError as error:
        raise ChildEndedError(f"{error}\n  all that was said is in {directory}") from None
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)

"""Made-up federations for the page, with an oracle that can be restarted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.dashboard.what_is_seen import page_of
from penstock.federation.access import Access
from penstock.federation.history import History, HistoryBounds
from penstock.federation.oracle import Oracle
from penstock.federation.oracle_server import oracle_app
from penstock.federation.serving import ServedApp
from penstock.lab.page_load.made_up_federation import MadeUpFederation, made_up_sites

CITIES = ("rome", "oslo", "kyoto")
QUERIES = {
    "avg-all": ("oslo", "rome", "kyoto"),
    "top-5": ("rome", "oslo", "kyoto"),
    "cov": ("kyoto", "rome", "oslo"),
    "rome-traffic": ("rome",),
    "oslo-traffic": ("oslo",),
    "kyoto-traffic": ("kyoto",),
}
INTERVAL_SECONDS = 1.0


@dataclass
class WatchedOracle:
    """Is an oracle with its page, which keeps its port and its history over a restart."""

    directory: Path
    tokens: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    readers: bool = False

    def start(self) -> None:
        oracle = Oracle()
        bounds = HistoryBounds(resolution_seconds=INTERVAL_SECONDS)
        self._history = History(self.directory / "history.sqlite", bounds)
        live, page = page_of(oracle, self._history)
        access = Access(self.tokens, "127.0.0.1", readers=self.readers)
        app = oracle_app(oracle, self._history, access, page)
        self._served = ServedApp(app, access.refusals, port=self.port, stopping=live.stop)
        self._served.start()
        self.port = self._served.port

    @property
    def address(self) -> str:
        return self._served.address

    def stop(self) -> None:
        self._served.stop()
        self._history.close()


@contextmanager
def a_watched_federation(
    directory: Path,
    tokens: Mapping[str, str] | None = None,
    load: float = 1.6,
    readers: bool = False,
) -> Iterator[tuple[WatchedOracle, MadeUpFederation]]:
    """Runs three made-up sites with six queries, and their oracle."""
    oracle = WatchedOracle(directory, tokens or {}, readers=readers)
    oracle.start()
    sites = made_up_sites(CITIES, QUERIES, INTERVAL_SECONDS)
    try:
        made_up = MadeUpFederation(oracle.address, tokens or {}, sites, load, readers=readers)
        with made_up.running() as federation:
            yield oracle, federation
    finally:
        oracle.stop()

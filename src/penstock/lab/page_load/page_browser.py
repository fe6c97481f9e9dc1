"""Has a real browser look at a page, and measures what that costs it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from penstock.errors import PenstockError

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MEGABYTE = 2**20


@dataclass(frozen=True)
class MainThread:
    """Holds what a page's main thread has done since it was opened, in seconds, and its heap."""

    tasks: float
    scripts: float
    layout: float
    heap_mb: float


class LookedAt:
    """Is a page that is open."""

    def __init__(self, page: Page, session: CDPSession) -> None:
        self.page, self._session = page, session

    def main_thread(self) -> MainThread:
        """Asks the browser for its own account of the main thread."""
        told = self._session.send("Performance.getMetrics")["metrics"]
        known: dict[str, Any] = {each["name"]: each["value"] for each in told}
        return MainThread(
            known["TaskDuration"],
            known["ScriptDuration"],
            known["LayoutDuration"] + known["RecalcStyleDuration"],
            known["JSHeapUsedSize"] / MEGABYTE,
        )

    def collect_garbage(self) -> None:
        """Leaves in the heap only what is still in use."""
        self._session.send("HeapProfiler.collectGarbage")


@contextmanager
def looking_at(address: str) -> Iterator[LookedAt]:
    """Opens a page in this machine's Chromium, without a screen."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise PenstockError("the benchmark needs Chromium on the PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found,
            args=["--no-sandbox", "--disable-background-networking", "--disable-quic"],
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        page.goto(address)
        yield LookedAt(page, session)
        browser.close()

"""A real browser on the page, which forgives no request to elsewhere and no error."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    sync_playwright,
)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000
"""How long anything may take to show on a machine that does much else."""
WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
OUTAGE = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "ERR_CONNECTION_RESET", "ERR_EMPTY")
"""What a browser says by itself of a server that is gone."""


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Starts the browser of this machine."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert found is not None, "the tests of the page need Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found,
            args=[
                "--no-sandbox",
                "--disable-background-networking",
                "--disable-gpu",
                "--disable-quic",
            ],
        )
        yield browser
        browser.close()


@dataclass
class Visit:
    """Is a page that somebody looks at, and all that went wrong meanwhile."""

    page: Page
    faults: list[str] = field(default_factory=list)
    outage: bool = False
    """Whether the server is gone on purpose."""

    def listen(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        expected = self.outage and any(name in message.text for name in OUTAGE)
        if message.type in ("error", "warning") and not expected:
            self.faults.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        if urlsplit(request.url).hostname not in ("127.0.0.1", None):
            self.faults.append(f"asked {request.url}")


@contextmanager
def visiting(
    browser: Browser, address: str, *, phone: bool = False, dark: bool = False
) -> Iterator[Visit]:
    """Opens the page; at the end nothing may have gone wrong."""
    context = browser.new_context(
        viewport=PHONE if phone else WIDE,
        color_scheme="dark" if dark else "light",
        has_touch=phone,
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MS)
    visit = Visit(context.new_page())
    visit.listen()
    visit.page.goto(address)
    yield visit
    context.close()
    assert visit.faults == []

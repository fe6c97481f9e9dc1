"""What the page looks like in each state, and whether everybody can use it.

With ``PENSTOCK_PICTURES=1`` the pictures of the documents are taken again, which takes longer:
curves need time to be worth a look.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browser import PATIENCE_MS, a_browser, visiting
from tests.dashboard.federations import QUERIES, WatchedOracle, a_watched_federation

axe: Any = import_module("axe_playwright_python.sync_playwright")  # it has no types
PICTURES = Path(__file__).parent.parent.parent / "docs" / "dashboard"
WANTED = os.environ.get("PENSTOCK_PICTURES") == "1"
CURVES_MS = 15_000 if WANTED else 0
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


def serious(page: Page) -> list[dict[str, Any]]:
    """What keeps people out, by axe-core."""
    found = axe.Axe().run(page).response["violations"]
    return [
        {"rule": one["id"], "where": [node["html"] for node in one["nodes"]][:3]}
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def looked_at(page: Page, name: str, *, whole: bool = False) -> None:
    """Takes the picture, and fails on what keeps people out, or what is wider than the screen."""
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if WANTED:
        page.mouse.move(0, 0)  # nothing is pointed at
        PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}.png", full_page=whole)


def open_page(page: Page) -> None:
    expect(page.locator("#query-list tbody tr")).to_have_count(len(QUERIES))
    expect(page.locator("#fairness-chart canvas")).to_be_visible()
    page.wait_for_timeout(CURVES_MS)


def test_a_calm_federation(tmp_path: Path, browser: Browser) -> None:
    with (
        a_watched_federation(tmp_path, load=0.7) as (oracle, _),
        visiting(browser, oracle.address) as visit,
    ):
        open_page(visit.page)
        expect(visit.page.locator("#tiles")).to_contain_text("0 tuples/s", use_inner_text=True)
        looked_at(visit.page, "calm")


@pytest.fixture(scope="module")
def overloaded(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> Iterator[WatchedOracle]:
    directory = tmp_path_factory.mktemp("overloaded")
    with a_watched_federation(directory, readers=True) as (oracle, federation):
        federation.sites["oslo"].capacity *= 0.6
        if WANTED:  # the pictures show how an overload begins
            federation.load = 0.7
            with visiting(browser, oracle.address) as visit:
                open_page(visit.page)
            federation.load = 1.6
        yield oracle


def test_an_overloaded_federation(overloaded: WatchedOracle, browser: Browser) -> None:
    with visiting(browser, overloaded.address) as visit:
        open_page(visit.page)
        looked_at(visit.page, "overload", whole=True)


def test_a_query_and_a_gate_from_inside(overloaded: WatchedOracle, browser: Browser) -> None:
    with visiting(browser, f"{overloaded.address}/#query=cov") as visit:
        page = visit.page
        expect(page.locator("#panel-title")).to_have_text("cov")
        expect(page.locator("#panel canvas")).to_be_visible()
        page.wait_for_timeout(CURVES_MS / 10)
        looked_at(page, "query")
        page.locator("#panel").get_by_role("link", name="oslo").first.click()
        expect(page.locator("#panel-title")).to_have_text("oslo")
        expect(page.locator(".gate").first).to_contain_text("It gave this one")
        looked_at(page, "gate")


def test_in_the_dark_and_on_a_phone(overloaded: WatchedOracle, browser: Browser) -> None:
    with visiting(browser, overloaded.address, dark=True) as visit:
        open_page(visit.page)
        looked_at(visit.page, "dark")
    with visiting(browser, overloaded.address, phone=True) as visit:
        open_page(visit.page)
        looked_at(visit.page, "phone", whole=True)
        visit.page.locator("#site-list tbody button").first.click()
        expect(visit.page.locator(".gate").first).to_be_visible()
        assert serious(visit.page) == []


def test_a_site_that_has_failed(tmp_path: Path, browser: Browser) -> None:
    with (
        a_watched_federation(tmp_path) as (oracle, federation),
        visiting(browser, oracle.address) as visit,
    ):
        open_page(visit.page)
        federation.silent.add("oslo")
        expect(visit.page.locator("#event-list")).to_contain_text("oslo is silent")
        visit.page.wait_for_timeout(CURVES_MS / 4)
        looked_at(visit.page, "failed-site")

"""The page of a federation in a real browser, over made-up sites that speak the real messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browser import PATIENCE_MS, a_browser, visiting
from tests.dashboard.federations import CITIES, QUERIES, a_watched_federation

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


def names(page: Page, place: str) -> list[str]:
    return page.locator(f"{place} tbody .link span:nth-child(2)").all_inner_texts()


def test_the_page_follows_a_federation_through_the_loss_of_a_site_and_of_its_oracle(
    tmp_path: Path, browser: Browser
) -> None:
    with (
        a_watched_federation(tmp_path) as (oracle, federation),
        visiting(browser, oracle.address) as visit,
    ):
        page = visit.page
        expect(page.locator("#query-list tbody tr")).to_have_count(len(QUERIES))
        expect(page.locator("#site-list tbody tr")).to_have_count(len(CITIES))
        expect(page.locator("#state")).to_have_text("live")

        page.wait_for_function(  # the poorest first, at one moment
            """() => {
                const shown = [...document.querySelectorAll('#query-list .meter b')];
                const sic = shown.map((one) => Number(one.textContent));
                const sorted = sic.every((one, n) => n === 0 || sic[n - 1] <= one);
                return sic.length === 6 && sic[0] < 0.95 && sorted;
            }"""
        )
        page.get_by_role("button", name="Query", exact=True).click()
        assert names(page, "#query-list") == sorted(QUERIES)
        page.locator("#filter").fill("traffic")
        expect(page.locator("#query-list tbody tr")).to_have_count(3)
        page.locator("#filter").fill("")

        page.get_by_role("button", name="avg-all").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator("#panel-title")).to_have_text("cov")
        expect(page.locator("#panel tbody tr")).to_have_count(4)  # three parts, and the root
        page.reload()
        expect(page.locator("#panel-title")).to_have_text("cov")
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_be_hidden()

        federation.silent.add("oslo")
        expect(page.locator("#site-list")).to_contain_text("not heard of")
        expect(page.locator("#event-list")).to_contain_text("oslo is silent")
        expect(page.locator("#tiles")).to_contain_text("2")

        before = page.locator("#fairness-chart [role=img]").get_attribute("aria-label")
        assert before is not None
        visit.outage = True
        oracle.stop()
        expect(page.locator("#state")).to_have_text("not connected")
        expect(page.locator("#banner")).to_be_visible()
        oracle.start()
        expect(page.locator("#state")).to_have_text("live")
        visit.outage = False
        expect(page.locator("#query-list tbody tr")).not_to_have_count(0)
        page.reload()
        since = before.rpartition("since ")[2]
        page.wait_for_function(  # from before the restart, also for who comes after it
            "(since) => document.querySelector('#fairness-chart [role=img]')"
            "?.ariaLabel?.split('since ')[1] <= since",
            arg=since,
        )
        expect(page.locator("#event-list")).to_contain_text("oslo is silent")

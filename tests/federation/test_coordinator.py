"""Coordinators against real servers of sites, one of which is dead."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from penstock.federation.client import SiteClient
from penstock.federation.coordination import Missing
from penstock.federation.coordinator import SiteCoordinators
from penstock.federation.messages import FragmentOrder, Place, SicUpdate
from tests.federation.support import SiteInMemory, a_query, an_order, eventually, served

INTERVAL = 0.05


@pytest.fixture
def dead() -> Iterator[str]:
    """Is the address of a site that takes connections, and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


class Root:
    """Is the site of a root, with its coordinators, and what they asked of it."""

    def __init__(self, addresses: dict[str, str], patience: float = 60.0) -> None:
        places = {name: [Place(site=name, address=at)] for name, at in addresses.items()}
        places["root"] = [Place(site="home", address="http://127.0.0.1:1")]
        self.order = FragmentOrder(query=a_query(), fragment="root", places=places, catalog={})
        self.roots = {"load": self.order}
        self.sic: float | None = 0.5
        self.own: list[SicUpdate] = []
        self.brought_back: list[Missing] = []
        self.coordinators = SiteCoordinators(
            "home",
            INTERVAL,
            roots=lambda: self.roots,
            result_sic=lambda _: self.sic,
            tell_own=self.own.append,
            connect=SiteClient,
            deploy_anew=self.brought_back.append,
            patience_seconds=patience,
        )


def test_a_dead_site_does_not_delay_the_news_for_others(dead: str) -> None:
    oslo, kyoto = SiteInMemory("oslo"), SiteInMemory("kyoto")
    with ExitStack() as stack:
        addresses = {"dead": dead}
        for site in (oslo, kyoto):
            site.deploy(an_order(fragment=site.name), "test")
            addresses[site.name] = stack.enter_context(served(site)).address
        root = Root(addresses)
        with root.coordinators as coordinators:
            tell_until(coordinators, lambda: min(len(oslo.news), len(kyoto.news)) >= 5)
            assert coordinators.failures == {}  # the dead one is still being waited for
            eventually(lambda: coordinators.failures == {"dead": 1})
        sent = root.coordinators.sent("load")
        assert sent.messages == len(oslo.news) + len(kyoto.news)
        assert 0 < sent.bytes_max < 300
        assert {(update.query, update.sic) for update in oslo.news} == {("load", 0.5)}
        assert {update.seq for update in oslo.news} <= {update.seq for update in root.own}


def test_a_site_that_comes_back_is_told_again_and_gets_what_it_lacks() -> None:
    oslo = SiteInMemory("oslo")
    with ExitStack() as stack:
        server = stack.enter_context(served(oslo))
        root = Root({"oslo": server.address}, patience=0.2)
        with root.coordinators as coordinators:
            tell_until(coordinators, lambda: root.brought_back)
            assert root.brought_back[0].fragment == "oslo"
            assert root.brought_back[0].place.address == server.address
            oslo.deploy(an_order(fragment="oslo"), "test")
            tell_until(coordinators, lambda: oslo.news)
            before = len(root.brought_back)
            server.stop()
            tell_until(coordinators, lambda: coordinators.failures["oslo"] >= 3)
            assert len(root.brought_back) == before


def test_a_query_that_is_not_there_any_more_is_not_told_of() -> None:
    oslo = SiteInMemory("oslo")
    oslo.deploy(an_order(fragment="oslo"), "test")
    with served(oslo) as server:
        root = Root({"oslo": server.address})
        with root.coordinators as coordinators:
            root.sic = None
            coordinators.tell()
            assert root.own == []
            root.roots = {}
            root.sic = 0.5
            assert coordinators.tell() == {}
            assert coordinators.sent("load").messages == 0
        assert oslo.news == []


def tell_until(coordinators: SiteCoordinators, holds: Callable[[], object]) -> None:
    """Goes on telling, as a site does once an interval, until something holds."""

    def told() -> bool:
        if holds():
            return True
        coordinators.tell()
        time.sleep(INTERVAL)
        return False

    eventually(told)

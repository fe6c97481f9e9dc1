"""Submitting, stopping and moving a query over real servers of three sites."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pytest

from penstock.errors import PenstockError
from penstock.federation.access import Access
from penstock.federation.coordination import Missing
from penstock.federation.known_sites import KnownSites
from penstock.federation.messages import LentSource, Place, SiteSources
from penstock.federation.moving import deploy_anew, move
from penstock.federation.query_file import FederatedQuery
from penstock.federation.serving import ServedApp
from penstock.federation.site_server import site_app
from penstock.federation.submission import list_queries, stop, submit
from tests.federation.support import SiteInMemory

MACHINES = LentSource(columns="ts TIMESTAMP, cpu DOUBLE", time="ts")
LOAD = FederatedQuery(
    query="load",
    sql=(
        "SELECT window.start, avg(cpu) AS cpu FROM (SELECT * FROM rome.machines UNION ALL "
        "SELECT * FROM oslo.machines) GROUP BY window(ts, '1 second')"
    ),
    place={"root": "rome"},
)


@dataclass
class Three:
    """Is a federation of three sites in memory."""

    sites: dict[str, SiteInMemory]
    servers: dict[str, ServedApp]
    known: KnownSites

    def runs(self) -> dict[str, list[str]]:
        return {name: sorted(site.orders) for name, site in self.sites.items()}

    def places(self, **where: str) -> dict[str, list[Place]]:
        return {
            name: [Place(site=site, address=self.servers[site].address)]
            for name, site in where.items()
        }


def lending(site: SiteInMemory) -> SiteSources:
    sources = {} if site.name == "kyoto" else {"machines": MACHINES}
    return SiteSources(site=site.name, sources=sources)


@pytest.fixture
def three() -> Iterator[Three]:
    sites = {name: SiteInMemory(name) for name in ("rome", "oslo", "kyoto")}
    servers = {}
    with ExitStack() as stack:
        for name, site in sites.items():
            access = Access({}, "127.0.0.1")
            app = site_app(site, access, partial(lending, site))
            servers[name] = stack.enter_context(ServedApp(app, access.refusals))
        addresses = [server.address for server in servers.values()]
        yield Three(sites, servers, KnownSites(addresses=addresses))


def test_a_query_is_deployed_senders_first_with_what_each_reads(three: Three) -> None:
    plan = submit(LOAD, three.known, submitter="alice")
    assert three.runs() == {"rome": ["rome@load", "root@load"], "oslo": ["oslo@load"], "kyoto": []}
    root = three.sites["rome"].orders["root@load"]
    assert root.schemas == {"oslo": "oslo_rows BIGINT", "rome": "rome_rows BIGINT"}
    assert root.places == three.places(rome="rome", oslo="oslo", root="rome")
    assert root.catalog == {"oslo.machines": MACHINES, "rome.machines": MACHINES}
    assert root.submitter == "alice"
    assert three.sites["rome"].told[-1] == "deploy root@load"
    assert [part.name for part in plan.cut.fragments][-1] == "root"
    (listed,) = list_queries(three.known)
    assert listed.query == "load"
    assert listed.fragments == {
        "oslo@load": ("oslo", "running"),
        "rome@load": ("rome", "running"),
        "root@load": ("rome", "running"),
    }


def test_what_may_run_anywhere_runs_where_the_ranking_says(three: Three) -> None:
    anywhere = LOAD.model_copy(update={"place": {}})
    three.sites["kyoto"].utilisation = 0.5
    three.sites["rome"].utilisation = 0.9
    three.sites["oslo"].utilisation = 0.1
    submit(anywhere, three.known)
    assert three.runs() == {"rome": ["rome@load"], "oslo": ["oslo@load", "root@load"], "kyoto": []}


def test_replicas_of_the_root_run_at_different_sites_and_stop_together(three: Three) -> None:
    submit(LOAD.model_copy(update={"replicas": {"root": 2}}), three.known)
    runs = three.runs()
    assert "root@load" in runs["rome"]
    assert sum("root@load@1" in names for names in (runs["oslo"], runs["kyoto"])) == 1
    assert len(stop("load", three.known)) == 4
    assert three.runs() == {"rome": [], "oslo": [], "kyoto": []}


def test_a_query_that_cannot_be_deployed_whole_is_not_deployed_at_all(three: Three) -> None:
    def refuses_roots() -> None:
        if three.sites["rome"].orders:
            raise PenstockError("no room for a root")

    three.sites["rome"].deploying_takes = refuses_roots
    with pytest.raises(PenstockError, match=r"POST http.*/fragments: 422: no room for a root"):
        submit(LOAD, three.known)
    assert three.runs() == {"rome": [], "oslo": [], "kyoto": []}
    assert three.sites["oslo"].told == ["deploy oslo@load", "remove oslo@load"]


def test_a_query_that_runs_already_is_left_alone(three: Three) -> None:
    submit(LOAD, three.known)
    before = three.runs()
    with pytest.raises(PenstockError, match="'load' runs already"):
        submit(LOAD, three.known)
    assert three.runs() == before


def test_a_query_is_stopped_everywhere_its_root_last(three: Three) -> None:
    submit(LOAD, three.known)
    submit(LOAD.model_copy(update={"query": "other"}), three.known)
    assert stop("load", three.known)[-1] == "root@load"
    assert three.runs() == {
        "rome": ["rome@other", "root@other"],
        "oslo": ["oslo@other"],
        "kyoto": [],
    }
    with pytest.raises(PenstockError, match="runs anything of 'load'"):
        stop("load", three.known)


def test_a_site_that_does_not_answer_does_not_keep_a_query_running_elsewhere(three: Three) -> None:
    submit(LOAD, three.known)
    three.servers["oslo"].stop()
    assert stop("load", three.known) == ["rome@load", "root@load"]
    assert three.runs() == {"rome": [], "oslo": ["oslo@load"], "kyoto": []}


def test_a_fragment_is_moved_after_it_has_stopped_and_everybody_knows(three: Three) -> None:
    submit(LOAD, three.known)
    move(LOAD, "root", "kyoto", three.known)
    assert three.runs() == {"rome": ["rome@load"], "oslo": ["oslo@load"], "kyoto": ["root@load"]}
    moved = three.sites["kyoto"].orders["root@load"]
    assert moved.incarnation == 1
    assert moved.schemas == {"oslo": "oslo_rows BIGINT", "rome": "rome_rows BIGINT"}
    expected = three.places(rome="rome", oslo="oslo", root="kyoto")
    for site in three.sites.values():
        for order in site.orders.values():
            assert order.places == expected
    assert three.sites["rome"].told[-1] == "remove root@load"
    move(LOAD, "root", "oslo", three.known)
    assert three.sites["oslo"].orders["root@load"].incarnation == 2


def test_a_fragment_goes_back_where_the_new_site_does_not_take_it(three: Three) -> None:
    submit(LOAD, three.known)

    def refuses() -> None:
        raise PenstockError("full")

    three.sites["kyoto"].deploying_takes = refuses
    with pytest.raises(PenstockError, match=r"'root@load' stays at 'rome': .*: full"):
        move(LOAD, "root", "kyoto", three.known)
    expected = three.places(rome="rome", oslo="oslo", root="rome")
    assert three.runs() == {"rome": ["rome@load", "root@load"], "oslo": ["oslo@load"], "kyoto": []}
    assert three.sites["rome"].orders["root@load"].incarnation == 2
    for site in three.sites.values():
        for order in site.orders.values():
            assert order.places == expected


@pytest.mark.parametrize(
    ("fragment", "to", "words"),
    [
        ("rome", "kyoto", "reads sources of 'rome'"),
        ("root", "rome", "runs at 'rome' already"),
        ("root", "kioto", "unknown site 'kioto'"),
        ("rooot", "kyoto", "unknown fragment 'rooot'"),
    ],
)
def test_moves_that_make_no_sense_change_nothing(
    three: Three, fragment: str, to: str, words: str
) -> None:
    submit(LOAD, three.known)
    before = {name: list(site.told) for name, site in three.sites.items()}
    with pytest.raises(PenstockError, match=words):
        move(LOAD, fragment, to, three.known)
    assert {name: site.told for name, site in three.sites.items()} == before


def test_a_fragment_that_is_gone_is_deployed_anew_with_its_schemas(three: Three) -> None:
    submit(LOAD, three.known)
    root = three.sites["rome"].orders.pop("root@load")
    place = three.places(root="rome")["root"][0]
    deploy_anew(Missing(root, "root", 0, place), three.known.calling)
    assert three.sites["rome"].orders["root@load"] == root
    three.sites["oslo"].orders.clear()
    with pytest.raises(PenstockError, match="'oslo@load', which it reads, is missing too"):
        deploy_anew(Missing(root, "root", 0, place), three.known.calling)

"""The oracle over HTTP: heartbeats in, what it knows out, and the same after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from penstock.federation.access import Access
from penstock.federation.client import CallError
from penstock.federation.history import History, HistoryBounds
from penstock.federation.oracle import Oracle
from penstock.federation.oracle_client import OracleClient
from penstock.federation.oracle_relay import add_relay
from penstock.federation.oracle_server import oracle_app
from penstock.federation.refusals import RefusedError
from penstock.federation.serving import ServedApp
from tests.federation.support import eventually
from tests.federation.test_oracle import a_beat

TOKENS = {"rome": "token-of-rome-0123456789", "oslo": "token-of-oslo-0123456789"}


@contextmanager
def an_oracle(path: Path, accepts: Mapping[str, str] | None = None) -> Iterator[ServedApp]:
    access = Access(accepts or {}, "127.0.0.1")
    history = History(path / "history.sqlite", HistoryBounds(resolution_seconds=0))
    with ServedApp(oracle_app(Oracle(), history, access), access.refusals) as server:
        yield server
    history.close()


def test_heartbeats_become_sites_rankings_queries_and_history(tmp_path: Path) -> None:
    with an_oracle(tmp_path) as server, ExitStack() as stack:
        client = OracleClient(server.address)
        stack.callback(client.close)
        client.heartbeat(a_beat("rome", {"load": 0.5}, utilisation=0.9))
        client.heartbeat(a_beat("oslo", {"far": 0.25}, utilisation=0.1))
        assert [site.site for site in client.sites()] == ["oslo", "rome"]
        assert [site.site for site in client.ranking().sites] == ["oslo", "rome"]
        answer = client.queries()
        assert [query.query for query in answer.queries] == ["far", "load"]
        assert answer.mean_sic == 0.375
        assert [moment.sic_now for moment in client.history(query="load").queries] == [0.5]
        assert {event.kind for event in client.events()} == {"site-appeared", "query-appeared"}


def test_a_restarted_oracle_has_its_history_and_hears_sites_again(tmp_path: Path) -> None:
    beat = a_beat("rome", {"load": 0.5})
    for times in (1, 2):
        with an_oracle(tmp_path) as server, ExitStack() as stack:
            client = OracleClient(server.address)
            stack.callback(client.close)
            assert client.sites() == []
            client.heartbeat(beat)
            assert len(client.history(site="rome").sites) == times
            assert len(client.events()) == 2 * times


def test_silence_is_an_event_without_anybody_asking(tmp_path: Path) -> None:
    with an_oracle(tmp_path) as server, ExitStack() as stack:
        client = OracleClient(server.address)
        stack.callback(client.close)
        client.heartbeat(a_beat("rome").model_copy(update={"interval": 0.1}))
        eventually(lambda: client.events()[-1].kind == "site-silent")


def test_a_heartbeat_that_is_repeated_is_refused(tmp_path: Path) -> None:
    with an_oracle(tmp_path) as server, ExitStack() as stack:
        client = OracleClient(server.address)
        stack.callback(client.close)
        client.heartbeat(a_beat("rome"))
        with pytest.raises(CallError, match="409: 'seq' must be above 1; got 1"):
            client.heartbeat(a_beat("rome"))


def test_a_site_speaks_for_itself_alone(tmp_path: Path) -> None:
    with an_oracle(tmp_path, TOKENS) as server, ExitStack() as stack:
        client = OracleClient(server.address, TOKENS["rome"])
        stack.callback(client.close)
        client.heartbeat(a_beat("rome"))
        with pytest.raises(CallError, match="403: 'rome' may not speak for 'oslo'"):
            client.heartbeat(a_beat("oslo"))
        assert [site.site for site in client.sites()] == ["rome"]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/ranking", {"by": "age"}),
        ("/history", {"since": "nan"}),
        ("/history", {"site": "../x"}),
        ("/events", {"most": 0}),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    tmp_path: Path, path: str, query: dict[str, object]
) -> None:
    with an_oracle(tmp_path) as server, ExitStack() as stack:
        client = OracleClient(server.address)
        stack.callback(client.close)
        with pytest.raises(CallError, match=f"422: query.{next(iter(query))}"):
            client.get(path, dict, query)


def test_a_token_that_came_over_tls_goes_to_no_site_without() -> None:
    oracle, app = Oracle(), FastAPI()
    oracle.hear(a_beat("rome"), 100.0)  # its address is http://rome.example:7100
    add_relay(app, oracle, lambda: 101.0)

    async def ask() -> None:
        over_tls = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=over_tls, base_url="https://127.0.0.1") as client:
            token = {"Authorization": "Bearer a-token-0123456789"}
            await client.get("/sites/rome/inside", headers=token)

    with pytest.raises(RefusedError, match="rome has no TLS"):
        asyncio.run(ask())

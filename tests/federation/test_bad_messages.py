"""What a site refuses: 10,000 bad messages, none of which is accepted or breaks anything."""

from __future__ import annotations

import gc
import random
import socket
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from penstock.federation import checked_app, serving
from penstock.federation.access import Access, RateLimit
from penstock.federation.client import CallError
from penstock.federation.history import History
from penstock.federation.messages import LentSource, SicUpdate
from penstock.federation.oracle import Oracle
from penstock.federation.oracle_client import OracleClient
from penstock.federation.oracle_server import oracle_app
from penstock.federation.serving import ServedApp
from tests.federation.bad_messages import (
    KNOWN_QUERY,
    KNOWN_SEQUENCE,
    KNOWN_UPDATE,
    MACHINES,
    MAKERS,
    Bad,
    bad_heartbeat,
    bad_messages,
    good_heartbeat,
    good_order,
    good_update,
    request,
    to_json,
)
from tests.federation.support import (
    LIMITLESS,
    TOKEN,
    ConfinedSite,
    SiteInMemory,
    an_order,
    calling,
    eventually,
    served,
)

STATUS_OF_REASON = {  # written down once more, since it is what others go by
    "bad-json": 400,
    "bad-message": 422,
    "bad-sql": 422,
    "bad-token": 401,
    "forbidden": 403,
    "not-http": 400,
    "old-sequence": 409,
    "too-large": 413,
    "truncated": None,
    "unknown-fragment": 404,
    "unknown-path": 404,
    "unknown-query": 404,
    "unknown-source": 404,
    "wrong-method": 405,
}
MOST_GROWTH_BYTES = 350_000
"""While the last fifth of the messages comes; Python is slow while it is watched."""


def send(server: ServedApp, raw: bytes, *, listen: bool = True) -> tuple[int | None, bytes]:
    """Sends bytes, and answers the status and what came with it; None where nothing came."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as wire:
        answer = b""
        try:
            wire.sendall(raw)
            while listen and (part := wire.recv(65_536)):
                answer += part
        except ConnectionError:  # what is not HTTP may be cut off while it is sent
            pass
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else None), body


def refused(server: ServedApp, bad: Bad) -> str | None:
    """Sends a bad message, and answers what is wrong with the answer."""
    status, body = send(server, bad.raw, listen=bad.reason != "truncated")
    cut_off = bad.reason == "not-http" and status is None
    if status != STATUS_OF_REASON[bad.reason] and not cut_off:
        return f"{bad.kind}: {status} {body!r} to {bad.raw[:300]!r}"
    if TOKEN.encode() in body:
        return f"{bad.kind}: tells the token"
    return None


def a_confined_site() -> ConfinedSite:
    """Returns a site that lends one source, and runs a fragment of the query that is known."""
    site = ConfinedSite(lent={"machines": LentSource.model_validate(MACHINES)})
    SiteInMemory.deploy(site, an_order(KNOWN_QUERY), "test")
    return site


def test_10000_bad_messages_are_refused_and_counted_and_break_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = a_confined_site()
    with served(site, {"rome": TOKEN}, LIMITLESS) as server, calling(server, TOKEN) as client:
        client.update_sic(SicUpdate.model_validate(KNOWN_UPDATE))
        before = site.orders.copy(), site.news.copy()
        expected: Counter[str] = Counter()
        messages = list(bad_messages(10_000, seed=17))
        with ThreadPoolExecutor(4) as callers:
            for fifth in range(5):
                part = messages[fifth::5]
                expected.update(bad.reason for bad in part)
                wrong = [one for one in callers.map(lambda bad: refused(server, bad), part) if one]
                assert wrong == []
                gc.collect()
                if fifth == 3:
                    tracemalloc.start()
        grown = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert grown < MOST_GROWTH_BYTES
        eventually(lambda: client.statistics().refused == dict(sorted(expected.items())))
        assert (site.orders, site.news) == before
        assert {bad.kind for bad in messages} == {maker.__name__ for maker in MAKERS}
        client.update_sic(SicUpdate(query=KNOWN_QUERY, sic=1, at=2, seq=KNOWN_SEQUENCE + 1))
        assert len(site.news) == 2
    assert TOKEN not in caplog.text
    assert "Traceback" not in caplog.text


def test_bad_heartbeats_are_refused_and_counted_and_leave_the_oracle_as_it_was(
    tmp_path: Path,
) -> None:
    luck, expected, access = random.Random(17), Counter[str](), Access({"rome": TOKEN}, "127.0.0.1")
    with (
        closing(History(tmp_path / "history.sqlite")) as history,
        ServedApp(oracle_app(Oracle(), history, access), access.refusals) as server,
        closing(OracleClient(server.address, TOKEN)) as oracle,
    ):
        known = {**good_heartbeat(luck), "seq": KNOWN_SEQUENCE}
        assert send(server, request("POST", "/sites", to_json(known)))[0] == 200
        before = oracle.sites()[0].statistics
        for _ in range(500):
            reason, raw = bad_heartbeat(luck)
            expected[reason] += 1
            assert refused(server, Bad("heartbeat", reason, raw)) is None
        (site,) = oracle.sites()
        assert site.statistics == before
        assert access.refusals.counts() == dict(sorted(expected.items()))
        assert send(server, request("POST", "/sites", to_json(good_heartbeat(luck))))[0] == 200


def test_the_good_messages_that_bad_ones_are_made_of_are_accepted() -> None:
    luck = random.Random(17)
    site = a_confined_site()
    with served(site, {"rome": TOKEN}) as server:
        for path, body in (("/update-sic", good_update(luck)), ("/fragments", good_order(luck))):
            assert send(server, request("POST", path, to_json(body)))[0] == 200


def test_who_does_not_go_on_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_app, "LONGEST_BODY_SECONDS", 0.2)
    monkeypatch.setattr(checked_app, "LONGEST_DRAIN_SECONDS", 0.2)
    monkeypatch.setattr(serving, "FIRST_REQUEST_SECONDS", 0.2)
    half = request("POST", "/update-sic", b'{"query":', length=100)
    with served(SiteInMemory(), {"rome": TOKEN}) as server, calling(server, TOKEN) as client:
        assert send(server, half)[0] == 400
        assert send(server, b"POST /update-sic HTTP/1.1\r\nHost: 127")[0] is None
        assert send(server, b"")[0] is None
        assert client.statistics().refused == {"not-http": 2, "truncated": 1}


def test_a_message_that_is_sent_again_is_refused() -> None:
    site = SiteInMemory()
    raw = request("POST", "/update-sic", to_json(good_update(random.Random(1))))
    with served(site, {"rome": TOKEN}) as server:
        site.deploy(an_order(KNOWN_QUERY), "test")
        assert [send(server, raw)[0] for _ in range(3)] == [200, 409, 409]
        assert len(site.news) == 1


def test_who_sends_too_much_is_refused_and_others_are_heard() -> None:
    site = SiteInMemory()
    other = "the-token-of-oslo-0123456789"
    accepts = {"rome": TOKEN, "oslo": other}
    slow = RateLimit(per_second=0.001, burst=3)
    with (
        served(site, accepts, slow) as server,
        calling(server, TOKEN) as rome,
        calling(server, other) as oslo,
        calling(server, "a-stranger's-token-0123456789") as stranger,
    ):
        statuses = [_status(client.fragments) for client in (rome, stranger) for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429, 401, 401, 401, 429, 429]
        assert oslo.statistics().refused == {"bad-token": 3, "too-many": 4}


def _status(call: object) -> int | None:
    assert callable(call)
    try:
        call()
    except CallError as error:
        return error.status
    return 200

"""A site's server: what reaches the site, what comes back, and what is refused."""

from __future__ import annotations

import threading

import httpx
import pytest

from penstock.federation.client import CallError
from penstock.federation.messages import SicUpdate
from tests.federation.support import (
    TOKEN,
    SiteInMemory,
    an_order,
    calling,
    served,
)


def test_fragments_are_deployed_listed_and_removed_over_http() -> None:
    site = SiteInMemory()
    with served(site) as server, calling(server) as client:
        answer = client.deploy(an_order())
        assert (answer.id, answer.columns) == ("root@load", "root_rows BIGINT")
        assert [status.id for status in client.fragments()] == ["root@load"]
        assert site.orders["root@load"] == an_order()
        client.remove("root@load")
        assert client.fragments() == []
        assert site.callers == ["local", "local"]


def test_an_update_is_small_reaches_the_site_and_is_counted() -> None:
    site = SiteInMemory()
    with served(site) as server, calling(server) as client:
        client.deploy(an_order("q" * 64))
        update = SicUpdate(query="q" * 64, sic=0.123456789012345, at=1.7e9 + 0.123456, seq=2**40)
        size = client.update_sic(update)
        assert site.news == [update]
        assert size < 300
        assert client.updates == (1, size, size)


def test_refusals_say_why_and_are_counted_by_reason() -> None:
    site = SiteInMemory(refuses=frozenset({"mallory"}))
    with served(site) as server, calling(server) as client:
        client.deploy(an_order())
        news = SicUpdate(query="load", sic=0.5, at=1, seq=5)
        client.update_sic(news)
        for wrong, status, words in (
            (lambda: client.deploy(an_order(submitter="mallory")), 403, "takes nothing from"),
            (lambda: client.remove("other@load"), 404, "does not run 'other@load'"),
            (lambda: client.update_sic(news), 409, "'seq' must be above 5; got 5"),
            (lambda: client.update_sic(news.model_copy(update={"query": "x"})), 404, "nothing of"),
            (lambda: client.get("/nowhere", dict), 404, "Not Found"),
            (lambda: client.call("PUT", "/fragments", dict, body=b"{}"), 405, "Not Allowed"),
        ):
            with pytest.raises(CallError, match=words) as caught:
                wrong()
            assert caught.value.status == status
            assert server.address in str(caught.value)
        expected = {
            "forbidden": 1,
            "old-sequence": 1,
            "unknown-fragment": 1,
            "unknown-path": 1,
            "unknown-query": 1,
            "wrong-method": 1,
        }
        assert client.statistics().refused == expected
        assert client.report() == {"site": "rome", "refused": expected}
        assert len(site.news) == 1


def test_news_that_a_site_refuses_uses_up_no_sequence_number() -> None:
    site = SiteInMemory()
    news = SicUpdate(query="load", sic=0.5, at=1, seq=5)
    with served(site) as server, calling(server) as client:
        with pytest.raises(CallError, match="nothing of"):
            client.update_sic(news)
        client.deploy(an_order())
        client.update_sic(news)
        assert site.news == [news]


def test_deploying_does_not_hold_up_news() -> None:
    deploying, go_on = threading.Event(), threading.Event()
    site = SiteInMemory()

    def takes_long() -> None:
        deploying.set()
        go_on.wait(20)

    with served(site) as server, calling(server) as client:
        client.deploy(an_order())
        site.deploying_takes = takes_long
        several = [
            threading.Thread(target=client.deploy, args=(an_order(f"slow{n}"),)) for n in range(20)
        ]
        for thread in several:
            thread.start()
        try:
            assert deploying.wait(10)
            client.update_sic(SicUpdate(query="load", sic=0.5, at=1, seq=1))
            assert len(site.news) == 1
        finally:
            go_on.set()
            for thread in several:
                thread.join(20)
        assert len(site.orders) == 21


def test_a_failure_inside_is_a_500_that_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    site = SiteInMemory()

    def breaks() -> None:
        raise RuntimeError("secret of the house")

    site.deploying_takes = breaks
    with served(site) as server, calling(server) as client:
        with pytest.raises(CallError, match="500: failed inside; the log says more") as caught:
            client.deploy(an_order())
        assert "secret" not in str(caught.value)
        assert client.fragments() == []
    assert "secret of the house" in caplog.text


def test_the_interface_is_described_for_programs_and_people() -> None:
    with served(SiteInMemory(), {"rome": TOKEN}) as server:
        assert httpx.get(f"{server.address}/health").json() == {"ok": True}
        assert httpx.get(f"{server.address}/openapi.json").status_code == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        document = httpx.get(f"{server.address}/openapi.json", headers=headers).json()
        assert set(document["paths"]) == {
            "/fragments",
            "/fragments/{identity}",
            "/health",
            "/inside",
            "/latency",
            "/report",
            "/statistics",
            "/terms",
            "/update-sic",
        }
        body = document["paths"]["/update-sic"]["post"]["requestBody"]["content"]
        assert body["application/json"]["schema"] == {"$ref": "#/components/schemas/SicUpdate"}
        assert document["components"]["schemas"]["FederatedQuery"]["required"] == ["query"]
        page = httpx.get(f"{server.address}/docs", headers=headers).text
        assert "POST /update-sic" in page
        assert "://" not in page

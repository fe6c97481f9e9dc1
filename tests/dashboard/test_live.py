"""What the page is sent, and who may have it; without a browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.dashboard.page import page_files
from tests.dashboard.federations import CITIES, QUERIES, WatchedOracle, a_watched_federation
from tests.federation.support import eventually

TOKENS = {name: f"the-token-of-{name}-0123456789" for name in (*CITIES, "ann")}
AS_ANN = {"Authorization": f"Bearer {TOKENS['ann']}"}
Frames = Iterator[dict[str, Any]]


@contextmanager
def listening(address: str, headers: dict[str, str] | None = None) -> Iterator[Frames]:
    with httpx.stream("GET", f"{address}/live", headers=headers, timeout=30) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield (json.loads(line[6:]) for line in response.iter_lines() if line)


def until_all_are_told(frames: Frames) -> dict[str, Any]:
    """Hears frames until every site and query is known, and answers what is known."""
    known: dict[str, Any] = {}
    for frame in frames:
        known |= frame["set"]
        for key in frame["gone"]:
            del known[key]
        if {f"site:{name}" for name in CITIES} | {f"query:{name}" for name in QUERIES} <= set(
            known
        ):
            return known
    raise AssertionError("the stream has ended")


def test_the_stream_tells_all_first_and_then_what_changes(tmp_path: Path) -> None:
    with a_watched_federation(tmp_path) as (oracle, federation):
        with listening(oracle.address) as frames:
            until_all_are_told(frames)
        with listening(oracle.address) as frames:
            first = next(frames)
            assert {f"site:{name}" for name in CITIES} <= set(first["set"])
            federation.silent.update(CITIES)
            for frame in frames:
                assert "about" not in frame["set"]  # it never changes
                if frame["set"].get("site:rome", {}).get("overdue"):
                    break


def test_the_stream_has_the_figures_of_the_json_interface(tmp_path: Path) -> None:
    with a_watched_federation(tmp_path) as (oracle, federation):
        with listening(oracle.address) as frames:
            until_all_are_told(frames)
        federation.silent.update(CITIES)  # soon nothing changes any more
        eventually(
            lambda: all(site["overdue"] for site in httpx.get(f"{oracle.address}/sites").json())
        )
        with listening(oracle.address) as frames:
            known = until_all_are_told(frames)
        sites = {site["site"]: site for site in httpx.get(f"{oracle.address}/sites").json()}
        answer = httpx.get(f"{oracle.address}/queries").json()
        for name in CITIES:
            told = {key: known[f"site:{name}"][key] for key in ("statistics", "fragments")}
            assert told == {key: sites[name][key] for key in told}
        for query in answer["queries"]:
            mine = known[f"query:{query['query']}"]
            assert {key: mine[key] for key in query if key not in ("age", "silent")} == {
                key: query[key] for key in query if key not in ("age", "silent")
            }
            assert query["arrived"] == query["admitted"] + query["shed"] > 0


def test_a_server_that_stops_does_not_wait_for_who_looks(tmp_path: Path) -> None:
    oracle = WatchedOracle(tmp_path)
    oracle.start()
    with listening(oracle.address) as frames:
        next(frames)
        began = time.monotonic()
        oracle.stop()
        assert time.monotonic() - began < 4  # it would wait for five seconds


def test_a_stranger_gets_the_page_and_no_figures(tmp_path: Path) -> None:
    with a_watched_federation(tmp_path, TOKENS) as (oracle, _):
        page = httpx.get(oracle.address)
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        again = httpx.get(oracle.address, headers={"If-None-Match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        for name, file in page_files().items():
            assert httpx.get(f"{oracle.address}/page/{name}").content == file.content
        assert httpx.get(f"{oracle.address}/page/../page.py").status_code in (401, 404)
        assert httpx.get(f"{oracle.address}/page/%2e%2e/page.py").status_code == 404
        for path in ("/live", "/sites", "/fairness", "/sites/rome/inside"):
            assert httpx.get(f"{oracle.address}{path}").status_code == 401
        with listening(oracle.address, AS_ANN) as frames:
            until_all_are_told(frames)


def test_a_reader_looks_and_changes_nothing(tmp_path: Path) -> None:
    with a_watched_federation(tmp_path, TOKENS, readers=True) as (oracle, federation):
        with listening(oracle.address) as frames:
            until_all_are_told(frames)
        change = {"query": "cov", "weight": 4.0}
        assert httpx.post(f"{oracle.address}/terms", json=change).status_code == 401
        wrong = {"Authorization": "Bearer somebody-elses-token-0123"}
        assert httpx.get(f"{oracle.address}/sites", headers=wrong).status_code == 401
        elsewhere = {"Host": "evil.example"}
        assert httpx.get(f"{oracle.address}/sites", headers=elsewhere).status_code == 401
        assert httpx.get(f"{oracle.address}/sites/rome/inside").status_code == 200
        assert not any(site.terms for site in federation.sites.values())


def test_a_change_reaches_every_site_of_the_query_with_the_callers_token(tmp_path: Path) -> None:
    with a_watched_federation(tmp_path, TOKENS) as (oracle, federation):
        with listening(oracle.address, AS_ANN) as frames:
            until_all_are_told(frames)
        change = {"query": "cov", "weight": 4.0, "floor": 0.25}
        told = httpx.post(f"{oracle.address}/terms", json=change, headers=AS_ANN).json()
        assert set(told["changed"]) == set(CITIES)
        assert told["refused"] == {}
        for site in federation.sites.values():
            assert (site.terms["cov"].weight, site.terms["cov"].floor) == (4.0, 0.25)
        shorter = {"seconds": 9.0}
        address = f"{oracle.address}/sites/rome/latency"
        assert httpx.post(address, json=shorter, headers=AS_ANN).json() == shorter
        assert federation.sites["rome"].latency == 9.0
        inside = httpx.get(f"{oracle.address}/sites/rome/inside", headers=AS_ANN).json()
        assert {gate["stream"] for gate in inside["gates"]} >= {"rome@cov", "rome@avg-all"}
        for body, status in (
            ({"query": "nobody", "weight": 2.0}, 404),
            ({"query": "cov", "weight": 0.0}, 422),
            ({"query": "cov", "floor": 1.5}, 422),
        ):
            answer = httpx.post(f"{oracle.address}/terms", json=body, headers=AS_ANN)
            assert answer.status_code == status
        address = f"{oracle.address}/sites/nowhere/latency"
        assert httpx.post(address, json=shorter, headers=AS_ANN).status_code == 404


def test_only_so_many_may_look_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.dashboard.live.MOST_WATCHERS", 1)
    oracle = WatchedOracle(tmp_path)
    oracle.start()
    try:
        with listening(oracle.address) as frames:
            next(frames)
            assert httpx.get(f"{oracle.address}/live").status_code == 429
    finally:
        oracle.stop()

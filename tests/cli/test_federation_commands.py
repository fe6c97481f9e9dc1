"""The commands of a federation, against a real oracle that was told made-up heartbeats."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from penstock.cli.main import main
from penstock.cli.oracle_runs import tokens_of
from penstock.cli.top import FederationLines, show_once
from penstock.cli.waiting import sites_named
from penstock.errors import PenstockError
from penstock.federation.access import Access
from penstock.federation.history import History, HistoryBounds
from penstock.federation.messages import Heartbeat, QueryStatus, SiteStatistics
from penstock.federation.oracle import Oracle
from penstock.federation.oracle_client import OracleClient
from penstock.federation.oracle_server import oracle_app
from penstock.federation.query_file import FederatedQuery, FragmentEntry
from penstock.federation.serving import ServedApp

SECRET = "the-secret-of-a-submitter"
FRAME = (Path(__file__).parent / "top_once.txt").read_text()
"""What ``top --once`` prints; the worse query comes first. Jain's 0.8 is 1 / (2 (1/16 + 9/16))."""


@contextmanager
def an_oracle(path: Path, accepts: Mapping[str, str] | None = None) -> Iterator[ServedApp]:
    access = Access(accepts or {}, "127.0.0.1")
    with closing(History(path / "history.sqlite", HistoryBounds(resolution_seconds=0))) as history:
        app = oracle_app(Oracle(), history, access)
        with ServedApp(app, access.refusals) as server:
            yield server


def tell(address: str) -> None:
    """Has two sites tell how they are; the root of both queries is in Rome."""
    sites = ["oslo", "rome"]
    queries = [
        QueryStatus(
            query="avg-all",
            sic=0.7,
            sic_now=0.75,
            rows=1200,
            latency_ms={"p50": 3000.0, "p95": 5400.0},
            latency_measured=False,
            fragments=4,
            sites=sites,
        ),
        QueryStatus(query="top-5", sic=0.3, sic_now=0.25, rows=4, fragments=3, sites=sites),
    ]
    rome = SiteStatistics(
        throughput=2100,
        latency_ms=5321,
        latency_measured=True,
        latency_target_ms=6000,
        dropped=1900,
        capacity=2200,
        held_back_by={"tips": "maxOffsetsPerTrigger"},
        average_sic=0.66,
        fragments_running=3,
        fragments_connected=2,
        utilisation=0.97,
        refused={"bad-token": 1, "bad-sql": 1},
    )
    oslo = SiteStatistics(
        throughput=900,
        latency_ms=1234,
        latency_target_ms=6000,
        fragments_running=1,
        fragments_connected=1,
        utilisation=0.5,
    )
    with closing(OracleClient(address)) as client:
        for port, site, told, roots in ((7101, "rome", rome, queries), (7102, "oslo", oslo, [])):
            client.heartbeat(
                Heartbeat(
                    site=site,
                    address=f"http://127.0.0.1:{port}",
                    seq=1,
                    interval=600,
                    statistics=told,
                    queries=roots,
                )
            )


def test_top_shows_sites_and_the_poorest_query_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with an_oracle(tmp_path) as server:
        tell(server.address)
        assert main(["top", "--once", "--oracle", server.address]) == 0
    lines = capsys.readouterr().out.replace(server.address, "ADDRESS").splitlines()
    assert [line.rstrip() for line in lines] == FRAME.splitlines()


def test_list_is_the_same_without_the_past_and_json_has_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with an_oracle(tmp_path) as server:
        tell(server.address)
        assert main(["list", "--oracle", server.address]) == 0
        shown = capsys.readouterr().out
        assert main(["list", "--json", "--oracle", server.address]) == 0
    assert "SIC of late" not in shown
    assert "│ avg-all │    0.75 │" in shown
    told = json.loads(capsys.readouterr().out)
    assert [site["site"] for site in told["sites"]] == ["oslo", "rome"]
    assert told["sites"][1]["statistics"]["refused"] == {"bad-sql": 1, "bad-token": 1}
    assert [query["sic_now"] for query in told["queries"]] == [0.25, 0.75]
    assert (told["jain"], told["mean_sic"]) == (pytest.approx(0.8), 0.5)


def test_an_empty_federation_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with an_oracle(tmp_path) as server, closing(OracleClient(server.address)) as client:
        show_once(client)
    assert "no query has a result yet" in capsys.readouterr().out


def test_a_token_comes_from_the_environment_and_is_never_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with an_oracle(tmp_path, {"someone": SECRET}) as server:
        asked = ["list", "--oracle", server.address]
        monkeypatch.setenv("PENSTOCK_TOKEN", SECRET + "-but-wrong")
        assert main(asked) == 2
        monkeypatch.setenv("MINE", SECRET)
        assert main([*asked, "--token-env", "MINE"]) == 0
    told = capsys.readouterr()
    assert "401" in told.err
    assert SECRET not in told.err + told.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    {
        ("up", "--sites", "1"): "--sites must lie between 2 and 12, such as 3; got 1",
        ("up", "--sites", "13"): "--sites must lie between 2 and 12, such as 3; got 13",
        ("up", "--seconds", "0"): "--seconds must be above 0, such as 180; got 0",
        ("up", "--port", "70000"): "--port must lie between 0 and 65535, such as 7100; got 70000",
        ("up", "--report", "/proc/no/r.json"): "--report must be a file that can be written",
        ("up", "nowhere.yaml"): "nowhere.yaml: No such file or directory",
        ("oracle", "--port", "-1"): "--port must lie between 0 and 65535",
        ("oracle", "--key", "k.pem"): "--certificate must come with --key",
        ("oracle", "--host", "0.0.0.0"): "'host' must be an address of this machine alone",
        ("submit", "q.yaml", "--wait", "-1"): "--wait must be above 0, such as 60; got -1",
        ("top", "--seconds", "nan"): "--seconds must be above 0, such as 2; got nan",
        ("list", "--oracle", "http://127.0.0.1:1"): "GET http://127.0.0.1:1/history: no answer",
        ("stop", "load", "--oracle", "http://127.0.0.1:1"): "no answer",
        ("site", "nowhere.yaml"): "nowhere.yaml: No such file or directory",
        ("check", "nowhere.yaml"): "nowhere.yaml: No such file or directory",
    }.items(),
    ids=lambda given: " ".join(given)[:40] if isinstance(given, tuple) else "",
)
def test_mistakes_are_one_line_and_exit_code_2(
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(list(arguments)) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_short_token_for_up_is_refused_without_showing_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "tooshort")
    assert main(["up"]) == 2
    assert "PENSTOCK_TOKEN must have 16 characters or more; got 8" in capsys.readouterr().err


def test_who_may_call_an_oracle_is_read_without_telling_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text("rome: ${ROME}\noslo: ${OSLO}\n")
    monkeypatch.setenv("ROME", SECRET)
    monkeypatch.setenv("OSLO", "too-short")
    with pytest.raises(PenstockError) as refused:
        tokens_of(file)
    assert "tokens.yaml:2: oslo: expected names, each with a token" in str(refused.value)
    assert "too-short" not in str(refused.value)
    monkeypatch.setenv("OSLO", SECRET[::-1])
    assert tokens_of(file) == {"rome": SECRET, "oslo": SECRET[::-1]}


def oracle_process(directory: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "penstock", "oracle", "--port", "0", "--directory", "o", *more]
    return subprocess.Popen(
        command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_an_oracle_keeps_its_history_and_ends_when_it_is_terminated(tmp_path: Path) -> None:
    with oracle_process(tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("oracle: listens on http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
    assert (tmp_path / "o" / "history.sqlite").exists()


def test_an_oracle_ends_with_its_parent_if_it_is_told_to(tmp_path: Path) -> None:
    """The end of the standard input is what a child sees of a parent that was killed."""
    with oracle_process(tmp_path, "--until-eof") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(20) == 128 + signal.SIGTERM


def test_the_sites_that_a_query_names_are_found() -> None:
    sql = "SELECT avg(cpu) FROM rome.machines UNION ALL oslo.machines"
    assert sites_named(FederatedQuery(query="q", sql=sql)) == {"rome", "oslo"}
    placed = FederatedQuery(query="q", sql=sql, place={"root": "lima", "x": "round-robin"})
    assert sites_named(placed) == {"rome", "oslo", "lima"}
    written = {
        "a": FragmentEntry(sql="SELECT * FROM machines", site="kyoto"),
        "root": FragmentEntry(sql="SELECT * FROM a"),
    }
    assert sites_named(FederatedQuery(query="q", fragments=written)) == {"kyoto"}


def test_submitting_waits_until_the_time_is_over_and_then_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = tmp_path / "q.yaml"
    query.write_text("query: q\nsql: SELECT count(*) FROM rome.machines[Range 1 sec]\n")
    began = time.monotonic()
    with an_oracle(tmp_path) as server:
        arguments = ["submit", str(query), "--wait", "2", "--oracle", server.address]
        assert main(arguments) == 2
    assert 1 <= time.monotonic() - began < 60
    assert "unknown source 'rome.machines'" in capsys.readouterr().err


def test_lines_say_a_thing_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = FederationLines(Console())
    for title in ("one", "one", "two", "one"):
        lines.stage(title)
    assert capsys.readouterr().out == "one\ntwo\none\n"

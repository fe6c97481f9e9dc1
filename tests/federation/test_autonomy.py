"""Who may change what runs at a site, and where results may go."""

from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from penstock.errors import PenstockError
from penstock.federation.autonomy import (
    owned_by,
    refuse_news,
    refuse_order,
    refuse_others,
    refuse_query,
)
from penstock.federation.known_splits import KnownSplits
from penstock.federation.messages import FragmentOrder, LentSource, Place
from penstock.federation.oracle_client import OracleClient
from penstock.federation.refusals import Reason, RefusedError
from penstock.federation.site_file import SiteFile
from penstock.federation.trusted_addresses import SHORTEST_REFRESH_SECONDS, TrustedAddresses
from tests.federation.test_oracle import a_beat
from tests.federation.test_oracle_server import an_oracle

SQL = "SELECT avg(cpu) FROM rome.machines GROUP BY window(ts, '1 second')"


def order(sql: str = SQL, submitter: str = "", sink: dict[str, Any] | None = None) -> FragmentOrder:
    return FragmentOrder.model_validate(
        {
            "query": {"query": "load", "sql": sql, "sink": sink or {"format": "noop"}},
            "fragment": "root",
            "places": {"root": [{"site": "rome", "address": "http://127.0.0.1:7101"}]},
            "catalog": {"rome.machines": {"columns": "ts TIMESTAMP, cpu DOUBLE", "time": "ts"}},
            "submitter": submitter,
        }
    )


def place_of(site: str) -> Place:
    return Place(site=site, address="http://127.0.0.1:1")


def a_site(**more: Any) -> SiteFile:
    return SiteFile.model_validate({"site": "rome", "directory": "x", **more})


def reason_of(given: FragmentOrder, site: SiteFile | None = None) -> str | None:
    try:
        refuse_query(site or a_site(), given)
    except RefusedError as error:
        return error.reason.value
    return None


def test_only_its_submitter_and_its_sites_may_change_a_fragment() -> None:
    mine = owned_by(order(), "alice")
    assert mine.submitter == "alice"
    refuse_others(mine, "alice")
    refuse_others(mine, "rome")
    with pytest.raises(RefusedError) as refused:
        refuse_others(mine, "bob")
    assert refused.value.reason is Reason.FORBIDDEN


def test_news_of_a_query_comes_from_the_site_of_its_root_alone() -> None:
    strict = a_site(accepts={name: name * 8 for name in ("oslo", "alice", "rome")})
    mine = order().model_copy(update={"places": {"root": [place_of("oslo")]}})
    refuse_news(strict, [mine], "load", "oslo")
    refuse_news(strict, [mine], "load", "rome")  # its own coordinator, where the root is here
    refuse_news(a_site(), [mine], "load", "local")
    for caller, query, reason in (
        ("alice", "load", Reason.FORBIDDEN),  # who would have a query of hers favoured
        ("oslo", "other", Reason.UNKNOWN_QUERY),
    ):
        with pytest.raises(RefusedError) as refused:
            refuse_news(strict, [mine], query, caller)
        assert refused.value.reason is reason


def test_what_a_site_does_not_lend_is_refused_before_the_query_is_cut() -> None:
    lent = {"machines": LentSource(columns="ts TIMESTAMP, cpu DOUBLE", time="ts")}
    splits = KnownSplits()
    refuse_order(a_site(), lent, [], splits, order(), "alice")
    other = {"rome.secrets": lent["machines"]}
    asked = order(SQL.replace("machines", "secrets")).model_copy(update={"catalog": other})
    with patch.object(splits, "of", side_effect=AssertionError), pytest.raises(RefusedError) as it:
        refuse_order(a_site(), lent, [], splits, asked, "alice")
    assert it.value.reason is Reason.UNKNOWN_SOURCE


def test_a_site_runs_no_more_fragments_of_others_than_it_lends_room_for() -> None:
    lent = {"machines": LentSource(columns="ts TIMESTAMP, cpu DOUBLE", time="ts")}
    site, splits = a_site(lends={"fragments": 2}), KnownSplits()
    query = order().query
    running = [order().model_copy(update={"query": query.model_copy(update={"query": "other"})})]
    refuse_order(site, lent, running, splits, order(), "alice")
    running.append(order())
    refuse_order(site, lent, running, splits, order(), "alice")  # which runs already
    third = order().model_copy(update={"query": query.model_copy(update={"query": "third"})})
    with pytest.raises(RefusedError, match="runs 2 fragments of others") as refused:
        refuse_order(site, lent, running, splits, third, "alice")
    assert refused.value.reason is Reason.NO_ROOM


def test_nobody_submits_in_the_name_of_another() -> None:
    assert owned_by(order(submitter="alice"), "bob").submitter == "bob"
    assert owned_by(order(submitter="alice"), "rome").submitter == "alice"  # brings it back


@pytest.mark.parametrize(
    "sink",
    [
        {"format": "jdbc", "options": {"url": "jdbc:x"}},
        {"format": "parquet", "path": "/etc"},
        {"format": "parquet", "path": "../../other"},
        {"format": "parquet", "path": "s3:bucket"},
        {"format": "parquet", "path": "out", "options": {"path": "/etc"}},
        {"format": "kafka", "options": {"topic": "x"}},
    ],
)
def test_results_go_below_the_links_or_nowhere(sink: dict[str, Any]) -> None:
    assert reason_of(order(sink=sink)) == "forbidden"
    assert reason_of(order(sink={"format": "parquet", "path": "out/load"})) is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM parquet.`/etc/passwd`",
        "SELECT avg(cpu) FROM oslo.secrets GROUP BY window(ts, '1 second')",
        SQL.replace("avg(cpu)", "reflect('java.lang.System', 'exit', 1)"),
        SQL.replace("avg(cpu)", "java_method('java.lang.System', 'getenv')"),
        "WITH x AS (SELECT * FROM csv.`/etc/passwd`) SELECT * FROM x /* harmless */",
        SQL.replace("avg(cpu)", "/* avg(cpu) */ input_file_name()"),
        "DROP TABLE x",
    ],
)
def test_sql_that_reads_or_runs_what_is_not_lent_is_refused(sql: str) -> None:
    assert reason_of(order(sql)) == "bad-sql"
    assert reason_of(order()) is None


def test_a_site_refuses_whom_its_file_names() -> None:
    assert reason_of(order(), a_site(refuses={"queries": ["load"]})) == "forbidden"
    assert reason_of(order(), a_site(refuses={"queries": ["other"]})) is None


def test_what_would_keep_a_site_busy_is_refused() -> None:
    many = ", ".join(f"sum(cpu + {n})" for n in range(65))
    assert reason_of(order(SQL.replace("avg(cpu)", many))) == "too-large"
    hasty = order()
    for changed in ({"interval": 1.9}, {"interval": 1e6}, {"watermark": 1e300}):
        query = hasty.query.model_copy(update=changed)
        assert reason_of(hasty.model_copy(update={"query": query})) == "forbidden"
    query = hasty.query.model_copy(update={"interval": 2.0})  # which is the site's own
    assert reason_of(hasty.model_copy(update={"query": query})) is None


def test_a_token_goes_to_addresses_that_the_oracle_lists_only() -> None:
    alone = TrustedAddresses(a_site(token="0123456789abcdef"))
    alone.check("http://127.0.0.1:7101")
    for address in ("http://evil.example:80", "http://10.0.0.1:7101"):
        with pytest.raises(PenstockError, match="is not called"):
            alone.check(address)
    TrustedAddresses(a_site()).check("http://evil.example:80")  # no token, nothing to steal


def test_a_site_with_an_oracle_trusts_what_that_lists(tmp_path: Path) -> None:
    now = [0.0]
    with an_oracle(tmp_path) as server, closing(OracleClient(server.address)) as client:
        site = a_site(token="0123456789abcdef", oracle=server.address)
        trusted = TrustedAddresses(site, lambda: now[0])
        beat = a_beat("oslo", {})
        with pytest.raises(PenstockError, match="lists no site there"):
            trusted.check(beat.address)
        client.heartbeat(beat)
        now[0] += SHORTEST_REFRESH_SECONDS + 1
        trusted.check(beat.address)

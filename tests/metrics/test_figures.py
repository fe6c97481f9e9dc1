"""What is collected: all that a report has, under bounded labels, and nothing made up."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from penstock.cli.log_output import JsonLines, log_to_stderr
from penstock.core.types import Batch
from penstock.errors import PenstockError
from penstock.federation.messages import SiteStatistics
from penstock.federation.oracle_messages import ListedQuery, ListedSite, QueriesAnswer
from penstock.metrics.distributions import BATCH_BOUNDS_SECONDS, Distributions
from penstock.metrics.exposition import Exposition
from penstock.metrics.figures import (
    ASKED_FIGURES,
    FEDERATION_FIGURES,
    GUARD_FIGURES,
    LINK_FIGURES,
    ORACLE_QUERY_FIGURES,
    ORACLE_SITE_FIGURES,
    QUERY_FIGURES,
    SITE_FIGURES,
    STATISTICS_FIGURES,
    TERM_FIGURES,
    Figure,
)
from penstock.metrics.listening import place
from penstock.metrics.oracle_collector import OracleCollector
from penstock.metrics.site_collector import (
    MOST_QUERIES,
    OF_STATISTICS,
    PREFIX,
    REFUSED_FIGURES,
    SiteCollector,
)
from penstock.metrics.told import OracleTold, SiteTold
from penstock.spark.site_report import CapacityReport, QueryReport, SiteReport
from tests.metrics.prometheus import promtool
from tests.metrics.samples import a_report, exposed, samples

ROOT = Path(__file__).parent.parent.parent
MONITORING = ROOT / "examples" / "monitoring"


def leaves(kind: Any, prefix: str = "") -> Iterator[str]:
    """The paths to all figures of a report."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        inner = hints[field.name]
        if isinstance(inner, UnionType):  # one that may be None
            inner = get_args(inner)[0]
        if is_dataclass(inner):
            yield from leaves(inner, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def paths(figures: Iterable[Figure]) -> set[str]:
    return {figure.path for figure in figures}


def test_every_figure_of_a_report_is_collected() -> None:
    """Whoever adds one to the report adds it to ``metrics/figures.py`` as well."""
    assert set(leaves(QueryReport)) - {"id"} == paths(QUERY_FIGURES)
    of_site = {f"site.{name}" for name in leaves(CapacityReport)}
    others = {"queries", "guards", *(f"site.{field.name}" for field in fields(CapacityReport))}
    assert of_site | (set(leaves(SiteReport)) - others) == paths(SITE_FIGURES)
    guard = a_report("a", guards=1)["guards"][0]
    assert guard.keys() - {"guard", "function"} == paths(GUARD_FIGURES)


def test_every_figure_of_the_oracle_is_collected() -> None:
    assert set(SiteStatistics.model_fields) - {"refused"} == paths(STATISTICS_FIGURES)
    told = set(ListedQuery.model_fields) - {"query", "site", "sites", "age"}
    assert {path.partition(".")[0] for path in paths(ORACLE_QUERY_FIGURES)} == told
    of_site = {"silent", "overdue", "age"}
    assert of_site <= set(ListedSite.model_fields)
    assert paths(ORACLE_SITE_FIGURES) == of_site
    assert paths(FEDERATION_FIGURES) == set(QueriesAnswer.model_fields) - {"queries"}


def test_figures_are_those_of_the_report() -> None:
    report = a_report("fares", "tips", guards=1)
    found = samples(exposed(SiteTold(report, {"interval": 1, "latency": 2, "stw": 10})))
    for query in report["queries"]:
        label = (("query", query["id"]),)
        assert found["penstock_query_arrived_tuples_total", label] == query["arrived"]
        assert found["penstock_query_shed_tuples_total", label] == query["shed"]
        assert found["penstock_query_sic_mean_ratio", label] == query["sic"]
        percentile = (("percentile", "95"), *label)
        p95 = query["latency_ms"]["p95"] / 1000
        assert found["penstock_query_latency_seconds", percentile] == p95
    assert found["penstock_site_ledger_balanced", ()] == 1.0
    assert found["penstock_site_target_latency_seconds", ()] == 2.0


def test_what_flows_between_sites_is_collected_as_the_page_draws_it() -> None:
    def part(name: str, rows: float, *receivers: str) -> dict[str, Any]:
        return {"id": name, "sends_to": list(receivers), "rows_per_second": rows}

    sites = [
        {
            "site": "rome",
            "statistics": {},
            "fragments": [part("a", 6.0, "r1", "r2"), part("r1", 1.0)],
        },
        {
            "site": "oslo",
            "statistics": {},
            "fragments": [part("b", 5.0, "r1"), part("c", 2.0, "r1")],
        },
        {"site": "kyoto", "statistics": {}, "fragments": [part("r2", 1.0), part("d", 1.0, "gone")]},
    ]
    collector = OracleCollector(lambda: OracleTold(sites, {"queries": []}))
    text = Exposition(collector).written(None)[0].decode()
    assert {
        (labels["sender"], labels["receiver"]): value
        for (name, pairs), value in samples(text).items()
        if name == "penstock_oracle_link_rows_per_second" and (labels := dict(pairs))
    } == {("rome", "kyoto"): 3.0, ("oslo", "rome"): 7.0}


def test_what_nobody_knows_has_no_sample() -> None:
    report = a_report("fares")
    report["queries"][0] |= {"sic_now": None, "backlog": None, "held_back_by": None}
    names = {name for name, _ in samples(exposed(SiteTold(report, {})))}
    assert "penstock_query_sic_mean_ratio" in names
    assert not names & {"penstock_query_sic_now_ratio", "penstock_query_backlog_tuples"}
    assert "penstock_query_would_shed_tuples_total" not in names


def test_labels_are_bounded_and_nothing_is_lost_in_the_sums() -> None:
    """Names beyond the bound share a series; one that had a series of its own keeps it."""
    told = [SiteTold(a_report("zebra"), {})]
    collector = SiteCollector(lambda: told[-1])
    list(collector.collect())
    many = a_report("zebra", *(f"q{n:04d}" for n in range(2 * MOST_QUERIES)), guards=200)
    told.append(SiteTold(many, {}))
    found = samples(exposed(collector=collector))
    arrived = {
        dict(labels)["query"]: v
        for (n, labels), v in found.items()
        if n.endswith("ved_tuples_total") and "query" in dict(labels)
    }
    assert len(arrived) == MOST_QUERIES + 1
    assert {"zebra", "_others"} <= arrived.keys()
    assert sum(arrived.values()) == sum(query["arrived"] for query in many["queries"])
    sic = min(query["sic"] for query in many["queries"] if query["id"] not in arrived)
    assert found["penstock_query_sic_mean_ratio", (("query", "_others"),)] == sic
    assert len(found) < 30 * (MOST_QUERIES + 100)


def test_histograms_count_as_numpy_does() -> None:
    distributions, rng = Distributions(), np.random.default_rng(1)
    seconds = rng.exponential(1.0, 500)
    for number, took in enumerate(seconds.tolist()):
        distributions.counted(Batch("fares", number, 0.0, took, {}), [took, 2 * took], 10)
    found = samples(exposed(SiteTold(a_report(), {}), distributions))
    for bound in BATCH_BOUNDS_SECONDS:
        key = "penstock_batch_duration_seconds_bucket", (("le", str(bound)), ("stream", "fares"))
        assert found[key] == (seconds <= bound).sum()
    count = "penstock_tuple_latency_seconds_count", (("stream", "fares"),)
    assert found[count] == 500 * 10
    total = "penstock_tuple_latency_seconds_sum", (("stream", "fares"),)
    assert found[total] == pytest.approx(seconds.sum() * 15)


def test_promtool_finds_nothing_to_complain_about() -> None:
    told = SiteTold(
        a_report("fares", guards=1, watch=True),
        {"interval": 1, "latency": 2, "stw": 10},
        {"fares": {"weight": 1.0, "floor": 0.0}},
        SiteStatistics(refused={"bad-json": 1}, average_sic=1.0).model_dump(),
    )
    distributions = Distributions()
    distributions.planned("fares", 0.01)
    distributions.counted(Batch("fares", 0, 0.0, 1.0, {}), [1.0], 1)
    text = exposed(told, distributions)
    done = promtool("check", "metrics", given=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    bad = promtool("check", "metrics", given=text.replace("_seconds", "_ms"))
    assert bad.returncode != 0, "promtool would not have noticed anything"


def test_the_examples_for_prometheus_are_what_it_takes(tmp_path: Path) -> None:
    for file in MONITORING.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "prometheus.token").write_text("a-token-of-twenty-four-letters")
    done = promtool("check", "config", str(tmp_path / "prometheus.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 rules found" in done.stdout


def names_of_all() -> set[str]:
    """The names under which samples come, of everything that can be collected."""
    tables = (
        (QUERY_FIGURES, ""),
        (TERM_FIGURES, ""),
        (GUARD_FIGURES, ""),
        (SITE_FIGURES, ""),
        (ASKED_FIGURES, ""),
        (OF_STATISTICS, PREFIX),
        (REFUSED_FIGURES, ""),
        (ORACLE_SITE_FIGURES, "penstock_oracle_site_"),
        (STATISTICS_FIGURES, "penstock_oracle_site_"),
        (ORACLE_QUERY_FIGURES, "penstock_oracle_query_"),
        (FEDERATION_FIGURES, ""),
        (LINK_FIGURES, ""),
    )
    found = {
        prefix + figure.name + ("_total" if figure.kind == "counter" else "")
        for figures, prefix in tables
        for figure in figures
    }
    histograms = Distributions().histograms
    parts = {f"{name}{part}" for name in histograms for part in ("", "_bucket", "_sum", "_count")}
    return found | parts | {"penstock_build_info"}


@pytest.mark.parametrize(
    "file",
    [*sorted(MONITORING.iterdir()), ROOT / "docs" / "operations.md"],
    ids=lambda file: file.name,
)
def test_what_names_metrics_names_those_that_there_are(file: Path) -> None:
    text = file.read_text()
    named = set(re.findall(r"\bpenstock_[a-z_]+", text))
    assert named - names_of_all() == set()
    assert len(named) >= 8 or file.name == "prometheus.yaml"


@pytest.mark.parametrize("given", ["", "x", "-1", "65536", "host:", True, "1e3", "٣"])
def test_a_place_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(PenstockError, match="metrics must be a port, such as 9464, or an address"):
        place(given)


def test_a_log_in_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("penstock")
    before = (list(log.handlers), log.level, log.propagate)
    try:
        log_to_stderr("json")
        log.info("the site %s\nstops", "rome")
        try:
            raise ValueError("a disk is full")
        except ValueError:
            logging.getLogger("penstock.federation").exception("cannot write")
    finally:
        log.handlers[:], log.level, log.propagate = before[0], before[1], before[2]
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"]) == ("info", "penstock")
    assert first["message"] == "the site rome\nstops"
    assert second["logger"] == "penstock.federation"
    assert "ValueError: a disk is full" in second["error"]


def test_a_log_in_json_takes_what_json_cannot() -> None:
    record = logging.LogRecord("penstock", logging.ERROR, "", 0, "%s", (object(),), None)
    record.exc_info = (ValueError, ValueError("\udce4"), None)
    assert json.loads(JsonLines().format(record))["level"] == "error"


def test_metrics_need_their_extra_and_say_so() -> None:
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from penstock.errors import PenstockError\n"
        "from penstock.core.settings import Settings\n"
        "from penstock.spark.site_metrics import SiteMetrics\n"
        "try:\n"
        "    SiteMetrics(0).serve(None, None)\n"
        "except PenstockError as error:\n"
        "    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert "pip install 'penstock[metrics]'" in done.stdout, done.stderr

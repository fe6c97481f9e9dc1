"""The doctor: what it says of machines that are not here, and of files with what hurts in them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.doctor_looks import facts_of_machine, findings
from penstock.cli.main import main
from penstock.doctor.finding import Finding
from penstock.doctor.job_settings import job_findings
from penstock.doctor.site_safety import PlannedSite, site_findings
from penstock.doctor.this_machine import MachineFacts, machine_findings
from penstock.doctor.versions import fits, requirements
from penstock.federation.site_file import SiteFile
from tests.jobs.broken import GOOD

ASKED = tuple(
    requirements(
        ["numpy>=2.0", "pyspark<5,>=4.2.0; extra == 'spark'", "sqlglot>=30; extra == 'spark'"]
    )
)
WELL = MachineFacts(
    python=(3, 11),
    java='openjdk version "17.0.2"',
    packages={"numpy": "2.4.6", "pyspark": "4.3.0", "sqlglot": "30.1"},
    asked=ASKED,
    has_jar=True,
    memory_bytes=8 * 2**30,
    cores=4,
)
"""A machine on which everything is as it should be."""


def lines(found: Iterable[Finding], *levels: str) -> list[str]:
    return [finding.line() for finding in found if finding.level in (levels or ("note", "bad"))]


def test_a_package_of_two_extras_is_told_once() -> None:
    twice = requirements(["fastapi>=1; extra == 'page'", "fastapi>=1; extra == 'sites'"])
    for have in ({"fastapi": "1.2"}, {"fastapi": "0.9"}):
        facts = replace(WELL, asked=tuple(twice), packages={"pyspark": "4.3.0", **have})
        assert sum("fastapi" in finding.about for finding in machine_findings(facts)) == 1


def test_a_machine_that_is_well_is_told_so() -> None:
    assert lines(machine_findings(WELL)) == []
    assert len(lines(machine_findings(WELL), "good")) == 6


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"python": (3, 10)}, "BAD   Python: 3.10; use 3.11 or newer"),
        (
            {"java": None},
            "BAD   Java: there is none, and Spark needs one; install Java 17 or newer",
        ),
        ({"java": 'java version "1.8.0_392"'}, "BAD   Java: version 8 is too old for Spark"),
        ({"java": "Segmentation fault"}, "NOTE  Java: its version is not known: 'Segmentation"),
        (
            {"packages": {**WELL.packages, "pyspark": "3.5.1"}},
            "BAD   pyspark: 3.5.1 is not within <5,>=4.2.0; pip install 'pyspark<5,>=4.2.0'",
        ),
        (
            {"packages": {"numpy": "2.1", "pyspark": "4.3.0", "sqlglot": None}},
            "BAD   sqlglot: is missing; pip install 'penstock[spark]'",
        ),
        (
            {"packages": {"numpy": "2.1"}},
            "NOTE  pyspark: is missing: no job can run here; pip install 'penstock[spark]'",
        ),
        ({"packages": {}, "asked": ASKED[:1]}, "BAD   numpy: is missing; pip install 'penstock'"),
        ({"has_jar": False}, "BAD   penstock.jar: this Penstock has no classes for the JVM"),
        ({"memory_bytes": 2**30}, "NOTE  memory: 1.0 GB free, 4 cores; a driver takes 1 GB"),
        (
            {"environment": {"SPARK_REMOTE": "sc://spark:15002"}},
            "BAD   SPARK_REMOTE: is set to 'sc://spark:15002', so that Spark begins as a Connect",
        ),
    ],
)
def test_a_machine_that_is_not_gets_a_line_with_what_to_change(
    changed: dict[str, Any], line: str
) -> None:
    found = lines(machine_findings(replace(WELL, **changed)))
    assert any(told.startswith(line) for told in found), found


def test_this_machine_runs_these_tests_and_so_is_well() -> None:
    assert lines(machine_findings(facts_of_machine()), "bad") == []


# --- jobs ---------------------------------------------------------------------------------------

KAFKA = """\
checkpoint: state
spark: {spark.master: "local[2]", SPARK}
sources:
  rides: {format: kafka, time: timestamp, options: {subscribe: rides, OPTION}}
queries:
  fares:
    sql: SELECT window.start, count(*) AS c FROM rides GROUP BY window(timestamp, '5 seconds')
    sink: {format: noop}
"""
CONNECTOR = 'spark.jars.packages: "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"'


def of_job(tmp_path: Path, text: str) -> list[str]:
    """What is said of a job, with 4 cores and 8 GB free; the file is called ``job``."""
    from penstock.cli.doctor_looks import _job

    path = tmp_path / "job.yaml"
    path.write_text(text)
    job = replace(_job(path), name="job")
    return lines(job_findings(job, "4.3.0", 4, 8 * 2**30))


def test_a_job_without_anything_that_hurts(tmp_path: Path) -> None:
    text = KAFKA.replace("SPARK}", f"{CONNECTOR}}}").replace(", OPTION", "")
    assert of_job(tmp_path, text) == []


@pytest.mark.parametrize(
    ("spark", "line"),
    [
        (
            "spark.driver.memory: 1g",
            "BAD   job: spark.jars.packages: does not name Kafka's connector, which PySpark does "
            "not bring along; add org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0",
        ),
        (
            CONNECTOR.replace("4.3.0", "4.0.1"),
            "BAD   job: spark.jars.packages: org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1 is "
            "not of this Spark, which is 4.3.0; write org.apache.spark:spark-sql-kafka-0-10",
        ),
        (
            CONNECTOR.replace("2.13", "2.12"),
            "BAD   job: spark.jars.packages: org.apache.spark:spark-sql-kafka-0-10_2.12:4.3.0 is "
            "for Scala 2.12; take the one for 2.13",
        ),
        (
            "spark.jars.packages: kafka",
            "BAD   job: spark.jars.packages: 'kafka' is no package of Maven; write group:name_2.13",
        ),
        (
            f"{CONNECTOR}, spark.sql.shuffle.partitions: 200",
            "NOTE  job: spark.sql.shuffle.partitions: 200 partitions on 4 cores: each costs",
        ),
        (
            f"{CONNECTOR}, spark.driver.memory: 16g",
            "BAD   job: spark.driver.memory: 16g of 8.0 GB that are free leaves too little",
        ),
        (
            f"{CONNECTOR}, spark.api.mode: connect",
            "BAD   job: spark.api.mode: makes a Connect client",
        ),
        (
            f"{CONNECTOR}, spark.sql.optimizer.excludedRules: "
            "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
            "BAD   job: spark.sql.optimizer.excludedRules: has ConstantFolding, by which a gate",
        ),
    ],
)
def test_settings_that_hurt(tmp_path: Path, spark: str, line: str) -> None:
    found = of_job(tmp_path, KAFKA.replace("SPARK", spark).replace(", OPTION", ""))
    assert any(told.startswith(line) for told in found), found


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "OPTION",
            "maxOffsetsPerTrigger: 5000",
            "NOTE  job: sources.rides.options.maxOffsetsPerTrigger: a batch reads at most 5,000",
        ),
        ("checkpoint: state\n", "", "NOTE  job: checkpoint: is missing, so that a job that is"),
        (
            'checkpoint: state\nspark: {spark.master: "local[2]"',
            'spark: {spark.master: "spark://host:7077"',
            "BAD   job: checkpoint: is missing, and on a cluster executors keep the state",
        ),
        (
            "checkpoint: state",
            "checkpoint: state\ninterval: 2s\nlatency: 3s",
            "NOTE  job: latency: 3 s leaves a batch 1 s: a tuple waits for up to an interval; "
            "shorten the interval to 1.5s, or give 4s",
        ),
        ("checkpoint: state", "checkpoint: state\ninterval: 50ms", "NOTE  job: interval: 0.05 s"),
        ("format: kafka", "format: iceberg", "NOTE  job: sources.rides.arrival: is not given"),
        ("format: kafka", "format: iceberg", "NOTE  job: sources.rides.id: is not given, so that"),
        (
            "SELECT window.start, count(*) AS c FROM rides GROUP BY window(timestamp, '5 seconds')",
            "SELECT key, count(*) AS c FROM rides GROUP BY key\n    mode: update",
            "NOTE  job: queries.fares: groups without a window: its state grows with every new",
        ),
        (
            "sink: {format: noop}",
            "sink: {format: delta, path: out}\n    mode: complete",
            "NOTE  job: queries.fares.mode: complete writes the whole result in each batch",
        ),
    ],
)
def test_what_hurts_in_a_job(tmp_path: Path, old: str, new: str, line: str) -> None:
    text = KAFKA.replace(old, new).replace("SPARK}", f"{CONNECTOR}}}").replace(", OPTION", "")
    found = of_job(tmp_path, text)
    assert any(told.startswith(line) for told in found), found


def test_a_join_without_a_watermark_is_seen(tmp_path: Path) -> None:
    text = KAFKA.replace("SPARK}", f"{CONNECTOR}}}").replace(", OPTION", "")
    text = text.replace("queries:", "  tips: {format: kafka, options: {subscribe: tips}}\nqueries:")
    sql = "SELECT rides.value FROM rides JOIN tips ON rides.key = tips.key"
    old = "SELECT window.start, count(*) AS c FROM rides GROUP BY window(timestamp, '5 seconds')"
    (told,) = of_job(tmp_path, text.replace(old, sql))
    assert told.startswith("NOTE  job: queries.fares: joins tips, which has no watermark, so that")


# --- federations ----------------------------------------------------------------------------------

ROME, OSLO = "token-of-rome-0123456789", "token-of-oslo-0123456789"


def a_site(name: str, port: int, /, **changed: Any) -> PlannedSite:
    given = {
        "site": name,
        "port": port,
        "directory": name,
        "links": "links",
        "token": {"rome": ROME, "oslo": OSLO}[name],
        "accepts": {"rome": ROME, "oslo": OSLO},
        **changed,
    }
    return PlannedSite(f"{name}.yaml", SiteFile.model_validate(given))


def test_two_sites_that_know_each_other() -> None:
    assert lines(site_findings([a_site("rome", 7101), a_site("oslo", 7102)])) == []


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"port": 7102}, "BAD   rome.yaml, oslo.yaml: port: have the same address, 127.0.0.1:7102"),
        ({"site": "oslo"}, "BAD   rome.yaml, oslo.yaml: site: have the same name, oslo"),
        ({"directory": "oslo"}, "BAD   rome.yaml, oslo.yaml: directory: have the same directory"),
        ({"links": "elsewhere"}, "BAD   rome.yaml, oslo.yaml: do not share a directory of links"),
        ({"links": None}, "BAD   rome.yaml, oslo.yaml: do not share a directory of links"),
        (
            {"accepts": {"rome": ROME, "submitter": "token-of-nobody-01234"}},
            "BAD   rome.yaml: accepts: does not have the token of oslo, whose news it will refuse",
        ),
        (
            {"accepts": {"rome": ROME, "oslo": OSLO, "ann": OSLO}},
            "BAD   rome.yaml: accepts: ann, oslo have the same token",
        ),
        ({"token": None}, "NOTE  rome.yaml: token: is not given, so that this site cannot call"),
        ({"host": "10.0.0.7"}, "NOTE  rome.yaml: tls: is not given, so that tokens and rows cross"),
        ({"host": "0.0.0.0"}, "BAD   rome.yaml: address: is not given, and others cannot reach"),
        ({"port": 0}, "NOTE  rome.yaml: port: is any that is free, and no oracle tells others"),
        (
            {"oracle": "http://oracle.example:7100"},
            "BAD   rome.yaml: oracle: is called without TLS at another machine, with the token",
        ),
    ],
)
def test_what_is_wrong_with_a_federation(changed: dict[str, Any], line: str) -> None:
    found = lines(site_findings([a_site("rome", 7101, **changed), a_site("oslo", 7102)]))
    assert any(told.startswith(line) for told in found), found
    assert ROME not in "".join(found)
    assert OSLO not in "".join(found), "no token is shown"


# --- the command ----------------------------------------------------------------------------------


def test_the_command_says_one_line_for_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("interval: 1s", "interval: soon"))
    assert main(["doctor", str(good)]) == 0
    out = capsys.readouterr().out
    assert "NOTE" in out
    assert out.splitlines()[-1].endswith("to look at")
    assert main(["doctor", str(bad), str(good), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (mistake,) = [finding for finding in told if finding["level"] == "bad"]
    assert mistake["found"].startswith(f"{bad}:2: interval: ")
    assert main(["doctor", str(tmp_path / "missing.yaml")]) == 1
    assert "No such file or directory" in capsys.readouterr().out


def test_a_port_that_is_taken_and_an_oracle_that_is_away_are_seen(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port, nobody = taken.getsockname()[1], free.getsockname()[1]
        path = tmp_path / "rome.yaml"
        path.write_text(
            f"site: rome\nport: {port}\ndirectory: state\noracle: http://127.0.0.1:{nobody}\n"
        )
        told = lines(findings([path]))
    assert f"NOTE  {path}: port: something listens on 127.0.0.1:{port} already; " in told[0]
    assert f"NOTE  {path}: oracle: http://127.0.0.1:{nobody} does not answer" in told[1]


@pytest.mark.parametrize(
    ("version", "bounds", "does"),
    [
        ("4.2.0", ">=4.2.0,<5", True),
        ("4.10", ">=4.2.0,<5", True),
        ("5.0.0.dev3", "<5", False),
        ("2.3", "==2.3.0", True),
        ("1", ">1", False),
        ("unknown", ">=1", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, bounds: str, does: bool) -> None:
    assert fits(version, bounds) is does

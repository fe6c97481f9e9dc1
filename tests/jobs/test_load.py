"""Job files: what they mean, and what is said of broken ones."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.errors import PenstockError
from penstock.jobs.load import load
from penstock.jobs.model import EVERY_SOURCE, ConceptEntry
from penstock.units import amount
from penstock.windows.concept import Concept
from tests.jobs.broken import BROKEN, GOOD, Broken

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def written(directory: Path, text: str) -> Path:
    path = directory / "job.yaml"
    path.write_text(text)
    (directory / "trips").mkdir(exist_ok=True)
    (directory / "file.txt").touch()
    return path


def test_a_job_is_what_the_file_says(tmp_path: Path) -> None:
    loaded = load(written(tmp_path, GOOD))
    job = loaded.job
    assert (job.interval, job.latency, job.policy) == (1.0, 2.0, "balance-sic")
    rides, trips = job.sources["rides"], job.sources["trips"]
    assert (rides.rate, rides.event_time, rides.lateness) == (2000.0, "_arrival", 0.0)
    assert [(step.at, step.factor) for step in rides.profile or []] == [(0.0, 1.0), (20.0, 5.0)]
    assert (trips.event_time, trips.lateness) == ("at", 10.0)
    fares = job.queries["fares"]
    assert (fares.strata, fares.floor, fares.bounds) == ({EVERY_SOURCE: ["route"]}, 0.1, 0.95)
    assert loaded.queries["trips"].plain == (
        "SELECT count(*) AS trips FROM trips GROUP BY window(trips.at, '1 minute')"
    )


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.what)
def test_one_clear_message_with_its_place(
    broken: Broken, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert broken.old in GOOD
    path = written(tmp_path, broken.text)
    if broken.spark:  # see tests/spark/test_jobs.py
        load(path)
        return
    assert main(["check", str(path)]) == 2
    assert capsys.readouterr().err == f"penstock check: {path}{broken.message}\n"
    assert main(["run", str(path)]) == 2


def test_a_file_can_say_of_a_concept_what_python_can() -> None:
    assert list(ConceptEntry.model_fields) == [field.name for field in fields(Concept)]


def test_there_are_thirty_broken_jobs_and_more() -> None:
    assert len({broken.what for broken in BROKEN}) == len(BROKEN) >= 30


def test_variables_of_the_environment_stay_secret(tmp_path: Path) -> None:
    text = GOOD.replace("path: trips", "path: '${WHERE:-trips}/${USER_ID}$${X}'")
    loaded = load(written(tmp_path, text), {"USER_ID": "007"})
    assert loaded.job.sources["trips"].path == "trips/007${X}"
    broken = GOOD.replace("rate: 2k", "rate: ${SECRET}")
    with pytest.raises(PenstockError) as caught:
        load(written(tmp_path, broken), {"SECRET": "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert "${SECRET}" in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="No such file"):
        load(tmp_path / "nothing.yaml")
    (tmp_path / "job.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(PenstockError, match="not text in UTF-8"):
        load(tmp_path / "job.yaml")


def test_reading_a_job_loads_no_spark() -> None:
    code = "import sys, penstock.jobs.load; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_good(path: Path) -> None:
    assert load(path).queries


def test_examples_are_those_of_the_papers() -> None:
    names = {path.stem for path in EXAMPLES}
    assert names >= {"avg", "max", "count", "avg-all", "top-5", "cov", "routes"}


@pytest.mark.parametrize(
    ("text", "number"), [("200k", 2e5), ("1.5M", 1.5e6), ("2_000", 2e3), (7, 7.0)]
)
def test_amounts(text: str | int, number: float) -> None:
    assert amount(text) == number


@pytest.mark.parametrize("text", ["", "k", "-3", "ten", "1 T", None, True, float("nan")])
def test_what_is_no_amount(text: object) -> None:
    with pytest.raises(ValueError, match="amount"):
        amount(text)  # any type may stand in a file

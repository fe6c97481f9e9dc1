"""`penstock simulate`: what people and programs read."""

import json
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.cli.simulate import reply
from penstock.errors import PenstockError
from penstock.sim.what_if import Answer, Question, SweepPoint, ask
from tests.sim.support import small

SCENARIO = """\
seed: 1
duration: 20s
stw: 5s
sites: {count: 2, capacity: 2000}
queries:
  - {kind: avg-all, count: 4, fragments: 1-2}
  - {kind: cov, count: 2}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    return path


def test_json_as_designed(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(scenario), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {
        "mean_sic", "jain", "std", "iqr", "q95_q05", "queries", "sites", "tuples", "wall_seconds",
    }  # fmt: skip
    assert set(answer["queries"][0]) == {"id", "kind", "fragments", "sic"}
    assert set(answer["sites"][0]) == {"id", "utilisation", "shed_share"}
    counts = answer["tuples"]
    assert counts["arrived"] == counts["admitted"] + counts["shed"] + counts["waiting"]
    assert 0 < answer["mean_sic"] < 1
    assert len(answer["queries"]) == 6
    assert len(answer["sites"]) == 2


def test_page_and_pictures(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(scenario), "--plot", str(tmp_path / "plots")]) == 0
    page = capsys.readouterr().out
    assert page.startswith("6 queries in ")
    assert "Jain's index" in page
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {"sic-over-time.svg", "jain-over-time.svg", "queries.svg"}


def test_what_if_in_words(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--what-if", "capacity=1000:4000:3", "--at-least", "0.5"]
    assert main(["simulate", str(scenario), *arguments]) == 0
    page = capsys.readouterr().out
    assert "tuples/s at each site is needed for a mean SIC of at least 0.5." in page


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["--what-if", "colour=1:2"], "dials are queries, sites, capacity, rate"),
        (["--what-if", "queries=9:3"], "FROM is above 0 and below TO"),
        (["--at-least", "0.5"], "--at-least must come with --what-if"),
    ],
)
def test_bad_use(
    arguments: list[str], answer: str, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(scenario), *arguments]) == 2
    assert answer in capsys.readouterr().err


def test_more_queries_lower_the_mean_and_the_limit_is_found_exactly() -> None:
    scenario = small(queries=12, fragments="1-2", duration="20s", stw="5s", sites=2)
    answer = ask(scenario, Question.parse("queries=2:14:4"), 0.5, lambda _, __: None)
    means = {p.at: p.mean_sic for p in answer.points}
    assert answer.limit is not None
    assert means[answer.limit] >= 0.5
    assert means[answer.limit + 1] < 0.5
    assert answer.json()["limit"] == answer.limit


def test_sites_are_added_with_the_same_capacity() -> None:
    scenario = small(queries=6, duration="20s", stw="5s", sites=2)
    answer = ask(scenario, Question.parse("sites=2:6:3"), None, lambda _, __: None)
    means = [p.mean_sic for p in answer.points]
    assert means == sorted(means)
    assert means[-1] > 1.5 * means[0]


def test_sites_of_different_capacity_cannot_be_swept() -> None:
    scenario = small(sites=2).changed(sites={"count": 2, "capacity": [100, 200]})
    with pytest.raises(PenstockError, match="same capacity"):
        ask(scenario, Question.parse("sites=2:6:3"), None, lambda _, __: None)


def _answer(*means: float) -> Answer:
    points = tuple(SweepPoint(100.0 * (i + 1), mean, 1.0, 1.0) for i, mean in enumerate(means))
    return Answer(Question("queries", tuple(p.at for p in points)), points, None, None)


def test_the_thesis_trade_off_by_hand() -> None:
    """Cost falls to a half, a third, a quarter; quality by 20 %, 60 %, 75 %."""
    answer = _answer(1.0, 0.8, 0.4, 0.25)
    gains = [gain for _, gain in answer.advantages()]
    assert gains == pytest.approx([0.0, 0.3, 2 / 3 - 0.6, 0.0])
    best, gain = answer.best()
    assert (best, round(gain, 9)) == (200.0, 0.3)
    assert answer.tipping_point() == 400.0
    assert _answer(1.0, 0.9, 0.8).tipping_point() is None


def test_a_sweep_as_people_read_it() -> None:
    points = (
        SweepPoint(10, 1.0, 1.0, 0.51),
        SweepPoint(20, 0.8, 0.998, 0.99),
        SweepPoint(40, 0.25, 0.9, 1.0),
    )
    answer = Answer(Question("queries", (10, 20, 40)), points, 0.5, 20)
    assert (
        reply(answer)
        == """\
     queries   mean SIC     Jain   utilisation
          10      1.000    1.000          51%
          20      0.800    0.998          99%
          40      0.250    0.900         100%

Up to 20 queries have a mean SIC of at least 0.5.
From 10 queries on, a query's cost falls furthest ahead of its quality at 20 queries (by 30%).
One more query stops paying at about 40 queries."""
    )
    far = Answer(Question("queries", (10, 20)), points[:2], 0.5, 20)
    assert "All of the sweep has a mean SIC of at least 0.5: sweep further" in reply(far)

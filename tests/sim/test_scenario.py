"""Scenario files: what is understood, and what a mistake is answered with."""

from pathlib import Path

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.sim.deployment import deploy
from penstock.sim.placement import zipf_weights
from penstock.sim.query_graph import KINDS, RequestedQueries, lay_out_queries
from penstock.sim.scenario import Scenario, load
from tests.sim.support import small

HEAD = "sites: {count: 3, capacity: 50}\n"
QUERIES = "queries:\n  - {kind: cov, count: 3}\n"


def _load(text: str, directory: Path) -> Scenario:
    path = directory / "s.yaml"
    path.write_text(text)
    return load(path)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            f"sites: {{count: 3, capcity: 5}}\n{QUERIES}",
            ":1: sites.capcity: unknown key; did you mean 'capacity'?",
        ),
        (
            f"{HEAD}queries:\n  - {{kind: avgall, count: 3}}\n",
            ":3: queries[0].kind: 'avgall' is not a kind: there are avg, max,",
        ),
        (
            f"sites: {{count: 3, capacity: -5}}\n{QUERIES}",
            ":1: sites.capacity: expected a number greater than 0, found '-5'",
        ),
        (
            f"sites: {{count: 3, capacity: [5, 6]}}\n{QUERIES}",
            ":1: sites.capacity: 2 capacities for 3 sites",
        ),
        (
            f"{HEAD}queries:\n  - {{kind: avg, count: 3, fragments: 2}}\n",
            ":3: queries[0].fragments: a query of kind 'avg' has one source and one fragment",
        ),
        (
            f"{HEAD}queries:\n  - {{kind: cov, count: 3, fragments: 5-2}}\n",
            ":3: queries[0].fragments: '5-2' is not a range",
        ),
        (
            f"{HEAD}{QUERIES}sources: {{burst: {{share: 0.95, factor: 3}}}}\n",
            ":4: sources.burst.length: spells of 1 s cannot fill a share of 0.95: a pause",
        ),
        (
            f"{HEAD}{QUERIES}duration: 20s\nwarm_up: 20s\n",
            ":5: warm_up: nothing is left of the run to be measured",
        ),
        (
            f"{HEAD}{QUERIES}duration: 3 parsecs\n",
            ":4: duration: must be a duration, such as '1 second' or '500ms'; got '3 parsecs'",
        ),
        (f"{HEAD}{QUERIES}duration: 3s\n", ":4: duration: a run lasts for at least two STWs"),
        (f"{HEAD}{QUERIES}policy: balanse-sic\n", "did you mean 'balance-sic'?"),
        (
            f"{HEAD}{QUERIES}failures:\n  - {{site: 7, at: 3s, for: 5s}}\n",
            ":5: failures[0].site: there is no site 7: they are numbered from 0",
        ),
        (
            f"{HEAD}{QUERIES}failures:\n  - {{at: 3s, for: 5s}}\n",
            ":5: failures[0]: a failure names either a site or a coordinator",
        ),
        (f"{HEAD}{HEAD}", ":2: sites: this key is given twice"),
        (HEAD, ":1: 'queries' is missing"),
        ("[1, 2]", ":1: expected keys with values, found a list"),
        ("", "the file is empty"),
        ("sites: {count: 3", ":1: this is not YAML: expected ',' or '}'"),
        ("\x00", "special characters are not allowed"),
    ],
)
def test_a_mistake_is_told_with_line_key_and_remedy(text: str, answer: str, tmp_path: Path) -> None:
    with pytest.raises(PenstockError) as caught:
        _load(text, tmp_path)
    assert answer in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "s.yaml"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="No such file"):
        load(tmp_path / "none.yaml")


def test_an_unknown_coordinator_is_told() -> None:
    from penstock.sim.simulation import Simulation

    with pytest.raises(PenstockError, match="no query 'nobody'"):
        Simulation(small(failures=[{"coordinator": "nobody", "at": 1, "for": 1}]))


@pytest.mark.parametrize("path", sorted(Path("examples/scenarios").glob("*.yaml")), ids=str)
def test_examples_are_understood(path: Path) -> None:
    assert load(path).sites.count > 1


def test_there_are_examples() -> None:
    assert len(list(Path("examples/scenarios").glob("*.yaml"))) >= 2


def test_zipf_as_the_thesis_has_it() -> None:
    assert (150 * zipf_weights(20)).reshape(4, 5).sum(axis=1).tolist() == pytest.approx(
        [10, 20, 40, 80]
    )


@pytest.mark.parametrize("placement", ["zipf", "uniform", "round-robin", "by-load"])
def test_fragments_of_a_query_are_on_different_sites(placement: str) -> None:
    deployed = deploy(small(queries=30, fragments="1-4", placement=placement))
    work = deployed.work
    for query in range(len(work.ids)):
        sites = deployed.site_of[work.query == query]
        assert len(set(sites.tolist())) == sites.size


def test_by_load_is_even_and_zipf_is_not() -> None:
    def loads(placement: str) -> list[float]:
        deployed = deploy(small(queries=90, placement=placement))
        loads = np.bincount(deployed.site_of, deployed.work.sources)
        return [float(load) for load in loads]

    even, skewed = loads("by-load"), loads("zipf")
    assert max(even) <= 1.05 * min(even)
    assert max(skewed) >= 3 * min(skewed)


def test_table_1() -> None:
    kinds = {name: (kind.sources, kind.operators) for name, kind in KINDS.items()}
    assert kinds["avg-all"] == (10, 13)
    assert kinds["top-5"] == (20, 29)
    assert kinds["cov"] == (2, 5)


def test_avg_all_is_a_tree_and_top_5_a_chain() -> None:
    work = lay_out_queries(
        [RequestedQueries("avg-all", (4, 4)), RequestedQueries("top-5", (4, 4))],
        np.random.default_rng(0),
    )
    assert work.down.tolist() == [-1, 0, 0, 0, -1, 4, 5, 6]
    assert work.depth.tolist() == [0, 1, 1, 1, 0, 1, 2, 3]
    assert work.share.tolist() == [0.25] * 8

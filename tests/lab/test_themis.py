"""Every experiment on federations, briefly: it runs, and what does not need size holds."""

import pytest

from penstock.lab.experiments import available, get
from penstock.lab.reproduce import family
from penstock.lab.result import page

NEEDS_MORE = {
    "dissp-policies": "its IQR",  # more queries than a handful on a third of the sites
    "themis-overhead": "300 s of 18 sites",  # a machine that does nothing else
}
"""Claims that a brief run cannot show."""
NAMES = [*family("themis"), *family("dissp")]


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_holds(name: str) -> None:
    said: list[float] = []
    result = get(name).run(0.0, lambda _, done: said.append(done))
    assert said == sorted(said)
    assert result.tables
    assert result.figures
    assert result.paper
    failing = [claim for claim, good in result.holds.items() if not good]
    assert [c for c in failing if not c.startswith(NEEDS_MORE.get(name, "(none)"))] == []
    assert page(result, name).startswith("# ")


def test_a_family_is_all_that_begins_with_its_name() -> None:
    assert len(family("themis")) >= 8
    assert len(family("dissp")) >= 2
    assert family("themis-scale") == ["themis-scale"]
    assert family("nothing") == ["nothing"]
    assert set(NAMES) <= set(available())

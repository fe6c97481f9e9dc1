"""The federation for trying out, and the examples in the repository, which are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.federation.query_file import load_query
from penstock.federation.site_file import load_site
from penstock.federation.trial_files import (
    CITIES,
    SPARK,
    SUBMITTER,
    query_files,
    site_file,
    token_variable,
)
from penstock.federation.yaml_texts import to_yaml

EXAMPLES = Path(__file__).parents[2] / "examples" / "federation"
NAMES = CITIES[:3]
TOKENS = {token_variable(name): f"token-of-{name}-0123456789" for name in (*NAMES, SUBMITTER)}


def written(directory: Path, name: str, data: dict[str, Any]) -> Path:
    file = directory / f"{name}.yaml"
    file.write_text(to_yaml(data))
    return file


@pytest.mark.parametrize("name", NAMES)
def test_a_site_for_trying_out_is_the_example_with_tokens(name: str, tmp_path: Path) -> None:
    made, _ = load_site(
        written(tmp_path, name, site_file(name, NAMES, "http://127.0.0.1:7100")), TOKENS
    )
    example, _ = load_site(EXAMPLES / f"{name}.yaml", {})
    assert made.sources == example.sources
    assert made.queries == example.queries
    assert made.spark == example.spark == SPARK
    assert (made.interval, made.latency) == (example.interval, example.latency)
    assert made.token == made.accepts[name] == TOKENS[token_variable(name)]
    assert set(made.accepts) == {*NAMES, SUBMITTER}
    assert example.token is None


@pytest.mark.parametrize("name", ["avg_all", "top5", "cov"])
def test_a_query_for_trying_out_is_the_example(name: str, tmp_path: Path) -> None:
    made, _ = load_query(written(tmp_path, name, dict(query_files(NAMES)[name])))
    example, _ = load_query(EXAMPLES / f"{name}.yaml")
    assert made.sql is not None
    assert example.sql is not None
    assert made.sql.split() == example.sql.split()
    assert made.model_copy(update={"sql": ""}) == example.model_copy(update={"sql": ""})


def test_the_examples_are_these_and_no_others() -> None:
    there = {file.stem for file in EXAMPLES.glob("*.yaml")}
    assert there == {*NAMES, *query_files(NAMES)}


def test_no_file_has_a_token_in_it() -> None:
    made = [to_yaml(site_file(name, NAMES, "http://127.0.0.1:1")) for name in NAMES]
    for text in made:
        accepted = yaml.safe_load(text)["accepts"]
        assert all(value.startswith("${PENSTOCK_TOKEN_") for value in accepted.values())

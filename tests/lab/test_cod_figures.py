"""The figures run without any data at hand, and say what they are of."""

from pathlib import Path

import pytest

from penstock.lab.cod.data import ORIGIN
from penstock.lab.experiments import get
from penstock.lab.result import page


def test_the_figures_are_drawn_from_a_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    said: list[float] = []
    result = get("cod").run(0.01, lambda _, done: said.append(done))
    assert said == sorted(said)
    assert {plot.name for plot in result.plots} == {"figure-7", "figure-10", "change"}
    assert result.figures["real data"] is False
    assert "a generator stood in" in page(result, "cod")
    assert len(result.holds) == 10
    accuracy = result.figures["accuracy"]["flights-origin 0.25"]["error"]
    assert accuracy["oracle"] <= accuracy["cod"] < accuracy["uniform"]


def test_real_data_are_read_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two days of flights, in a file of the same shape; delays are shifted."""
    import pandas as pd

    table = pd.DataFrame(
        {
            "date": pd.to_datetime(["2001-01-01 06:00", "2001-01-01 23:00", "2001-01-02 01:00"]),
            "delay": [5, -90, 0],
            "origin": pd.Categorical(["B", "A", "B"]),
            "destination": pd.Categorical(["A", "B", "A"]),
        }
    )
    table.to_parquet(tmp_path / ORIGIN.file)
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    stream, real = ORIGIN.stream(1)
    assert real
    assert stream.group.tolist() == [1, 0]
    assert stream.value.tolist() == [65.0, 1.0]
    assert stream.time.tolist() == [6 * 3600.0, 23 * 3600.0]

"""The figures run without any data at hand, and say what they are of."""

from pathlib import Path

import pytest

from penstock.lab.cod.cod_figures import ACCURACY_CASES
from penstock.lab.cod.data import ORIGIN, TAXIS
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
    claims = {claim.partition(" (")[0]: good for claim, good in result.holds.items()}
    for sure in (
        "the window processor misses no group, on any data, with either quota",
        "equal quotas err no more than proportional ones, on any data",
        "the window processor's error is at most 1.1 times the oracle's",
        "with the last window's quotas it is more",
    ):
        assert claims[sure], sure
    for case, keep in ACCURACY_CASES:
        assert f"{case.name} {keep:g}: no group is missing at the gate" in claims
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


def test_taxi_rides_are_read_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rides go by when they ended; routes lead from one zone of ten cells to another."""
    import pandas as pd

    table = pd.DataFrame(
        {
            "dropoff_datetime": [
                "2013-01-01 00:02:00",
                "2013-01-01 00:35:00",
                "2013-01-01 00:01:00",
            ],
            "fare_amount": [3.5, 9.0, 27.0],
            "pickup_cell_x": [161.0, 169.0, 10.0],
            "pickup_cell_y": [170.0, 171.0, 11.0],
            "dropoff_cell_x": [160.0, 165.0, 20.0],
            "dropoff_cell_y": [170.0, 179.0, 21.0],
        }
    )
    table.to_csv(tmp_path / TAXIS.file, index=False)
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    stream, real = TAXIS.stream(2)
    assert real
    assert stream.value.tolist() == [27.0, 3.5, 9.0]
    assert stream.group.tolist() == [0, 1, 1]
    assert stream.time.tolist() == [60.0, 120.0, 2100.0]
    assert [stream.value[window].tolist() for window in stream.windows()][:1] == [[27.0, 3.5]]
    assert TAXIS.stream(1)[0].value.tolist() == [27.0, 3.5]

"""`penstock reproduce las`, in small."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.lab.experiments import get
from penstock.lab.las.figure_claims import judged
from penstock.lab.las.phase_claims import judged as phases_judged
from penstock.lab.las.theorem import drawn, expected


def test_it_runs_and_says_what_it_should() -> None:
    said: list[float] = []
    result = get("las").run(0.001, lambda _doing, done: said.append(done))
    assert said == sorted(said)
    assert said[-1] == 1.0
    titles = " ".join(table.title for table in result.tables)
    for figure in range(4, 10):
        assert f"Figure {figure}" in titles
        assert {f"figure-{figure}-latency", f"figure-{figure}-dropped"} <= {
            plot.name for plot in result.plots
        }
    assert {"distinct-costs-latency", "distinct-costs-dropped"} <= {
        plot.name for plot in result.plots
    }
    drift = "Figure 5: it does where Ĉ cannot drift, so that the drift is why (1.00 to 1.00 τ)"
    assert result.holds[drift]
    assert result.holds["Full Knowledge's running average is never above τ"]
    assert result.holds["Theorem 4.2: its formula gives [32.08, 32.92]"]
    assert result.holds["Dearest First drops fewer tuples than Full Knowledge"]
    (series,) = (plot for plot in result.plots if plot.name == "figure-9-latency")
    assert series.title == "Figure 9: phases A to G, 1,250 tuples each"
    assert max(series.lines[0].x) == 7 * 1.25
    assert not any("8,000" in claim for claim in result.holds)  # of phases of 1,250


@pytest.mark.parametrize(
    ("las", "follows"), [((6.4, 12.8), True), ((6.4, 6.7), False), ((9.0, 12.8), False)]
)
def test_sentences_on_a_figure_are_judged(las: tuple[float, float], follows: bool) -> None:
    latency = {
        "Base Line": [(200.0, 1.0, 2.0)] * 4,
        "Straw-Man": [(0.1, 0.1, 0.1), (2.0, 1.0, 3.0), (150.0, 1.0, 2.0), (160.0, 1.0, 2.0)],
        "LAS": [(0.1, 0.1, 0.1), (1.0, 1.0, 1.0), *((wait, 1.0, 20.0) for wait in las)],
        "Full Knowledge": [(tau, tau, tau) for tau in (0.1, 0.8, 6.4, 12.8)],
    }
    dropped = {name: [(0.5, 0.5, 0.5)] + [(0.25, 0.2, 0.3)] * 3 for name in latency}
    dropped["Base Line"] = [(0.25, 0.25, 0.25)] * 4
    claims = judged(5, (0.1, 0.8, 6.4, 12.8), latency, dropped)
    (large,) = (good for claim, good in claims.items() if "for large τ LAS" in claim)
    assert large == follows
    assert sum(claims.values()) == 3 + follows


def test_sentences_on_the_phases_are_judged() -> None:
    """As the paper has it, and as it came out here: LAS does not recover from phase F."""
    tau = 64.0
    steady = np.full(7, tau)
    latency = {
        "LAS": np.repeat(steady, 2),
        "Full Knowledge": np.repeat(steady, 2),
        "Straw-Man": np.array(
            [60, 200, 210, 220, 200, 200, 900, 900, 50, 10, 900, 990, 950, 990.0]
        ),
    }
    latency["LAS"][10] = 500.0
    drops = np.repeat([0.01, 0.5, 0.01, 0.01, 0.0, 0.5, 0.01], 2)
    dropped = dict.fromkeys(latency, drops)
    assert all(phases_judged(latency, dropped, tau).values())
    latency["LAS"][11] = 26_000.0
    wrong = [claim for claim, good in phases_judged(latency, dropped, tau).items() if not good]
    assert wrong == ["Figure 9, F: and comes close to it within the phase (26000 ms)"]


def test_theorem_4_2_by_drawing() -> None:
    mean = drawn(30).mean(axis=(0, 1)).reshape(-1, 64).mean(axis=0)
    for cost in (1, 32, 64):
        assert mean[cost - 1] == pytest.approx(expected(cost), abs=0.3)

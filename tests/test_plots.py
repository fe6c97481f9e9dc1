"""Pictures: each axis has a unit, and all look alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.plots import COLOURS, Line, Plot, draw

PLOT = Plot(
    "late",
    "How late results are",
    "time (s)",
    "latency (ms)",
    [Line("with", [1.0, 2.0], [3.0, 4.0], [2.0, 3.0], [4.0, 5.0]), Line("without", [1, 2], [9, 9])],
    marks=[("asked for", 5.0)],
    spans=[("a burst", 1.2, 1.8)],
)


def test_a_picture_has_its_words_and_the_same_figures_give_the_same_file(tmp_path: Path) -> None:
    for name in ("one.svg", "other.svg"):
        draw(PLOT, tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    for said in (PLOT.title, PLOT.x, PLOT.y, "with", "without", "asked for", "a burst"):
        assert f"<!-- {said} -->" in text
    assert COLOURS[0] in text
    assert text == (tmp_path / "other.svg").read_text()


def test_an_axis_without_a_unit_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"an axis must have its unit, such as 'time \(s\)'"):
        replace(PLOT, x="time")
    with pytest.raises(ValueError, match="got ''"):
        replace(PLOT, y="")

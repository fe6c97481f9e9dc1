"""Pictures described as data, and the one place that draws them.

The simulator and the experiments build ``Plot`` values and draw nothing themselves. They can be
tested without a picture, and every picture looks alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """Holds the points of one series; ``low`` and ``high`` are drawn as a band around it."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Plot:
    """Describes one picture with its axes and lines."""

    name: str
    """The stem of the file's name; it is unique among the plots that are written together."""
    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    marks: Sequence[tuple[str, float]] = ()
    """Horizontal lines that help to read the plot, such as a threshold or a paper's figure."""


def draw(plot: Plot, path: Path) -> None:
    """Draws a plot into a file; the ending of the path says which format."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "penstock"  # the same figures give the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    for line in plot.lines:
        (drawn,) = axes.plot(line.x, line.y, marker="o", markersize=3, label=line.label)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, alpha=0.2, color=drawn.get_color())
    for label, height in plot.marks:
        axes.axhline(height, linestyle="--", linewidth=1, color="grey")
        axes.annotate(
            label, (1, height), xycoords=("axes fraction", "data"), ha="right", va="bottom"
        )
    axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y)
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    if len(plot.lines) > 1:
        axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)

"""Pictures described as data, and the one place that draws them.

The simulator, the experiments and the demo build ``Plot`` values and draw nothing themselves. They
can be tested without a picture, and every picture looks alike: in the colours of the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INK, FAINT, GRID = "#17212a", "#566470", "#dde3e7"
SHADE, SHADE_INK = "#f3d9a8", "#8f5b00"
COLOURS = ("#0b6b8f", "#b86e00", "#1c7c54", "#7a4fa3", "#b3261e", "#566470")
MARKERS = ("o", "s", "^", "D", "v", "P")
"""One for each colour, for whoever does not see these, or prints without them."""
FONT = "Inter"
"""The page's; where it is missing matplotlib's own is taken."""
MOST_MARKED_POINTS = 40
"""A line with more of them is drawn without marks."""


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
    """What the axis has, with its unit: "time (s)", "SIC (share)", "queries (number)"."""
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    marks: Sequence[tuple[str, float]] = ()
    """Horizontal lines that help to read the plot, such as a threshold or a paper's figure."""
    spans: Sequence[tuple[str, float, float]] = ()
    """Stretches of the horizontal axis that are shaded, with a word for each."""

    def __post_init__(self) -> None:
        for axis in (self.x, self.y):
            if not axis.endswith(")"):
                raise ValueError(f"an axis must have its unit, such as 'time (s)'; got {axis!r}")


def draw(plot: Plot, path: Path) -> None:
    """Draws a plot into a file; the ending of the path says which format."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    with matplotlib.rc_context(_look(matplotlib)):
        figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
        for label, begin, end in plot.spans:
            axes.axvspan(begin, end, color=SHADE, alpha=0.45, linewidth=0)
            place = ((begin + end) / 2, 0.985)
            _write(axes, label, place, ("data", "axes fraction"), "center", "top", SHADE_INK)
        for line, marker in zip(plot.lines, _markers(plot.lines), strict=True):
            (drawn,) = axes.plot(line.x, line.y, marker=marker, label=line.label)
            if line.low is not None and line.high is not None:
                axes.fill_between(line.x, line.low, line.high, alpha=0.15, color=drawn.get_color())
        for label, height in plot.marks:
            axes.axhline(height, linestyle=(0, (4, 3)), linewidth=1, color=FAINT)
            place = (0.995, height)
            _write(axes, label, place, ("axes fraction", "data"), "right", "bottom", FAINT)
        axes.set_title(plot.title, loc="left")
        axes.set(xlabel=plot.x, ylabel=plot.y)
        if plot.log_x:
            axes.set_xscale("log")
        elif all(float(x).is_integer() for line in plot.lines for x in line.x):
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        if plot.log_y:
            axes.set_yscale("log")
        if len(plot.lines) > 1:
            axes.legend()
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _write(
    axes: Any,
    words: str,
    place: tuple[float, float],
    of: tuple[str, str],
    across: str,
    down: str,
    colour: str,
) -> None:
    look = {"ha": across, "va": down, "fontsize": "small", "color": colour}
    axes.annotate(words, place, xycoords=of, **look)


def _markers(lines: Sequence[Line]) -> list[str]:
    return [
        "" if len(line.x) > MOST_MARKED_POINTS else MARKERS[n % len(MARKERS)]
        for n, line in enumerate(lines)
    ]


def _look(matplotlib: Any) -> Any:
    from matplotlib import font_manager

    known = {font.name for font in font_manager.fontManager.ttflist}
    return {
        "svg.hashsalt": "penstock",  # the same figures give the same file
        "font.family": [FONT, "DejaVu Sans"] if FONT in known else ["DejaVu Sans"],
        "font.size": 10,
        "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": FAINT,
        "axes.titlecolor": INK,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlepad": 10,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        "xtick.color": FAINT,
        "ytick.color": FAINT,
        "text.color": INK,
        "lines.linewidth": 1.8,
        "lines.markersize": 4,
        "legend.fontsize": "small",
        "legend.frameon": True,
        "legend.edgecolor": "none",
        "legend.framealpha": 0.85,
    }

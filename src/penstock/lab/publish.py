"""Writes a result down: a page with its tables and plots, and the raw figures as JSON."""

import json
from pathlib import Path

from penstock.lab.report import Plot, Result


def publish(result: Result, name: str, directory: Path) -> None:
    """``name.md``, ``name.json`` and an SVG for each plot."""
    directory.mkdir(parents=True, exist_ok=True)
    for plot in result.plots:
        draw(plot, directory / f"{name}-{plot.name}.svg")
    raw = {
        "experiment": name,
        "paper": result.paper,
        "holds": result.holds,
        "tables": [
            {"title": t.title, "rows": [dict(zip(t.columns, row, strict=True)) for row in t.rows]}
            for t in result.tables
        ],
        "figures": result.figures,
    }
    (directory / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    (directory / f"{name}.md").write_text(page(result, name))


def page(result: Result, name: str) -> str:
    """What people read."""
    parts = [f"# {result.title}", f"`penstock reproduce {name}`: {result.paper}."]
    if result.holds:
        claims = result.holds.items()
        parts.append(
            "\n".join(f"- {'holds' if good else '**does not hold**'}: {c}" for c, good in claims)
        )
    for table in result.tables:
        parts += [f"## {table.title}", table.markdown()]
    parts += [f"![{plot.title}]({name}-{plot.name}.svg)" for plot in result.plots]
    if result.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in result.notes)]
    return "\n\n".join(parts) + "\n"


def draw(plot: Plot, path: Path) -> None:
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

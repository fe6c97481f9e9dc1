"""The table of what works on which cluster, in ``docs/where_it_runs.md``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.spark.clusters.program import KILLED
from tests.spark.clusters.standalone import ROOT

PAGE = ROOT / "docs" / "where_it_runs.md"
BEGIN, END = "<!-- clusters -->\n", "<!-- end of clusters -->\n"
ROWS = {
    "gates": ("a gate that sheds; a batch that is counted again", "nothing"),
    "guards": ("guards, with functions that fail or are too slow", "Python; the driver's address"),
    "windows": ("`process_windows` behind a guard behind a gate", "Python; a shared checkpoint"),
    "jobs": ("a job file, with state and a table to join with", "a shared checkpoint"),
    "federations": ("two sites of a federation, and a link between them", "shared links"),
    "rehearsed": ("the rehearsal of the first query", "a shared checkpoint"),
    "places": ("a checkpoint or link that only the driver sees is refused", "nothing"),
    KILLED: (
        "a worker killed in mid-batch, behind it gate, guard and `process_windows`",
        "as above",
    ),
}
"""Of each feature: what it is called, and what executors need for it beside Spark."""


KINDS = ("standalone",)
GOOD = "as on one machine"
Cells = Mapping[str, str]
"""What the table says of a kind of cluster, by feature."""


def judged(answers: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, object]) -> Cells:
    """What a cluster gave, beside what one machine gave."""
    return {name: _judged(answers[name], wanted[name]) for name in ROWS}


def _judged(answer: Mapping[str, Any], wanted: object) -> str:
    if not answer["works"]:
        return f"no: {answer['why']}"
    return GOOD if answer["found"] == wanted else "no: another result"


def published(kind: str) -> Cells:
    """What the page says of a kind of cluster."""
    text = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]
    cells = {row[0]: row[1 + KINDS.index(kind)] for row in rows}
    return {name: cells.get(title, "not run") for name, (title, _) in ROWS.items()}


def publish(kind: str, cells: Cells) -> None:
    """Writes what was found of a kind of cluster into the page."""
    columns = [cells if each == kind else published(each) for each in KINDS]
    lines = [f"| | {' | '.join(KINDS)} | executors need |", "|---" * (len(KINDS) + 2) + "|"]
    for name, (title, needs) in ROWS.items():
        lines.append(f"| {' | '.join([title, *(column[name] for column in columns), needs])} |")
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + begin + "\n".join(lines) + "\n" + END + rest.partition(END)[2])

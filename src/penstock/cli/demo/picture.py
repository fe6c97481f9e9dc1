"""Describes the picture of the demo: how late results are, without and with Penstock."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from penstock.cli.demo.meter import Reading
from penstock.cli.demo.view import TITLES
from penstock.cli.demo.workload import Workload
from penstock.plots import Line, Plot


def picture(readings: Mapping[str, Sequence[Reading]], load: Workload) -> Plot:
    """Returns a line for each run, with the bursts shaded and the latency that was asked for."""
    begins = [*load.profile, (load.seconds, 0.0)]
    return Plot(
        name="demo",
        title="The same stream through the same job",
        x="time since the stream began (s)",
        y="longest wait for a result (s)",
        lines=[
            Line(TITLES[run], [one.elapsed for one in seen], [one.latency for one in seen])
            for run, seen in readings.items()
        ],
        marks=[(f"asked for: {load.latency:g} s", load.latency)],
        spans=[
            (f"{factor:g} × what fits", begin, end)
            for (begin, factor), (end, _) in pairwise(begins)
            if factor > 1
        ],
    )

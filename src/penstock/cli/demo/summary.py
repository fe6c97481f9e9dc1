"""Sums up what the demo found, for people and for programs."""

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from penstock.cli.demo.meter import Latency, latency
from penstock.cli.demo.runner import DemoRun
from penstock.cli.demo.truth import TRUSTED_TUPLES, Accuracy, Pool, accuracy
from penstock.cli.demo.view import TITLES
from penstock.cli.demo.workload import Workload
from penstock.sources.schedule import SECOND

LABELS = [
    "latency, median",
    "latency, 95th percentile",
    "latency, worst",
    "windows answered by the end",
    "completeness of these (SIC)",
    "tuples arrived",
    "  admitted",
    "  shed",
    "  still waiting",
    "all accounted for",
    "error of a key's count",
    "error of a key's mean",
    "95 % intervals that cover, count",
    "95 % intervals that cover, mean",
    "keys missed",
]
LAST_OF_SECTION = ("latency, worst", "completeness of these (SIC)", "all accounted for")
"""The labels under which the table draws a line."""


@dataclass(frozen=True)
class Verdict:
    """Judges one run."""

    arrived: int
    admitted: int
    shed: int
    waiting: int
    accounted: bool
    """Admitted, shed and waiting tuples add up to those that arrived, batch by batch."""
    ledger_balanced: bool | None
    batches: list[dict[str, float]]
    """When each began (seconds), how long it took, how many arrived and were admitted."""
    windows_due: int
    site_sic: float | None
    latency: Latency
    accuracy: Accuracy


def judge(outcome: DemoRun, load: Workload, pool: Pool) -> Verdict:
    """Judges a run by its batches, its ledger and the exact answer."""
    waiting = outcome.arrived - outcome.done
    return Verdict(
        arrived=outcome.arrived,
        admitted=outcome.admitted,
        shed=outcome.done - outcome.admitted,
        waiting=waiting,
        accounted=outcome.accounted,
        ledger_balanced=outcome.ledger_balanced,
        batches=[
            {
                "at": (commit.began - outcome.schedule.start) / SECOND,
                "seconds": commit.seconds,
                "arrived": commit.rows,
                "admitted": outcome.kept.get(commit.batch, commit.rows),
            }
            for commit in outcome.commits
        ],
        windows_due=windows_due(outcome.schedule.start, outcome.end, load.window),
        site_sic=outcome.site_sic,
        latency=latency(outcome.commits, outcome.kept, outcome.schedule, outcome.end),
        accuracy=accuracy(outcome.results, outcome.schedule, load.window, pool),
    )


def windows_due(start: int, end: int, window: int) -> int:
    """Returns how many windows ended before `end`, of those that hold a part of the stream."""
    return end // (window * SECOND) - start // (window * SECOND)


def table(verdicts: dict[str, Verdict]) -> Table:
    """Returns both verdicts side by side."""
    drawn = Table(
        title="The same stream through the same job",
        title_justify="left",
        caption="Errors against the exact answer, over the windows answered, a key weighed by its "
        f"tuples; intervals where at least {TRUSTED_TUPLES} tuples were admitted.",
        caption_justify="left",
    )
    drawn.add_column("")
    for run in verdicts:
        drawn.add_column(TITLES[run], justify="right")
    for label, *cells in zip(LABELS, *(_cells(v) for v in verdicts.values()), strict=True):
        drawn.add_row(label, *cells)
        if label in LAST_OF_SECTION:
            drawn.add_section()
    return drawn


def _cells(v: Verdict) -> list[str]:
    exact = v.accuracy
    some = exact.windows > 0
    return [
        f"{v.latency.p50:.1f} s",
        f"{v.latency.p95:.1f} s",
        f"{v.latency.worst:.1f} s",
        f"{exact.windows} of {v.windows_due}",
        f"{exact.sic:.2f}" if some else "-",
        f"{v.arrived:,}",
        f"{v.admitted:,}",
        f"{v.shed:,}",
        f"{v.waiting:,}",
        "yes" if v.accounted else "NO",
        *(
            f"{share:.1%}" if some else "-"
            for share in (
                exact.count_error,
                exact.mean_error,
                exact.count_covered,
                exact.mean_covered,
                exact.keys_missed,
            )
        ),
    ]


def as_json(verdicts: dict[str, Verdict], load: Workload, elapsed: float) -> dict[str, Any]:
    """Returns all figures as plain values."""
    return {
        "capacity": load.capacity,
        "seconds": load.seconds,
        "window_seconds": load.window,
        "profile": [{"at": at, "factor": factor} for at, factor in load.profile],
        "latency_asked_seconds": load.latency,
        "elapsed_seconds": elapsed,
        **{run: asdict(verdict) for run, verdict in verdicts.items()},
    }


def conclusion(verdicts: dict[str, Verdict], load: Workload, elapsed: float) -> str:
    """Says in words what the demo showed."""
    plain, gated = verdicts["plain"], verdicts["gated"]
    return (
        f"Without Penstock {plain.waiting:,} tuples were still waiting at the end, "
        f"and a result was up to {plain.latency.worst:.0f} s late.\n"
        f"With it, asked to hold {load.latency:g} s, 95 % had their result within "
        f"{gated.latency.p95:.1f} s, from {gated.admitted / max(gated.arrived, 1):.0%} of the "
        f"tuples.\n"
        f"The demo took {elapsed:.0f} s."
    )

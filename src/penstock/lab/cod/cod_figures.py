"""CoD: figures 2 and 7 to 10, with an oracle that sees each window twice."""

import os
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from penstock.lab.cod.compare import Compared, at_equal_volume, compare, mean_error, processed
from penstock.lab.cod.data import (
    CLASS,
    ORIGIN,
    PACKETS,
    ROUTE,
    TAXIS,
    USER,
    Case,
    concept_of,
    departures_and_arrivals,
)
from penstock.lab.cod.drifting import DriftingStream
from penstock.lab.cod.recorded import WindowedStream
from penstock.lab.cod.scores import joined_errors, score
from penstock.lab.cod.trial import one_pass
from penstock.lab.cod.two_pass import as_before, uniform
from penstock.lab.cod.window_latency import KEPT_SHARE, SHARDS, SHEDDING_WAYS, latencies
from penstock.lab.result import Result, ResultTable, Say
from penstock.plots import Line, Plot
from penstock.windows.concept import Concept
from penstock.windows.sampling import QUOTAS

ACCURACY_CASES = (
    (ORIGIN, 0.1),
    (ORIGIN, 0.25),
    (ROUTE, 0.25),
    (CLASS, 0.02),
    (USER, 0.02),
    (PACKETS, 0.01),
    (TAXIS, 0.1),
)
"""Data and nominal shares of figure 9."""
PROCESSED_CASES = tuple(pair for pair in ACCURACY_CASES if pair[0] not in (PACKETS, TAXIS))
"""Those whose windows tumble."""
MOST_SLOWER = 1.1
"""CoD is taken to be as fast as uniform shedding up to this ratio of their latencies."""
ORACLE_CASES = ((ORIGIN, 0.1), (ORIGIN, 0.25), (CLASS, 0.02))
"""The cases over which the distance from the oracle is averaged."""
VOLUME_SHARES = (0.02, 0.1, 0.25, 0.5)
"""The shares that are kept in figure 10."""


@dataclass
class Cod:
    """Reproduces CoD, figures 2 and 7 to 10."""

    name: ClassVar[str] = "cod"
    about: ClassVar[str] = "CoD, figures 2 and 7 to 10: the groups' means under shedding and drift"
    _batches: int = 60
    """A window's, in trials of one pass."""
    _streams: dict[tuple[str, int], tuple[WindowedStream, bool]] = field(default_factory=dict)

    def run(self, effort: float, say: Say) -> Result:
        """Runs the trials of all figures."""
        result = Result(
            "CoD: shedding that follows the concept of the window",
            "Concept-Driven Load Shedding (2018), figures 2, 7, 8, 9 and 10",
        )
        self._batches = 60 if effort >= 0.1 else 10
        result.notes.append(
            "Quotas are equal unless said otherwise. The paper asks for a stratified sample with a "
            "proportional representation of each group; the table of the window processor has "
            "both."
        )
        parts = (
            self._drift,
            self._latency,
            self._accuracy,
            self._processor,
            self._volume,
            self._change,
            self._target,
            self._join,
        )
        for number, part in enumerate(parts):
            say(part.__name__.strip("_"), number / len(parts))
            part(result, effort)
        result.notes += [
            "Delays are shifted by an hour, so that a relative error means something.",
            "All ways are compared at the volume that CoD really kept, window by window.",
            "A group that is missing counts as an error of 100 %.",
        ]
        real = all(was_real for _, was_real in self._streams.values())
        result.figures["real data"] = real
        if not real:
            result.notes.append("Some data were not at hand; a generator stood in.")
        return result

    def _stream(self, case: Case, most: int, effort: float) -> WindowedStream:
        windows = max(3, round(min(most, case.windows) * effort))
        if (case.name, windows) not in self._streams:
            self._streams[case.name, windows] = case.stream(windows)
        return self._streams[case.name, windows][0]

    # --- figure 2 ------------------------------------------------------------------------------

    def _drift(self, result: Result, effort: float) -> None:
        rows = []
        for case in (ORIGIN, ROUTE, CLASS, USER, TAXIS):
            stream = self._stream(case, 30, effort)
            concepts = [concept_of(stream, window) for window in stream.windows()]
            pairs = list(pairwise(concepts))
            rows.append(
                (
                    case.name,
                    float(np.mean([(c > 0).sum() for c in concepts])),
                    float(np.mean([_common(a, b) for a, b in pairs])),
                    float(np.mean([_distance(a, b) for a, b in pairs])),
                )
            )
        columns = ("data", "groups a window", "overlap", "distance")
        result.tables.append(ResultTable("Figure 2: from one window to the next", columns, rows))

    # --- figures 7 and 8 -----------------------------------------------------------------------

    def _latency(self, result: Result, effort: float) -> None:
        rows: list[tuple[Any, ...]] = []
        lines: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in SHEDDING_WAYS}
        wide = DriftingStream(groups=100, tuples=max(20_000, round(300_000 * effort))).stream(3)
        found: dict[str, dict[str, float]] = {}
        for shards in SHARDS if effort >= 0.1 else SHARDS[:2]:
            of_way = latencies(wide, 3, shards)
            found[f"generated, {shards} shards"] = {w: float(np.mean(x)) for w, x in of_way.items()}
            for way, millis in of_way.items():
                rows.append((f"generated, {shards} shards", way, *_mean_p95(millis)))
                lines[way][0].append(float(shards))
                lines[way][1].append(float(np.mean(millis)))
        for case in (ORIGIN, CLASS, USER):
            stream = self._stream(case, 17, effort)
            of_way = latencies(stream, 10)
            found[case.name] = {way: float(np.mean(millis)) for way, millis in of_way.items()}
            rows += [(case.name, way, *_mean_p95(millis)) for way, millis in of_way.items()]
        columns = ("data", "shedding", "mean ms", "p95 ms")
        title = f"Figures 7 and 8: a window's median per group, {KEPT_SHARE:.0%} kept"
        result.tables.append(ResultTable(title, columns, rows))
        result.plots.append(
            Plot(
                "figure-7",
                title,
                "shards (number)",
                "time of a window (ms)",
                [Line(way, *points) for way, points in lines.items()],
            )
        )
        result.figures["mean latencies, ms"] = found
        result.figures["cores"] = os.cpu_count()
        for name, mean in found.items():
            half, slower = (mean["concept"] / mean[other] for other in ("none", "uniform"))
            result.holds[
                f"{name}: a window shed by CoD takes at most half as long as a whole one "
                f"({half:.2f})"
            ] = half <= 0.5
            result.holds[
                f"{name}: CoD takes at most 10 % longer than uniform shedding ({slower:.2f})"
            ] = slower <= MOST_SLOWER
        one, two = (found[f"generated, {shards} shards"]["concept"] for shards in SHARDS[:2])
        result.holds[
            f"two shards take less time than one ({two:.1f} and {one:.1f} ms; two processes on "
            f"{os.cpu_count()} cores)"
        ] = two < one
        result.notes.append(
            "Shards of a window are processes of their own, which begin a window together; the "
            "latency is that of the last one to be done. With more shards than cores some wait."
        )

    # --- figures 9 and 10 ----------------------------------------------------------------------

    def _accuracy(self, result: Result, effort: float) -> None:
        rows: list[tuple[Any, ...]] = []
        found: dict[str, Compared] = {}
        for case, keep in ACCURACY_CASES:
            compared = compare(self._stream(case, 60, effort), keep, self._batches)
            found[f"{case.name} {keep:g}"] = compared
            figures = compared.figures()
            rows += [
                (
                    case.name,
                    keep,
                    figures["volume"],
                    way,
                    figures["error"][way],
                    figures["p95"][way],
                    figures["missing"][way],
                )
                for way in ("uniform", "cod", "oracle")
            ]
        columns = ("data", "asked", "kept", "shedding", "mean error", "p95 error", "missing")
        result.tables.append(ResultTable("Figure 9: error at equal volume", columns, rows))
        result.figures["accuracy"] = {name: each.figures() for name, each in found.items()}
        three = [found[f"{case.name} {keep:g}"] for case, keep in ORACLE_CASES]
        ratio = float(np.mean([each.ratio() for each in three]))
        result.figures["ratio to the oracle"] = ratio
        result.holds["the error is at most 2.2 times the oracle's"] = ratio <= 2.2
        for name, each in found.items():
            lost, there = sum(s.missing for s in each.cod), sum(s.errors.size for s in each.cod)
            even = sum(s.missing for s in each.uniform)
            result.holds[
                f"{name}: no group is missing at the gate ({lost} of {there:,} of all windows; "
                f"uniform shedding: {even:,})"
            ] = lost == 0
        result.holds["per user, the error is at least 10 times less than uniform's"] = (
            found["google-user 0.02"].gain() >= 10
        )

    def _processor(self, result: Result, effort: float) -> None:
        """Compares the window processor, which sees each window whole, at the same shares."""
        rows: list[tuple[Any, ...]] = []
        ratios, missing, worse = list[float](), 0, True
        for case, keep in PROCESSED_CASES:
            stream = self._stream(case, 60, effort)
            by = {way: at_equal_volume(stream, processed(stream, keep, way)) for way in QUOTAS}
            if (case, keep) in ORACLE_CASES:
                ratios.append(by["equal"].ratio())
            missing += sum(s.missing for each in by.values() for s in each.cod)
            errors = [mean_error(by[way].cod) for way in QUOTAS]
            worse = worse and errors[0] <= errors[1]
            kept = [by[way].figures()["volume"] for way in QUOTAS]
            rows.append((case.name, keep, *kept, *errors, mean_error(by["proportional"].uniform)))
        columns = (
            "data",
            "asked",
            "kept, equal",
            "kept, proportional",
            "equal",
            "proportional",
            "uniform",
        )
        title = "Window processor: mean error with equal and with proportional quotas"
        result.tables.append(ResultTable(title, columns, rows))
        ratio = float(np.mean(ratios))
        result.figures["window processor, ratio to the oracle"] = ratio
        result.holds["the window processor's error is at most 1.1 times the oracle's"] = (
            ratio <= 1.1
        )
        result.holds[
            f"the window processor misses no group, on any data, with either quota ({missing})"
        ] = missing == 0
        result.holds["equal quotas err no more than proportional ones, on any data"] = worse

    def _volume(self, result: Result, effort: float) -> None:
        stream = self._stream(ORIGIN, 10, effort)
        found = [compare(stream, keep, self._batches).figures() for keep in VOLUME_SHARES]
        kept = [each["volume"] for each in found]
        lines = [
            Line(way, kept, [each["error"][way] for each in found])
            for way in ("uniform", "cod", "oracle")
        ]
        title = "Figure 10: error by what is kept, flights per origin"
        result.plots.append(
            Plot("figure-10", title, "tuples kept (share)", "mean error (share)", lines, log_y=True)
        )
        rows = [(k, *(line.y[i] for line in lines)) for i, k in enumerate(kept)]
        result.tables.append(ResultTable(title, ("kept", "uniform", "cod", "oracle"), rows))

    # --- beyond the paper ----------------------------------------------------------------------

    def _change(self, result: Result, effort: float) -> None:
        """Tries windows between which all groups change."""
        ours, theirs = [], []
        for seed in range(max(2, round(8 * effort))):
            stream = DriftingStream(overlap={4: 0.0}).stream(6, seed)
            ours.append(score(stream, one_pass(stream, Concept(60, keep=0.1, time="t"), seed)))
            theirs.append(score(stream, as_before(stream, 0.1, np.random.default_rng(seed))))
        by_window = [
            [float(np.mean([run[w].mean for run in runs])) for w in range(6)]
            for runs in (ours, theirs)
        ]
        ratios = [line[4] / float(np.mean(line[1:4])) for line in by_window]
        title = "Abrupt change before window 5, 10 % kept"
        windows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        lines = [
            Line("CoD", windows, by_window[0]),
            Line("last window's quotas", windows, by_window[1]),
        ]
        result.plots.append(Plot("change", title, "window (number)", "mean error (share)", lines))
        result.figures["error after a change over before"] = dict(
            zip(("cod", "last window"), ratios, strict=True)
        )
        result.holds["after a change the error is at most 1.5 times that before"] = ratios[0] <= 1.5
        result.holds["with the last window's quotas it is more"] = ratios[1] > 1.5

    def _target(self, result: Result, effort: float) -> None:
        stream = self._stream(ORIGIN, 40, effort)
        terms = Concept(stream.length, error="5%", confidence=0.95, value="x", time="t")
        scores = score(stream, one_pass(stream, terms, batches=self._batches))
        within = np.array([(s.errors <= 0.05).mean() for s in scores])
        figures = {
            "windows": len(scores),
            "windows where 95 % of groups are within 5 %": float((within >= 0.95).mean()),
            "groups within 5 %": float(within.mean()),
            "kept": float(np.mean([s.volume for s in scores])),
        }
        result.figures["error target"] = figures
        result.tables.append(
            ResultTable("Error target 5 % at 95 %", tuple(figures), [tuple(figures.values())])
        )
        met = figures["windows where 95 % of groups are within 5 %"]
        result.holds["the error target is met in at least 95 % of windows"] = met >= 0.95

    def _join(self, result: Result, effort: float) -> None:
        stream = departures_and_arrivals(max(3, round(5 * effort)))
        terms = Concept(stream.length, keep=0.1, time="t", join=True)
        kept = one_pass(stream, terms, batches=self._batches)
        budgets = np.array([kept.kept[window].sum() for window in stream.windows()])
        even = uniform(stream, budgets, np.random.default_rng(0))
        ours, theirs = (float(np.mean(joined_errors(stream, way)[1:])) for way in (kept, even))
        result.figures["join"] = {"cod": ours, "uniform": theirs}
        rows = [("uniform", theirs), ("CoD", ours)]
        result.tables.append(
            ResultTable("Joined pairs a key, 10 % kept", ("shedding", "mean error"), rows)
        )
        result.holds["the error of joined counts is at most half of uniform's"] = (
            ours <= 0.5 * theirs
        )


def _common(a: Any, b: Any) -> float:
    """Groups of a window that are in the next one too."""
    return float(((a > 0) & (b > 0)).sum() / max((a > 0).sum(), 1))


def _distance(a: Any, b: Any) -> float:
    """Returns half the summed difference of frequencies: 0 the same, 1 nothing in common."""
    return float(np.abs(a / a.sum() - b / b.sum()).sum() / 2)


def _mean_p95(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.quantile(values, 0.95))

"""Sheds the same stream in several ways, at the same volume."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.lab.cod.recorded import AdmittedTuples, WindowedStream
from penstock.lab.cod.scores import Score, score
from penstock.lab.cod.trial import one_pass
from penstock.lab.cod.two_pass import oracle, uniform
from penstock.windows.buffer import Buffer
from penstock.windows.concept import Concept
from penstock.windows.sampling import ByConcept


@dataclass(frozen=True)
class Compared:
    """Holds scores window by window, without the first, which has nothing to start from."""

    cod: list[Score]
    oracle: list[Score]
    uniform: list[Score]

    def ratio(self) -> float:
        """Returns CoD's error over the oracle's."""
        return mean_error(self.cod) / mean_error(self.oracle)

    def gain(self) -> float:
        """Returns the error of uniform shedding over CoD's."""
        return mean_error(self.uniform) / mean_error(self.cod)

    def figures(self) -> dict[str, Any]:
        """Returns volume, errors and missing groups as plain values."""
        ways = {"cod": self.cod, "oracle": self.oracle, "uniform": self.uniform}
        return {
            "volume": float(np.mean([s.volume for s in self.cod])),
            "error": {name: mean_error(scores) for name, scores in ways.items()},
            "p95": {name: p95_error(scores) for name, scores in ways.items()},
            "missing": {name: sum(s.missing for s in scores) for name, scores in ways.items()},
        }


def mean_error(scores: list[Score]) -> float:
    """Returns the mean error over windows."""
    return float(np.mean([s.mean for s in scores]))


def p95_error(scores: list[Score]) -> float:
    """Returns the 95th percentile, over windows, of the mean error."""
    return float(np.quantile([s.mean for s in scores], 0.95))


def compare(stream: WindowedStream, keep: float, batches: int = 60, seed: int = 0) -> Compared:
    """Compares CoD at this share with others at what it really kept of each window."""
    terms = Concept(stream.length, slide=stream.slide, keep=keep, time="t")
    return at_equal_volume(stream, one_pass(stream, terms, seed, batches), seed)


def at_equal_volume(stream: WindowedStream, kept: AdmittedTuples, seed: int = 0) -> Compared:
    """Compares others with what was kept, window by window."""
    panes = stream if stream.slide is None else replace(stream, length=stream.slide, slide=None)
    budgets = np.array([kept.kept[pane].sum() for pane in panes.windows()])
    rng = np.random.default_rng(seed)
    ways = [way(panes, budgets, rng) for way in (oracle, uniform)]
    return Compared(*(score(stream, way)[1:] for way in (kept, *ways)))


def processed(stream: WindowedStream, keep: float, by: str = "equal") -> AdmittedTuples:
    """Returns what the window processor keeps of tumbling windows, which it sees whole."""
    kept, weight = np.zeros(len(stream), dtype=np.bool_), np.ones(len(stream))
    for number, window in enumerate(stream.windows()):
        places = np.arange(window.start, window.stop)
        names = stream.group[window].astype(np.str_)
        buffer = Buffer(stream.length, stream.length)
        buffer = buffer.add(np.zeros(places.size), names, {"n": places}, (number,))
        staged = buffer.take(stream.length, ByConcept(keep, by))
        kept[staged.columns["n"]] = True
        weight[staged.columns["n"]] = staged.weight
    return AdmittedTuples(kept, weight)

"""Makes metric families, as Prometheus' library calls them, of figures and what is told of each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from penstock.metrics.distributions import Histogram
from penstock.metrics.figures import Figure

Sample = tuple[dict[str, str], float]
"""Is the labels of a figure, and the figure."""


class Row(NamedTuple):
    """Is something with figures: by which labels it is known, and what is told of it."""

    labels: Mapping[str, str]
    told: Mapping[str, Any]


def families(figures: Sequence[Figure], rows: Sequence[Row], prefix: str = "") -> Iterator[Metric]:
    """Answers a family for each name among the figures, with a sample for each row.

    Rows with the same labels make one sample, as the figure says; where it does not say how, none.
    """
    for name in dict.fromkeys(figure.name for figure in figures):
        mine = [figure for figure in figures if figure.name == name]
        samples = [sample for figure in mine for sample in _samples(figure, rows)]
        if samples:
            yield _family(mine[0], prefix + name, samples)


def _family(figure: Figure, name: str, samples: Sequence[Sample]) -> Metric:
    kind = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
    family = kind(name, figure.words, labels=list(samples[0][0]))
    for labels, value in samples:
        family.add_metric(list(labels.values()), value)
    return family


def _samples(figure: Figure, rows: Iterable[Row]) -> Iterator[Sample]:
    found: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for labels, told in rows:
        value = figure.of(told)
        if value is not None:
            found.setdefault((*labels.items(), *figure.labels.items()), []).append(value)
    for key, values in found.items():
        if len(values) == 1:
            yield dict(key), values[0]
        elif figure.fold is not None:
            yield dict(key), figure.fold(values)


def histogram(of: Histogram) -> HistogramMetricFamily:
    """Answers the family of a histogram."""
    family = HistogramMetricFamily(of.name, of.words, labels=["stream"])
    of.each(lambda name, counts, total: family.add_metric([name], counts, total))
    return family

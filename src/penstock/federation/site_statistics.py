"""Computes what a site tells of itself: the six figures of DISSP's statistics manager (4.3.2)."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.federation.messages import SiteStatistics
from penstock.spark.site_report import SiteReport


class _Sample(NamedTuple):
    at: float
    admitted: int
    shed: int


class StatisticsManager:
    """Turns totals into rates over the last STW."""

    def __init__(self, stw_seconds: float) -> None:
        self._stw_seconds = stw_seconds
        self._samples: deque[_Sample] = deque()

    def sample(self, now: float, report: SiteReport) -> None:
        """Notes the totals of a moment; one older than the STW stays, to compare with."""
        admitted = sum(query.admitted for query in report.queries)
        shed = sum(query.shed for query in report.queries)
        self._samples.append(_Sample(now, admitted, shed))
        while len(self._samples) > 2 and self._samples[1].at < now - self._stw_seconds:
            self._samples.popleft()

    def statistics(
        self,
        report: SiteReport,
        told: Mapping[str, float],
        running: int,
        connected: int,
    ) -> SiteStatistics:
        """Returns the statistics; ``told`` is what coordinators said of queries."""
        admitted, shed = self._rates()
        late = [query.latency_ms for query in report.queries if query.batches]
        worst = max(late, key=lambda one: one.p95, default=None)
        known = _known(told, report)
        waiting = [query.backlog for query in report.queries if query.backlog is not None]
        return SiteStatistics(
            throughput=admitted,
            latency_ms=0.0 if worst is None else worst.p95,
            latency_measured=None if worst is None else worst.measured,
            dropped=shed,
            average_sic=sum(known) / len(known) if known else None,
            fragments_running=running,
            fragments_connected=connected,
            capacity=report.site.capacity,
            utilisation=min(max(report.site.utilisation, 0.0), 1.0),
            backlog=sum(waiting) if waiting else None,
            held_back_by={
                query.id: query.held_back_by
                for query in report.queries
                if query.held_back_by is not None
            },
        )

    def _rates(self) -> tuple[float, float]:
        if len(self._samples) < 2:
            return 0.0, 0.0
        first, last = self._samples[0], self._samples[-1]
        seconds = max(last.at - first.at, 1e-3)
        return (last.admitted - first.admitted) / seconds, (last.shed - first.shed) / seconds


def _known(told: Mapping[str, float], report: SiteReport) -> Sequence[float]:
    """Returns the SIC of each query here: its coordinator's word, or else what this site sees."""
    own = {query.id: query.sic_now for query in report.queries if query.sic_now is not None}
    return [min(max(value, 0.0), 1.0) for value in ({**own, **told}).values()]

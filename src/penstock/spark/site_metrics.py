"""Lets a monitoring system collect the figures of a site, where the user asks for that."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from penstock.core.settings import QueryTerms, Settings
from penstock.errors import PenstockError
from penstock.metrics.distributions import Distributions
from penstock.metrics.listening import place
from penstock.metrics.site_meter import Meter, NoMeter
from penstock.metrics.told import SiteTold
from penstock.spark.site_report import SiteReport


class Served(Protocol):
    """Serves metrics until it is closed."""

    address: str

    def close(self) -> None: ...


class SiteMetrics:
    """Is what hears of a site's batches, and what serves its figures: as a rule, nothing."""

    def __init__(self, given: int | str | Meter | None) -> None:
        self.meter: Meter = NoMeter()
        self._place: tuple[str, int] | None = None
        self._served: Served | None = None
        if isinstance(given, int | str):
            self._place = place(given)
            self.meter = Distributions()
        elif isinstance(given, Meter):
            self.meter = given
        elif given is not None:
            raise PenstockError(
                "metrics must be a port, such as 9464, or an object with the methods 'counted' and "
                f"'planned'; got {given!r}"
            )

    @property
    def address(self) -> str | None:
        """Where the figures are served; None where they are not."""
        return None if self._served is None else self._served.address

    def serve(self, report: Callable[[], SiteReport], settings: Callable[[], Settings]) -> None:
        """Begins to serve the figures of a site, if it is to."""
        if self._place is None or not isinstance(self.meter, Distributions):
            return
        try:
            from penstock.metrics.exposition import Endpoint, Exposition
            from penstock.metrics.site_collector import SiteCollector
        except ModuleNotFoundError as error:
            raise PenstockError(
                f"metrics: {error}; install it with: pip install 'penstock[metrics]'"
            ) from None

        collector = SiteCollector(lambda: told_by(report(), settings()), self.meter)
        self._served = Endpoint(Exposition(collector), *self._place)

    def close(self) -> None:
        """Serves no more."""
        served, self._served = self._served, None
        if served is not None:
            served.close()


def told_by(
    report: SiteReport, settings: Settings, statistics: Mapping[str, Any] | None = None
) -> SiteTold:
    """Answers what metrics are made of: the report, and what the site was asked for."""
    terms = {query.id: settings.terms.get(query.id, QueryTerms()) for query in report.queries}
    return SiteTold(
        report.to_dict(),
        {
            "interval": settings.interval,
            "latency": settings.target_seconds,
            "stw": settings.stw_seconds,
        },
        {query: {"weight": its.weight, "floor": its.floor} for query, its in terms.items()},
        statistics,
    )

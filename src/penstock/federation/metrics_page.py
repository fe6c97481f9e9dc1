"""``GET /metrics`` of a site or the oracle: its figures as Prometheus reads them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response

from penstock.federation.refusals import Reason, RefusedError

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

METRICS_PATH = "/metrics"
NOT_INSTALLED = "this process has no prometheus-client: pip install 'penstock[metrics]'"


def tell_metrics(app: FastAPI, collector: Callable[[], "Collector"]) -> None:
    """Adds the endpoint; ``collector`` is asked for what to collect, where the library is there."""
    try:
        from penstock.metrics.exposition import Exposition
    except ModuleNotFoundError:
        _refuse(app)
        return
    exposition = Exposition(collector())

    @app.get(METRICS_PATH, response_class=Response)
    def metrics(request: Request) -> Response:
        """Tells the figures as Prometheus reads them."""
        text, content_type = exposition.written(request.headers.get("accept"))
        return Response(text, media_type=content_type)


def _refuse(app: FastAPI) -> None:
    @app.get(METRICS_PATH)
    def metrics() -> None:
        """Says how to install what tells the figures as Prometheus reads them."""
        raise RefusedError(Reason.NOT_POSSIBLE, NOT_INSTALLED)

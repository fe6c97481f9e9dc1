"""Writes metrics as a monitoring system reads them, and serves them where nothing else does."""

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    start_http_server,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from penstock.errors import PenstockError


class Exposition:
    """Knows what is collected: the figures, and beside them what Python and the process tell."""

    def __init__(self, collector: Collector) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(collector)

    def written(self, accept: str | None) -> tuple[bytes, str]:
        """Answers all metrics in the form that a reader accepts, and what that form is called."""
        encode, content_type = choose_encoder(accept or "")
        return encode(self.registry), content_type


class Endpoint:
    """Serves metrics over HTTP, at a path such as http://127.0.0.1:9464/metrics."""

    def __init__(self, exposition: Exposition, host: str, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(port, host, exposition.registry)
        except OSError as error:
            raise PenstockError(
                f"metrics must be a port that is free to listen on, such as 9464 or "
                f"'127.0.0.1:9464'; got {host}:{port}: {error.strerror}"
            ) from None
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Serves no more; may be called twice."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

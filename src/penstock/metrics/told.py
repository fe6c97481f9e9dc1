"""What a site and the oracle tell, as plain values, for metrics to be made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SiteTold:
    """Holds what a site tells at one moment."""

    report: Mapping[str, Any]
    """As ``SiteReport.to_dict()`` has it."""
    asked: Mapping[str, Any]
    """What the site was asked for: ``interval``, ``latency`` and ``stw`` in seconds."""
    terms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The ``weight`` and the ``floor`` of each query."""
    statistics: Mapping[str, Any] | None = None
    """Those of a federation's site, which has them beside its report."""


@dataclass(frozen=True)
class OracleTold:
    """Holds what an oracle tells at one moment, as its JSON interface has it."""

    sites: Sequence[Mapping[str, Any]]
    queries: Mapping[str, Any]

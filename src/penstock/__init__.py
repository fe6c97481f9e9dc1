"""Penstock keeps Spark Structured Streaming jobs fresh under overload.

``import penstock as ps`` is light: what needs Spark (``ps.Site``, ``ps.mean``, ...) is loaded
when it is first used.
"""

from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError

__version__ = "0.1.0"
__all__ = [
    "Concept",
    "PenstockError",
    "QueryTerms",
    "Site",
    "corr",
    "count",
    "covar",
    "mean",
    "percentile",
    "process_windows",
    "replay",
    "sic",
    "stddev",
    "sum",
    "var",
    "within",
]

if TYPE_CHECKING:
    from penstock.sources.replay import replay
    from penstock.spark import (
        Concept,
        QueryTerms,
        Site,
        corr,
        count,
        covar,
        mean,
        percentile,
        process_windows,
        sic,
        stddev,
        sum,
        var,
        within,
    )


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("penstock.spark"), name)

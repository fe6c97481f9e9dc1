"""Penstock keeps Spark Structured Streaming jobs fresh under overload.

``import penstock`` is light: what needs Spark is loaded when it is first used::

    from penstock import Site, functions as sf
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock import functions
    from penstock.core.settings import QueryTerms
    from penstock.settle.settled_rows import settled
    from penstock.sources.replay import replay
    from penstock.spark.count_windows import count_windows
    from penstock.spark.site import Site
    from penstock.spark.window_processor import process_windows
    from penstock.windows.concept import Concept

__version__ = "0.1.0"
__all__ = [
    "Concept",
    "PenstockError",
    "QueryTerms",
    "Site",
    "__version__",
    "count_windows",
    "functions",
    "process_windows",
    "replay",
    "settled",
]
_MODULES = {
    "Concept": "penstock.windows.concept",
    "QueryTerms": "penstock.core.settings",
    "Site": "penstock.spark.site",
    "count_windows": "penstock.spark.count_windows",
    "process_windows": "penstock.spark.window_processor",
    "replay": "penstock.sources.replay",
    "settled": "penstock.settle.settled_rows",
}
"""Where the names are that are loaded when they are first used."""


def __getattr__(name: str) -> Any:
    if name == "functions":
        return import_module("penstock.functions")
    if name not in _MODULES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

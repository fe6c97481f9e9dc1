"""Figures and tables of the seed papers, one a file. ``get("las")`` finds one by its name."""

from importlib import import_module
from pkgutil import iter_modules

from penstock.experiments.base import Experiment
from penstock.spelling import hint
from penstock.types import PenstockError

__all__ = ["Experiment", "available", "get"]


def available() -> dict[str, type[Experiment]]:
    """Every experiment in this package, by name; being a class with a ``name`` here is enough."""
    found: dict[str, type[Experiment]] = {}
    for module in iter_modules(__path__):
        namespace = import_module(f"{__name__}.{module.name}")
        for thing in vars(namespace).values():
            if isinstance(thing, type) and thing.__module__ == namespace.__name__:
                name = getattr(thing, "name", None)
                if isinstance(name, str) and callable(getattr(thing, "run", None)):
                    found[name] = thing
    return found


def get(name: str) -> Experiment:
    experiments = available()
    if name not in experiments:
        raise PenstockError(f"unknown experiment {name!r}: {hint(name, experiments)}")
    return experiments[name]()

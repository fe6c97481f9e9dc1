"""Figures and tables of the seed papers, one a file. ``get("las")`` finds one by its name."""

from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules

from penstock.experiments.base import Experiment
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
        close = get_close_matches(name, experiments, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(experiments)}"
        raise PenstockError(f"unknown experiment {name!r}: {hint}")
    return experiments[name]()

"""Figures and tables of the seed papers, one a file. ``get("las")`` finds one by its name."""

from importlib import import_module
from pkgutil import walk_packages

from penstock import lab
from penstock.errors import PenstockError
from penstock.hints import hint
from penstock.lab.result import Experiment

__all__ = ["Experiment", "available", "get"]


def available() -> dict[str, type[Experiment]]:
    """Returns every experiment by name: each class with a ``name`` in this package."""
    found: dict[str, type[Experiment]] = {}
    for module in walk_packages(lab.__path__, f"{lab.__name__}."):
        if module.name.startswith(f"{lab.__name__}.bench"):
            continue  # these have a command of their own
        namespace = import_module(module.name)
        for thing in vars(namespace).values():
            if isinstance(thing, type) and thing.__module__ == namespace.__name__:
                name = getattr(thing, "name", None)
                if isinstance(name, str) and callable(getattr(thing, "run", None)):
                    found[name] = thing
    return found


def get(name: str) -> Experiment:
    """Returns the experiment of a name, or raises an error that says which there are."""
    experiments = available()
    if name not in experiments:
        raise PenstockError(f"unknown experiment {name!r}: {hint(name, experiments)}")
    return experiments[name]()

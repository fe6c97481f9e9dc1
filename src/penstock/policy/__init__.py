"""Policies, one a file. ``get("balance-sic")`` finds one by its name.

A policy is a class with a ``name`` and a method ``rates`` (see ``Policy``) in a module of this
package; being there is all it takes to be found by name and by the shared checks.

>>> get("uniform").name
'uniform'
"""

from importlib import import_module
from pkgutil import iter_modules

from penstock.core.demand import Policy
from penstock.errors import PenstockError
from penstock.hints import hint

__all__ = ["Policy", "available", "get"]


def available() -> dict[str, type[Policy]]:
    """Answers the class of every policy in this package, by name."""
    found: dict[str, type[Policy]] = {}
    for module in iter_modules(__path__):
        namespace = import_module(f"{__name__}.{module.name}")
        for thing in vars(namespace).values():
            if isinstance(thing, type) and thing.__module__ == namespace.__name__:
                name = getattr(thing, "name", None)
                if isinstance(name, str) and callable(getattr(thing, "rates", None)):
                    found[name] = thing
    return found


def get(name: str) -> Policy:
    """Answers the policy of this name, or says which there are."""
    policies = available()
    if name not in policies:
        raise PenstockError(f"unknown policy {name!r}: {hint(name, policies)}")
    return policies[name]()

"""Policies, one a file. ``get("balance-sic")`` finds one by its name."""

from importlib import import_module
from pkgutil import iter_modules

from penstock.errors import PenstockError
from penstock.hints import hint
from penstock.policy.base import Policy

__all__ = ["Policy", "available", "get"]


def available() -> dict[str, type[Policy]]:
    """Every policy in this package, by name."""
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
    policies = available()
    if name not in policies:
        raise PenstockError(f"unknown policy {name!r}: {hint(name, policies)}")
    return policies[name]()

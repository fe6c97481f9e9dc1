"""Puts fragments into an order in which senders come before receivers."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from penstock.federation.query_file import ROOT
from penstock.sql import SqlError


def in_order(reads: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the fragments in order; ``reads`` has for each those that it reads.

    >>> in_order({"root": ["rome", "oslo"], "rome": [], "oslo": ["rome"]})
    ['rome', 'oslo', 'root']
    """
    try:
        order = list(TopologicalSorter(reads).static_order())
    except CycleError as error:
        circle = " <- ".join(error.args[1])
        raise SqlError(f"fragments: they read each other in a circle: {circle}") from None
    read = {name for names in reads.values() for name in names}
    if ROOT in read:
        readers = [name for name, names in reads.items() if ROOT in names]
        raise SqlError(f"fragments.{readers[0]}.sql: {ROOT!r} has the result, and nobody reads it")
    for name in order:
        if name != ROOT and name not in read:
            raise SqlError(f"fragments.{name}: nobody reads it; name it behind FROM in another one")
    return order

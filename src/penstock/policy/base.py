"""One protocol for all policies: they differ only in the rates they give."""

from typing import ClassVar, Protocol, runtime_checkable

from penstock.core.types import Demand, Floats


@runtime_checkable
class Policy(Protocol):
    """Divides a capacity between strata.

    ``rates`` is called once for each plan, with a demand whose numbers are finite and not
    negative. It answers an admission rate in [0, 1] for each stratum, whose expected cost does
    not exceed the capacity, and 1 for all where the capacity suffices. It keeps no state and
    knows neither Spark nor the clock.

    A policy is a class with a ``name`` in a module of this package; being there is all it takes
    to be found by name and by the shared checks.
    """

    name: ClassVar[str]

    def rates(self, demand: Demand, capacity: float) -> Floats: ...


def keeps_paid(policy: Policy) -> bool:
    """Whether a policy admits partial results of other sites whatever their query's standing.

    It says so with ``keeps_paid = True``. A query's standing then counts what passes through
    here as a contribution of others.
    """
    return bool(getattr(policy, "keeps_paid", False))


def is_blind(policy: Policy) -> bool:
    """Whether a policy gives its rates without a look at what tuples are worth (``blind = True``);
    then nobody rounds them by what they are worth, either.
    """
    return bool(getattr(policy, "blind", False))

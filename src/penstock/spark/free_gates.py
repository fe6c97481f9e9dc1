"""Says which gates a Spark query may have while others run.

A gate, or the name of a query, belongs to one Spark query, with two exceptions. Several results of
a query share its gates (see ``fan_out``). And several fragments of a federated query may run at one
site, each behind gates of its own.
"""

from collections.abc import Sequence

from penstock.errors import PenstockError
from penstock.spark.gate.columns import Gate
from penstock.spark.query import SparkQuery


def check_free(gates: Sequence[Gate], running: Sequence[SparkQuery]) -> None:
    """Refuses gates, or names of queries, that another running query has."""
    taken = [gate for stream in running for gate in stream.gates]
    sharing = [s for s in running if any(gate in s.gates for gate in gates)]
    shared = [gate for gate in gates if gate in taken]
    if any(s.gates != gates for s in sharing) or any(gate.concept for gate in shared):
        raise PenstockError(
            "this gate belongs to another query already, and only queries with the same gates, "
            "and without a concept, can share them; call site.gate(...) for each query"
        )
    _check_names(gates, shared, taken)
    names = [(gate.keys.query, gate.keys.source) for gate in gates if gate.keys.same_value]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)[1]
        raise PenstockError(
            f"two streams of this query are called {twice!r}: give each a name of its own "
            "with site.gate(source=...)"
        )


def _check_names(gates: Sequence[Gate], shared: Sequence[Gate], taken: Sequence[Gate]) -> None:
    """Refuses the name of a running query, unless both are fragments of it."""
    running = {gate.keys.query: gate for gate in taken if isinstance(gate.keys.query, str)}
    for gate in gates:
        own = gate.keys.query
        other = running.get(own) if isinstance(own, str) and gate not in shared else None
        if other is not None and not (gate.of_fragment and other.of_fragment):
            raise PenstockError(
                f"a query of the name {own!r} is running: give site.gate(query=...) another "
                "name, or, if this is another result of it, start it from the stream behind the "
                "same gate"
            )

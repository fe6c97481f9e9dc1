"""Remembers how queries are cut: every order of a query's fragments asks, and it takes a while."""

from collections import OrderedDict
from threading import Lock

from penstock.federation.fragment_plan import SplitQuery
from penstock.federation.messages import FragmentOrder
from penstock.federation.split import split

MOST_SPLITS = 256


class KnownSplits:
    """Cuts each query once for each catalog."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, SplitQuery] = OrderedDict()
        self._lock = Lock()

    def of(self, order: FragmentOrder) -> SplitQuery:
        """Returns how the query of an order is cut; raises an ``SqlError`` where it cannot be."""
        catalog = sorted(
            (name, source.columns, source.time) for name, source in order.catalog.items()
        )
        key = f"{order.query.model_dump_json()}{catalog}"
        with self._lock:
            found = self._known.get(key)
        if found is None:  # not under the lock: heartbeats ask too, and this takes seconds
            found = split(order.query, order.catalog)
        with self._lock:
            self._known[key] = found
            self._known.move_to_end(key)
            while len(self._known) > MOST_SPLITS:
                self._known.popitem(last=False)
            return found

"""Max-min over capacity: equal shares of the machine, whatever the queries make of them."""

from typing import ClassVar

from penstock.core.demand import Demand
from penstock.core.types import Floats
from penstock.policy.balance_sic import level_out


class MaxMin:
    """Isolates a noisy tenant: nobody's flood takes more than its share of the capacity.

    Each query gets the same capacity per weight; what a modest one leaves is shared by the
    others. Inside its share a query's best tuples (SIC per unit of cost) go first. Floors and
    ceilings are SIC, as in BALANCE-SIC.
    """

    name: ClassVar[str] = "max-min"

    def rates(self, demand: Demand, capacity: float) -> Floats:
        return level_out(demand, capacity, "cost")

"""The same rate for everybody: the baseline that knows nothing."""

from typing import ClassVar

import numpy as np

from penstock.core.demand import Demand
from penstock.core.types import Floats


class Uniform:
    """``rate = capacity / total cost``; THEMIS' random shedder in expectation."""

    name: ClassVar[str] = "uniform"
    blind: ClassVar[bool] = True

    def rates(self, demand: Demand, capacity: float) -> Floats:
        total = demand.total_cost()
        return np.full(len(demand), 1.0 if total <= capacity else capacity / total)

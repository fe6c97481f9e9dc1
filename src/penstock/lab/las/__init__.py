"""LAS, load that depends on the content: shedders that learn what each tuple costs.

``shedder.Shedder`` is the one shape; ``LoadAware`` is the published one, ``DearestFirst`` ours,
and ``rivals`` those that they are compared with. ``simulate`` runs one of them in virtual time,
message by message; ``fleet`` runs hundreds at once.
"""

from penstock.lab.las.checks import Absolute, Average, Check, SlidingAverage
from penstock.lab.las.dearest_first import DearestFirst, FadingOperator
from penstock.lab.las.operator import Operator
from penstock.lab.las.rivals import BaseLine, FullKnowledge, StrawManShedder
from penstock.lab.las.shedder import LoadAware, TupleShedder

__all__ = [
    "Absolute",
    "Average",
    "BaseLine",
    "Check",
    "DearestFirst",
    "FadingOperator",
    "FullKnowledge",
    "LoadAware",
    "Operator",
    "SlidingAverage",
    "StrawManShedder",
    "TupleShedder",
]

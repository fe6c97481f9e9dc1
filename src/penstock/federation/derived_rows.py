"""Reads links of derived rows: takes what a sender and a gate say of a row for its marks."""

from collections.abc import Collection

from sqlglot import exp

from penstock.federation.fragment_plan import (
    CARRIED,
    CARRIED_MISSING,
    DERIVED_MARKS,
    SENT_WEIGHT,
)
from penstock.sql.grammar import parse_rewritten, text
from penstock.sql.relations import MISSING, SHOWN, SIC, WEIGHT

_HIDDEN = tuple(dict.fromkeys((WEIGHT, SIC, *DERIVED_MARKS.values())))
_MARKS = (
    f"{WEIGHT} * {SENT_WEIGHT} AS {WEIGHT}",
    f"{CARRIED} AS {SIC}",
    f"{CARRIED_MISSING} + ({WEIGHT} - 1.0D) * ({CARRIED} + {CARRIED_MISSING}) AS {MISSING}",
    SHOWN,
)
"""A row that stands for others says that as much information as it has is missing for each."""
_READ = ", ".join([f"* EXCEPT ({', '.join(_HIDDEN)})", *_MARKS])


def with_links_read(sql: str, views: Collection[str]) -> str:
    """Returns rewritten SQL in which these views have derived rows behind their gates."""
    tree = parse_rewritten(sql)
    for table in [*tree.find_all(exp.Table)]:
        if table.name in views:
            read = parse_rewritten(f"SELECT {_READ} FROM `{table.name}`")
            table.replace(exp.Subquery(this=read, alias=table.args.get("alias")))
    return text(tree)

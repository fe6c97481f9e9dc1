"""Refuses what Spark would refuse only once a fragment runs."""

from penstock.sql import Rewritten, SqlError


def check_ending(found: Rewritten | None) -> None:
    """Refuses a result that a stream would never have."""
    if found is None:
        return
    if found.order or found.limit is not None:
        raise SqlError("ORDER BY and LIMIT: a stream has no first row; use max_by(x, y, k)")
    if found.aggregated and not found.windowed:
        raise SqlError("an aggregate without a window never ends: GROUP BY window(ts, '1 minute')")

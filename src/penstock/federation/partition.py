"""Estimates the load of fragments, and decides by it where a query is cut (thesis, section 4.4.2).

The load of a fragment is its input rate times the sum of its operators' load coefficients; the unit
is the work of reading one tuple a second. A site's free capacity is told in the same unit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

from sqlglot import exp

from penstock.federation.fragment_plan import PlannedFragment, SplitQuery
from penstock.federation.messages import LentSource
from penstock.sql.grammar import parse_rewritten
from penstock.sql.pieces import has_aggregates
from penstock.sql.sliding import span_of

COEFFICIENTS = {"read": 1.0, "filter": 0.1, "aggregate": 0.5, "sum": 0.05, "join": 2.0, "send": 0.5}
"""The work of an operator for one of its tuples. ``aggregate`` is finding the group, once for each
window that a tuple is in; ``sum`` is each aggregate of a group; ``send`` is a row that is written
to a link. Relative to reading; only ratios matter. They are judgements, and were not measured."""
USUAL_GROUPS = 10.0
"""How many groups a window has where nobody knows."""
USUAL_INTERVAL_SECONDS = 2.0
MOST_COPIES = 64


@dataclass(frozen=True)
class Load:
    """Says how many tuples a second a fragment gets and sends, and what that costs."""

    input: float
    output: float
    load: float


def loads_of(
    found: SplitQuery,
    catalog: Mapping[str, LentSource],
    groups: float = USUAL_GROUPS,
    interval: float = USUAL_INTERVAL_SECONDS,
) -> dict[str, Load]:
    """Estimates the load of each fragment from the rates of the sources."""
    loads: dict[str, Load] = {}
    for fragment in found.fragments:
        rates = [_rate(catalog, fragment.site, source) for source in fragment.sources]
        for relation_senders in fragment.inputs.values():
            for sender in relation_senders:
                shared = found.fragment(sender).routes is not None
                parts = len(found.receivers(sender)) if shared else 1
                rates.append(loads[sender].output / parts)
        came = sum(rates)
        sent = _output(fragment, came, groups, interval)
        work = came * coefficient_of(fragment) + sent * COEFFICIENTS["send"]
        loads[fragment.name] = Load(came, sent, work)
    return loads


def _rate(catalog: Mapping[str, LentSource], site: str, source: str) -> float:
    return catalog[f"{site}.{source}"].rate


def _output(fragment: PlannedFragment, came: float, groups: float, interval: float) -> float:
    """Returns how many rows a second a fragment sends; an aggregate sends no more than it gets."""
    tree = parse_rewritten(_sql(fragment))
    windows = [node for node in tree.find_all(exp.Anonymous) if str(node.this).lower() == "window"]
    if not windows:
        return came
    _, slide, _ = span_of(windows[0]) if len(windows[0].expressions) > 1 else (0, 1_000_000, 0)
    panes = max(1e6 / max(slide, 1), 1.0 / interval if fragment.by_batch else 0.0)
    return min(came, panes * groups)


def coefficient_of(fragment: PlannedFragment) -> float:
    """Sums the load coefficients of the operators of a fragment."""
    tree = parse_rewritten(_sql(fragment))
    total = COEFFICIENTS["read"]
    total += COEFFICIENTS["join"] * sum(1 for _ in tree.find_all(exp.Join))
    for select in tree.find_all(exp.Select):
        total += COEFFICIENTS["filter"] * bool(select.args.get("where"))
        if has_aggregates(select) and select.args.get("group"):
            copies = _windows_of_tuple(select)
            total += copies * (
                COEFFICIENTS["aggregate"] + COEFFICIENTS["sum"] * len(select.expressions)
            )
    return total


def _windows_of_tuple(select: exp.Select) -> int:
    calls = (node for node in select.find_all(exp.Anonymous) if str(node.this).lower() == "window")
    for call in calls:
        if call.parent_select is select and len(call.expressions) > 2:
            length, slide, _ = span_of(call)
            return max(1, ceil(length / slide)) if slide else 1
    return 1


def _sql(fragment: PlannedFragment) -> str:
    if fragment.rewritten is not None:
        return fragment.rewritten.sql
    assert fragment.batch_sql is not None
    return fragment.batch_sql


@dataclass(frozen=True)
class CutDecision:
    """Says where a query is best cut."""

    at_source: tuple[str, ...]
    """Sites that aggregate what their sources give."""
    forwarding: tuple[str, ...] = field(default=())
    """Sites that have capacity for sending tuples on, and none for aggregating them."""
    copies: int = 1
    """How many copies of the merge are needed."""


def where_to_cut(
    found: SplitQuery, loads: Mapping[str, Load], free: Mapping[str, float]
) -> CutDecision:
    """Decides by the free capacity of sites whether they aggregate, and how often merges are.

    A partial result saves the root and the link far more than it costs, so that a site forwards
    tuples only if it cannot do otherwise: if sending them fits and aggregating them does not.
    """
    aggregating: list[str] = []
    forwarding: list[str] = []
    for fragment in found.fragments:
        if fragment.kind != "partial":
            continue
        room, load = free.get(fragment.site, 0.0), loads[fragment.name]
        sending = load.input * (COEFFICIENTS["read"] + COEFFICIENTS["send"])
        (forwarding if sending <= room < load.load else aggregating).append(fragment.site)
    merge = max((loads[each.name].load for each in found.fragments if not each.by_batch), default=0)
    copies = copies_needed(merge, list(free.values()))
    return CutDecision(tuple(aggregating), tuple(forwarding), copies)


def copies_needed(load: float, free: Sequence[float]) -> int:
    """Returns the least number of copies that find room, each with an even part of the load.

    Where none is enough, that is the number with which the most of the load finds room.

    >>> copies_needed(10.0, [12.0, 3.0]), copies_needed(10.0, [6.0, 5.0, 1.0])
    (1, 2)
    """
    rooms = sorted(free, reverse=True)[:MOST_COPIES]
    best, lack = 1, inf
    for count in range(1, len(rooms) + 1):
        part = load / count
        missing = sum(max(0.0, part - room) for room in rooms[:count])
        if missing == 0.0:
            return count
        if missing < lack:
            best, lack = count, missing
    return best

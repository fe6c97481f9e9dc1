"""Which figures are collected: what each is called, what it means, and where it stands in a report.

Names and units go by Prometheus' conventions: ``penstock_``, the thing, the unit in its base form,
and ``_total`` (which the library adds) behind what only grows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MILLI = 1e-3
"""Milliseconds of a report are seconds here."""
Fold = Callable[[Iterable[float]], float]


@dataclass(frozen=True)
class Figure:
    """Is one figure. ``path`` leads to it in the report, with dots between keys."""

    name: str
    kind: Literal["counter", "gauge"]
    path: str
    words: str
    scale: float = 1.0
    labels: Mapping[str, str] = field(default_factory=dict)
    fold: Fold | None = None
    """Makes one figure of those that share a label; None where nothing can be said of them."""

    def of(self, told: Mapping[str, Any]) -> float | None:
        """Answers the figure; None where the report does not know it.

        A text counts as 1, and of what has an entry for each query the entries are counted.

        >>> Figure("x_seconds", "gauge", "latency.p95", "", MILLI).of({"latency": {"p95": 250.0}})
        0.25
        """
        value: Any = told
        for key in self.path.split("."):
            value = None if value is None else value.get(key)
        if isinstance(value, str):
            return float(bool(value))
        if isinstance(value, Mapping):
            return float(len(value))
        return None if value is None else float(value) * self.scale


def _counter(name: str, path: str, words: str, **labels: str) -> Figure:
    return Figure(name, "counter", path, words, labels=labels, fold=sum)


def _gauge(
    name: str, path: str, words: str, scale: float = 1.0, fold: Fold | None = None, **labels: str
) -> Figure:
    return Figure(name, "gauge", path, words, scale, labels, fold)


_LOST = "Admitted tuples that were lost behind the gates, by where; late and windows are estimates."
_LATENCY = "From a tuple's arrival to the commit of its batch, by percentile of admitted tuples."

QUERY_FIGURES = (
    _counter("penstock_query_arrived_tuples", "arrived", "Tuples that came to the gates."),
    _counter("penstock_query_admitted_tuples", "admitted", "Tuples that the gates let through."),
    _counter("penstock_query_shed_tuples", "shed", "Tuples that the gates shed."),
    _counter("penstock_query_lost_tuples", "lost_in_guards", _LOST, where="guards"),
    _counter("penstock_query_lost_tuples", "lost_late", _LOST, where="late"),
    _counter("penstock_query_lost_tuples", "lost_in_windows", _LOST, where="windows"),
    _counter("penstock_query_batches", "batches", "Batches that had tuples of the query."),
    _gauge(
        "penstock_query_sic_now_ratio",
        "sic_now",
        "The share of what its sources sent that reached the result, over the last STW.",
        fold=min,
    ),
    _gauge("penstock_query_sic_mean_ratio", "sic", "The mean over time of the SIC.", fold=min),
    _gauge(
        "penstock_query_gate_sic_mean_ratio",
        "gate_sic",
        "The mean over time of the SIC at the gates, of which no loss behind them is missing.",
        fold=min,
    ),
    *(
        _gauge(
            "penstock_query_latency_seconds",
            f"latency_ms.p{rank}",
            _LATENCY,
            MILLI,
            max,
            percentile=str(rank),
        )
        for rank in (50, 95, 99)
    ),
    _gauge(
        "penstock_query_latency_measured",
        "latency_ms.measured",
        "1 where the latency is measured from arrivals, 0 where it is modelled.",
        fold=min,
    ),
    _gauge(
        "penstock_query_backlog_tuples",
        "backlog",
        "Tuples that waited at the sources beyond the newest batch.",
        fold=sum,
    ),
    _gauge(
        "penstock_query_held_back",
        "held_back_by",
        "1 where a limit on what a batch may read, and not the machine, keeps the query from more.",
        fold=max,
    ),
    _gauge(
        "penstock_query_let_in_tuples_per_second",
        "let_in_per_second",
        "Tuples that this limit lets in.",
    ),
    _gauge(
        "penstock_query_arriving_tuples_per_second",
        "arriving_per_second",
        "Tuples that arrive meanwhile.",
    ),
    _gauge(
        "penstock_query_drift_groups",
        "drift.groups",
        "Groups in the last pane of the query's windows, where it has a concept.",
    ),
    _gauge(
        "penstock_query_drift_overlap_ratio",
        "drift.overlap",
        "The share of the groups of the pane before that the last one has, too.",
    ),
    _gauge(
        "penstock_query_drift_distance_ratio",
        "drift.distance",
        "How far the shares of the groups of these two panes are apart.",
    ),
    _counter(
        "penstock_query_would_shed_tuples",
        "would_shed",
        "Tuples that a site which only watches would have shed.",
    ),
    _gauge(
        "penstock_query_would_latency_seconds",
        "would_latency_ms",
        "The 95th percentile of the latency that would have come of that; modelled.",
        MILLI,
        max,
    ),
)
TERM_FIGURES = (
    _gauge("penstock_query_weight", "weight", "The weight of the query in sharing."),
    _gauge("penstock_query_floor_ratio", "floor", "The SIC that the query is promised."),
)
"""Of what was agreed for each query."""
GUARD_FIGURES = (
    _counter("penstock_guard_arrived_tuples", "arrived", "Tuples that came to the guard."),
    _counter("penstock_guard_kept_tuples", "kept", "Tuples that went through its function."),
    _counter("penstock_guard_shed_tuples", "shed", "Tuples that the guard shed."),
    _counter("penstock_guard_failed_tuples", "failed", "Tuples for which the function raised."),
    _gauge("penstock_guard_shed_ratio", "shed_share", "The share of its tuples that was shed."),
    _gauge("penstock_guard_recent_shed_ratio", "recent_shed_share", "The same over half a minute."),
    _gauge("penstock_guard_mean_wait_seconds", "mean_wait_ms", "Mean wait of a tuple.", MILLI),
    _gauge(
        "penstock_guard_recent_wait_seconds",
        "recent_wait_ms",
        "The same over half a minute.",
        MILLI,
    ),
    _gauge("penstock_guard_mean_cost_seconds", "mean_cost_ms", "Mean time of a tuple.", MILLI),
    _gauge("penstock_guard_target_wait_seconds", "wait_ms", "The wait that it holds.", MILLI),
    _gauge("penstock_guard_has_failed", "last_error", "1 where the function has raised."),
)
SITE_FIGURES = (
    _gauge(
        "penstock_site_capacity_tuples_per_second",
        "site.capacity",
        "Tuples a second that the queries could admit now.",
    ),
    _gauge(
        "penstock_site_utilisation_ratio",
        "site.utilisation",
        "The share of the time in which a batch was running, of the busiest query.",
    ),
    _gauge("penstock_site_jain_index", "site.jain", "Jain's index of the queries' mean SIC."),
    _gauge(
        "penstock_site_ledger_balanced",
        "ledger_balanced",
        "1 where every tuple that arrived is accounted for.",
    ),
    _gauge("penstock_site_watching", "watch", "1 where the site only watches, and sheds nothing."),
)
ASKED_FIGURES = (
    _gauge("penstock_site_interval_seconds", "interval", "Between the starts of two batches."),
    _gauge(
        "penstock_site_target_latency_seconds", "latency", "The latency that the site is to hold."
    ),
    _gauge("penstock_site_stw_seconds", "stw", "The time over which SIC is accounted."),
)
"""Of what a site was asked for."""
STATISTICS_FIGURES = (
    _gauge("throughput_tuples_per_second", "throughput", "Tuples admitted, over the STW."),
    _gauge("dropped_tuples_per_second", "dropped", "Tuples shed, over the STW."),
    _gauge("latency_seconds", "latency_ms", "The 95th percentile of the worst query.", MILLI),
    _gauge(
        "latency_measured",
        "latency_measured",
        "1 where that is measured from arrivals, 0 where it is modelled.",
    ),
    _gauge(
        "target_latency_seconds",
        "latency_target_ms",
        "The latency that the site is to hold.",
        MILLI,
    ),
    _gauge("sic_ratio", "average_sic", "The mean SIC of the queries with fragments at the site."),
    _gauge("fragments_running", "fragments_running", "Fragments that run at the site."),
    _gauge(
        "fragments_connected",
        "fragments_connected",
        "Fragments at other sites that its own send to or hear from.",
    ),
    _gauge(
        "capacity_tuples_per_second", "capacity", "Tuples a second that the site could admit now."
    ),
    _gauge("utilisation_ratio", "utilisation", "The share of the time in which a batch ran."),
    _gauge(
        "backlog_tuples", "backlog", "Tuples that waited at the sources beyond the newest batches."
    ),
    _gauge("held_back_queries", "held_back_by", "Queries that a limit of their source holds back."),
)
"""The statistics manager's; their names stand behind ``penstock_oracle_site_``."""
ORACLE_SITE_FIGURES = (
    _gauge("silent", "silent", "1 where three intervals have passed without a heartbeat."),
    _gauge("overdue", "overdue", "1 where a heartbeat should have come half an interval ago."),
    _gauge("heartbeat_age_seconds", "age", "Since the last heartbeat."),
)
ORACLE_QUERY_FIGURES = (
    _gauge("sic_now_ratio", "sic_now", "The SIC of the query's result, over the last STW."),
    _gauge("sic_mean_ratio", "sic", "The mean over time of that SIC."),
    _counter("rows", "rows", "Rows of its result."),
    _counter("arrived_tuples", "arrived", "Tuples of its sources that came to the gates."),
    _counter("admitted_tuples", "admitted", "Tuples of its sources that the gates let through."),
    _counter("shed_tuples", "shed", "Tuples of its sources that the gates shed."),
    _gauge("weight", "weight", "The weight of the query in sharing, at the site of its root."),
    _gauge("floor_ratio", "floor", "The SIC that the query is promised, at the site of its root."),
    _gauge(
        "interval_width_ratio",
        "interval_width",
        "Half the width of the interval of 95 % around a count of its tuples, as a share of it.",
    ),
    _gauge("ceiling_ratio", "ceiling", "The SIC above which it yields to others."),
    *(
        _gauge(
            "latency_seconds",
            f"latency_ms.p{rank}",
            "From arrival at the root to the commit of the result, by percentile.",
            MILLI,
            percentile=str(rank),
        )
        for rank in (50, 95, 99)
    ),
    _gauge(
        "latency_measured",
        "latency_measured",
        "1 where that is measured from arrivals, 0 where it is modelled.",
    ),
    _gauge("fragments", "fragments", "Fragments of the query, replicas included."),
    _gauge("updates_sent", "updates_sent", "Messages by which its coordinator told the SIC."),
    _gauge("largest_update_bytes", "update_bytes_max", "The largest of them."),
    _gauge("moves", "moved", "How often a fragment was moved."),
    _gauge("silent", "silent", "1 where the site of the root is silent, and this is old."),
)
"""Their names stand behind ``penstock_oracle_query_``."""
LINK_FIGURES = (
    _gauge(
        "penstock_oracle_link_rows_per_second",
        "rows",
        "Rows that fragments at one site sent to those at another, between its last heartbeats.",
        fold=sum,
    ),
)
FEDERATION_FIGURES = (
    _gauge("penstock_oracle_jain_index", "jain", "Jain's index of the SIC of all queries."),
    _gauge("penstock_oracle_sic_ratio", "mean_sic", "The mean SIC of all queries."),
)

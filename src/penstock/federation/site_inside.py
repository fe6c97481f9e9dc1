"""Looks into a site: what its gates are told to admit, and what stands behind that."""

from collections.abc import Iterable

import numpy as np

from penstock.core.capacity import Capacity
from penstock.core.state import StreamState
from penstock.core.types import OTHER_GROUPS, Stratum
from penstock.federation.inside_messages import (
    MOST_KEYS_TOLD,
    MOST_STRATA_TOLD,
    GateInside,
    GuardInside,
    KeyInside,
    SiteInside,
    StratumInside,
)
from penstock.spark.guard_driver import Guard
from penstock.spark.query import SparkQuery
from penstock.spark.site import Site

OTHERS = "all others"


def site_inside(site: Site) -> SiteInside:
    """Answers the gates and guards of a site, with the plan in force."""
    settings = site.settings
    running = [stream for stream in list(site.streams.values()) if stream.runs]
    return SiteInside(
        policy=settings.policy.name,
        plan=site.plan.version,
        latency_seconds=settings.target_seconds,
        gates=[
            _gate(site, stream, site.state.streams[stream.name])
            for stream in running
            if stream.name in site.state.streams
        ],
        guards=[_guard(site, guard) for guard in site.guards],
    )


def _gate(site: Site, stream: SparkQuery, known: StreamState) -> GateInside:
    settings, clock = site.settings, known.clock
    expected = Capacity(settings).expected(stream.name, known, None)
    mix = known.mix.arrived
    rates = np.array([site.plan.rate(stratum) for stratum in known.mix.strata])
    passing = float((mix * rates).sum() / mix.sum()) if mix.sum() > 0 else site.plan.default_rate
    fixed = clock.seconds(0.0, 0.0)
    told = sorted(_strata(site, known.mix.strata), key=lambda one: (one.rate, -one.arrived))
    return GateInside(
        stream=stream.name,
        interval_seconds=settings.interval_of(stream.name),
        budget_seconds=settings.budget_of(stream.name),
        headroom=Capacity(settings).planned_share(known),
        fixed_seconds=max(fixed, 0.0),
        arriving_seconds=max(clock.seconds(1.0, 0.0) - fixed, 0.0),
        admitting_seconds=max(clock.admitting, 0.0),
        expected=expected,
        planned=expected * passing,
        believed_seconds=max(clock.seconds(expected, expected * passing * known.mean_weight), 0.0),
        last_seconds=stream.latencies[-1].seconds if stream.latencies else None,
        strata=told[:MOST_STRATA_TOLD],
        strata_in_all=len(told),
    )


def _strata(site: Site, strata: Iterable[Stratum]) -> list[StratumInside]:
    account = site.state.account
    if account is None:
        return []
    worth = account.by_query(site.state.shares, site.settings.sources).tuple_sic
    arrived, admitted = account.arrived(), account.admitted()
    places = ((stratum, account.strata.place(stratum)) for stratum in strata)
    return [
        StratumInside(
            query=stratum.query,
            source=stratum.source,
            group=OTHERS if stratum.group == OTHER_GROUPS else stratum.group,
            arrived=float(arrived[place]),
            admitted=float(admitted[place]),
            worth=float(worth[place]),
            rate=min(max(site.plan.rate(stratum), 0.0), 1.0),
        )
        for stratum, place in places
        if place >= 0
    ]


def _guard(site: Site, guard: Guard) -> GuardInside:
    told = guard.report()
    dearest = sorted(site.guards.costs_of(guard).items(), key=lambda item: -item[1])
    names = GuardInside.model_fields.keys() - {"dearest"}
    return GuardInside(
        **{name: told[name] for name in names},
        dearest=[
            KeyInside(key=stratum.group or stratum.source, seconds=seconds)
            for stratum, seconds in dearest[:MOST_KEYS_TOLD]
        ],
    )

"""``penstock bench field-…`` and ``federation``: on Kafka, from cold JVMs, with neighbours."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.lab.bench.suite import keep
from penstock.lab.field import (
    broker_outage,
    driver_killed,
    fair_tenants,
    field_rivals,
    five_queries,
    hop_latency,
    idle_cost,
    neighbours,
    outages,
    read_limits,
    simulated_too,
    site_killed,
    started_cold,
    two_sites,
    watched,
)
from penstock.lab.field.stand import FieldOptions, Stand, stand

Bench = Callable[[Stand, FieldOptions], dict[str, Any]]

ON_KAFKA: dict[str, Bench] = {
    "field-start": started_cold.run,
    "field-neighbour": neighbours.run,
    "field-limits": read_limits.run,
    "field-kill": driver_killed.run,
    "field-outage": broker_outage.run,
    "field-fair": fair_tenants.run,
    "field-idle": idle_cost.run,
    "field-watch": watched.run,
    "field-rivals": field_rivals.run,
}
WITHOUT_KAFKA: dict[str, Callable[[FieldOptions], dict[str, Any]]] = {
    "field-five": five_queries.run,
    "federation": two_sites.run,
    "federation-kill": site_killed.run,
    "federation-latency": hop_latency.run,
    "federation-outages": outages.run,
    "federation-simulated": simulated_too.run,
}
FIELD_BENCHES = (*ON_KAFKA, *WITHOUT_KAFKA)


def run_field_benches(names: Sequence[str], options: FieldOptions, directory: Path | None) -> bool:
    """Runs benchmarks one after the other, each with a broker of its own."""
    good = [_run(name, options, directory) for name in names]
    return all(good)


def _run(name: str, options: FieldOptions, directory: Path | None) -> bool:
    print(name, file=sys.stderr, flush=True)
    began = time.time()
    if name in WITHOUT_KAFKA:
        result = WITHOUT_KAFKA[name](options)
    else:
        with stand() as built:
            result = ON_KAFKA[name](built, options)
    return keep(name, {"runs_asked": options.runs, **result}, began, directory)

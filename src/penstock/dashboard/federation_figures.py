"""Says what there is to see of a federation: what its oracle knows, by keys."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from penstock.dashboard.live import Live
from penstock.dashboard.page import add_page
from penstock.federation.history import History
from penstock.federation.oracle import Oracle

MOST_EVENTS = 60


def federation_figures(oracle: Oracle, history: History, now: float) -> dict[str, Any]:
    """Answers what the page shows: the same as ``/sites``, ``/queries`` and ``/events``.

    Instead of ages, which grow all the time, it says when something was heard.
    """
    answer = oracle.queries(now)
    return {
        "about": {"kind": "federation"},
        "fairness": {"jain": answer.jain, "mean_sic": answer.mean_sic},
        "events": [event.model_dump() for event in history.events(0.0, MOST_EVENTS)],
        **{f"site:{site.site}": _dated(site, now) for site in oracle.sites(now)},
        **{f"query:{query.query}": _dated(query, now) for query in answer.queries},
    }


def federation_page(oracle: Oracle, history: History) -> tuple[Live, Callable[[FastAPI], None]]:
    """Answers the stream of a federation's page, and what adds both to an oracle's application."""
    live = Live(lambda now: federation_figures(oracle, history, now))

    def add(app: FastAPI) -> None:
        add_page(app)
        live.add(app)

    return live, add


def _dated(listed: Any, now: float) -> dict[str, Any]:
    told: dict[str, Any] = listed.model_dump(exclude={"age"})
    return {**told, "heard": round(now - listed.age, 1)}

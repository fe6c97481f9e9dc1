"""Says what there is to see of a federation, or of one job: what an oracle knows, by keys."""

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI

from penstock.dashboard.live import Live
from penstock.dashboard.page import add_page
from penstock.federation.history import History
from penstock.federation.oracle import Oracle

MOST_EVENTS = 60
FEDERATION = {"kind": "federation"}


def figures(
    oracle: Oracle, history: History, now: float, about: Mapping[str, str]
) -> dict[str, Any]:
    """Answers what the page shows: the same as ``/sites``, ``/queries`` and ``/events``.

    Instead of ages, which grow all the time, it says when something was heard.
    """
    answer = oracle.queries(now)
    return {
        "about": dict(about),
        "fairness": {"jain": answer.jain, "mean_sic": answer.mean_sic},
        "events": [event.model_dump() for event in history.events(0.0, MOST_EVENTS)],
        **{f"site:{site.site}": _dated(site, now) for site in oracle.sites(now)},
        **{f"query:{query.query}": _dated(query, now) for query in answer.queries},
    }


def page_of(
    oracle: Oracle, history: History, about: Mapping[str, str] = FEDERATION
) -> tuple[Live, Callable[[FastAPI], None]]:
    """Answers the stream of a page, and what adds both to an application.

    ``about`` says of what the page is: its ``kind``, and its ``name`` if it has one.
    """
    live = Live(lambda now: figures(oracle, history, now, about))

    def add(app: FastAPI) -> None:
        add_page(app)
        live.add(app)

    return live, add


def _dated(listed: Any, now: float) -> dict[str, Any]:
    told: dict[str, Any] = listed.model_dump(exclude={"age"})
    return {**told, "heard": round(now - listed.age, 1)}

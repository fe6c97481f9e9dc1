"""Submits, stops and moves queries of a federation, and says what came of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.documents import Document
from penstock.errors import PenstockError
from penstock.federation.deployment_plan import DeploymentPlan
from penstock.federation.fragment_plan import SplitQuery
from penstock.federation.known_sites import KnownSites, catalog_of
from penstock.federation.messages import Place
from penstock.federation.moving import move
from penstock.federation.partition import loads_of
from penstock.federation.placing import place
from penstock.federation.query_file import FederatedQuery, load_query
from penstock.federation.submission import Rankings, stop, submit
from penstock.sql import SqlError

IN_TURN = "round-robin"


def submit_file(path: Path, sites: KnownSites) -> str:
    """Has the sites of a federation run a query; says where its fragments run."""
    query, document = load_query(path)
    try:
        plan = submit(query, sites, places_of)
    except SqlError as error:
        raise sql_mistake(query, document, error) from None
    return f"{query.query} runs: {where(plan)}"


def stop_query(query: str, sites: KnownSites) -> str:
    """Stops the fragments of a query; says which."""
    return f"{query} is stopped: {', '.join(stop(query, sites))}"


def move_fragment(path: Path, fragment: str, to: str, replica: int, sites: KnownSites) -> str:
    """Moves a fragment to another site; says where everything runs then."""
    query, _ = load_query(path)
    plan = move(query, fragment, to, sites, replica=replica)
    return f"{query.query} runs: {where(plan)}"


def where(plan: DeploymentPlan) -> str:
    """Says which site runs which fragment."""
    return ", ".join(
        f"{fragment} at {' and '.join(each.site for each in places)}"
        for fragment, places in plan.places.items()
    )


def places_of(
    query: FederatedQuery, cut: SplitQuery, rankings: Rankings
) -> Mapping[str, Sequence[Place]]:
    """Finds a site for each fragment, by what the query says and what the oracle ranks."""
    ranking = rankings("least-loaded")
    turn = 0
    if IN_TURN in query.place.values():
        names = sorted(site.site for site in ranking.sites)
        first = rankings("round-robin").sites[:1]
        turn = names.index(first[0].site) if first and first[0].site in names else 0
    loads = loads_of(cut, catalog_of(ranking))
    return place(
        cut,
        ranking.sites,
        "least-loaded",
        query.place,
        turn,
        replicas=query.replicas,
        loads={name: load.load for name, load in loads.items()},
    )


def sql_mistake(query: FederatedQuery, document: Document, error: SqlError) -> PenstockError:
    """Says where in its file the SQL of a query is wrong."""
    if query.sql is None:
        return document.error(("fragments",), str(error))
    return document.error(("sql",), str(error), error.line)

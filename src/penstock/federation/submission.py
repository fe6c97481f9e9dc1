"""Deploys a federated query over its sites, lists what runs, and stops it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.federation import placing
from penstock.federation.deployment_plan import DeploymentPlan
from penstock.federation.fragment_plan import SplitQuery
from penstock.federation.ids import fragment_id
from penstock.federation.known_sites import KnownSites, catalog_of
from penstock.federation.messages import Place, RankingAnswer
from penstock.federation.partition import loads_of
from penstock.federation.query_file import ROOT, FederatedQuery, Ranking
from penstock.federation.split import split

USUAL_RANKING: Ranking = "least-loaded"
IN_TURN: Ranking = "round-robin"
Rankings = Callable[[Ranking], RankingAnswer]
"""Answers the sites that live, the best first in one of three ways."""
Placing = Callable[[FederatedQuery, SplitQuery, Rankings], Mapping[str, Sequence[Place]]]
"""Answers for each fragment its place, or as many as it has replicas."""


@dataclass(frozen=True)
class RunningQuery:
    """Is a query that runs, as its sites and the oracle tell it."""

    query: str
    fragments: Mapping[str, tuple[str, str]]
    """For each fragment's id its site and its state."""
    sic_now: float | None = None


class _Deployed(NamedTuple):
    id: str
    place: Place


def usual_places(
    query: FederatedQuery, cut: SplitQuery, rankings: Rankings
) -> Mapping[str, Sequence[Place]]:
    """Finds a site for each fragment by the query's sources, its ``place``, and measured load."""
    ranking, turn = rankings(USUAL_RANKING), 0
    if IN_TURN in query.place.values():
        names = [site.site for site in rankings(IN_TURN).sites]
        turn = sorted(names).index(names[0]) if names else 0
    loads = loads_of(cut, catalog_of(ranking))
    return placing.place(
        cut,
        ranking.sites,
        USUAL_RANKING,
        query.place,
        turn,
        replicas=query.replicas,
        loads={name: each.load for name, each in loads.items() if each.load},
    )


def submit(
    query: FederatedQuery,
    sites: KnownSites,
    place: Placing = usual_places,
    submitter: str = "",
) -> DeploymentPlan:
    """Cuts a query, finds places for its fragments, and has them run; answers where.

    Where a site refuses or does not answer, the fragments that were deployed are removed again.
    """
    if any(sites.running(query.query).values()):
        raise PenstockError(
            f"'query' must be a name that no running query has; {query.query!r} runs already: "
            "stop it first, or name this one otherwise"
        )
    catalog = catalog_of(sites.ranking())
    places = place(query, split(query, catalog), sites.ranking)
    plan = DeploymentPlan.of(query, catalog, places, submitter)
    _deploy(plan, sites)
    return plan


def stop(query: str, sites: KnownSites) -> list[str]:
    """Stops a query at all sites that live, its root last, and answers the ids of its fragments."""
    found = [
        (status.fragment == ROOT, _Deployed(status.id, place))
        for place, runs in sites.running(query).items()
        for status in runs
    ]
    if not found:
        raise PenstockError(f"no site that answers runs anything of {query!r}")
    deployed = [one for _, one in sorted(found)]
    if errors := _remove(deployed, sites):
        raise PenstockError(f"{query!r} is not stopped everywhere: {'; '.join(errors)}")
    return [one.id for one in deployed]


def list_queries(sites: KnownSites) -> list[RunningQuery]:
    """Lists the queries that run at the sites that live, by name."""
    known = sites.queries()
    sics = {status.query: status.sic_now for status in known.queries} if known else {}
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for place, runs in sites.running().items():
        for status in runs:
            found.setdefault(status.query, {})[status.id] = (place.site, status.state)
    return [RunningQuery(name, found[name], sics.get(name)) for name in sorted(found)]


def _deploy(plan: DeploymentPlan, sites: KnownSites) -> None:
    """Deploys everything, or nothing."""
    deployed: list[_Deployed] = []
    columns: dict[str, str] = {}
    try:
        for fragment, replica, place in plan.steps():
            identity = fragment_id(fragment.name, plan.query.query, replica)
            # noted before it is asked for, since an answer may be lost
            deployed.append(_Deployed(identity, place))
            with sites.calling(place.address) as client:
                answer = client.deploy(plan.order(fragment, replica, columns))
            columns[fragment.name] = answer.columns
    except BaseException as error:
        left = _remove(deployed[::-1], sites)
        if isinstance(error, PenstockError) and left:
            raise PenstockError(f"{error}; and this is left over: {'; '.join(left)}") from None
        raise


def _remove(deployed: list[_Deployed], sites: KnownSites) -> list[str]:
    """Removes fragments, each whatever happens to the others; answers what went wrong."""
    errors = []
    for one in deployed:
        try:
            with sites.calling(one.place.address) as client:
                client.remove(one.id, missing_is_well=True)
        except PenstockError as error:
            errors.append(str(error))
    return errors

"""Moves a fragment to another site while its query runs, and brings back one that is gone.

Checkpoints and links are on storage that sites share, so that a fragment goes on at its new site
where it stopped at the old one. It never runs at two: it is stopped, and waited for, before it is
deployed again.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from penstock.errors import PenstockError
from penstock.federation.client import SiteClient
from penstock.federation.coordination import Missing
from penstock.federation.deployment_plan import DeploymentPlan
from penstock.federation.fragment_plan import PlannedFragment
from penstock.federation.ids import fragment_id
from penstock.federation.known_sites import KnownSites, catalog_of
from penstock.federation.messages import FragmentStatus, Place, RankingAnswer
from penstock.federation.query_file import ANY_SITE, FederatedQuery
from penstock.federation.split import split
from penstock.hints import hint

Calling = Callable[[str], AbstractContextManager[SiteClient]]
Running = dict[str, tuple[Place, FragmentStatus]]
"""For each fragment's id where it runs and how it is."""


def move(
    query: FederatedQuery,
    fragment: str,
    to: str,
    sites: KnownSites,
    *,
    replica: int = 0,
    submitter: str = "",
) -> DeploymentPlan:
    """Moves a fragment of a query that runs, and answers where everything runs then.

    All fragments are told the new places first, so that the coordinator, which would bring back
    what is missing, looks for it at the new site. If that site does not take it, it goes back.
    """
    ranking = sites.ranking()
    running: Running = {
        status.id: (place, status)
        for place, runs in sites.running(query.query).items()
        for status in runs
    }
    before = _as_it_runs(query, ranking, running, submitter)
    new, part = _new_place(ranking, to), before.cut.fragment(fragment)
    identity = fragment_id(fragment, query.query, replica)
    if identity not in running:
        raise PenstockError(f"{identity!r} does not run anywhere; nothing is moved")
    old, status = running[identity]
    _check_move(part, old, new)
    after = before.moved(fragment, replica, new)
    columns = _tell_places(after, running, sites.calling)
    with sites.calling(old.address) as client:
        client.remove(identity)
    try:
        with sites.calling(new.address) as client:
            client.deploy(after.order(part, replica, columns, status.incarnation + 1))
    except PenstockError as error:
        with sites.calling(old.address) as client:
            client.deploy(before.order(part, replica, columns, status.incarnation + 2))
        others = {name: found for name, found in running.items() if name != identity}
        _tell_places(before, others, sites.calling, columns)
        raise PenstockError(f"{identity!r} stays at {old.site!r}: {error}") from None
    return after


def deploy_anew(missing: Missing, calling: Calling) -> None:
    """Has a site run a fragment that it should run and does not, with what its senders send."""
    root = missing.root
    plan = DeploymentPlan.of(root.query, root.catalog, root.places, root.submitter)
    part = plan.cut.fragment(missing.fragment)
    columns: dict[str, str] = {}
    for sender in _senders(plan, part):
        place = plan.places[sender.name][0]
        identity = fragment_id(sender.name, root.query.query)
        with calling(place.address) as client:
            found = [status for status in client.fragments() if status.id == identity]
            if not found:
                raise PenstockError(f"{identity!r}, which it reads, is missing too")
            order = plan.order(sender, 0, columns, found[0].incarnation)
            columns[sender.name] = client.deploy(order).columns
    with calling(missing.place.address) as client:
        client.deploy(plan.order(part, missing.replica, columns))


def _as_it_runs(
    query: FederatedQuery, ranking: RankingAnswer, running: Running, submitter: str
) -> DeploymentPlan:
    """Answers the plan of a query by where its fragments are; all have to run."""
    catalog = catalog_of(ranking)
    places: dict[str, list[Place]] = {}
    for part in split(query, catalog).fragments:
        for replica in range(query.replicas.get(part.name, 1)):
            identity = fragment_id(part.name, query.query, replica)
            if identity not in running:
                raise PenstockError(f"{identity!r} does not run anywhere; nothing is moved")
            places.setdefault(part.name, []).append(running[identity][0])
    return DeploymentPlan.of(query, catalog, places, submitter)


def _new_place(ranking: RankingAnswer, name: str) -> Place:
    for site in ranking.sites:
        if site.site == name:
            return Place(site=name, address=site.address)
    known = [site.site for site in ranking.sites]
    raise PenstockError(f"unknown site {name!r}, or a silent one; {hint(name, known)}")


def _check_move(part: PlannedFragment, old: Place, new: Place) -> None:
    if old.site == new.site:
        raise PenstockError(f"{part.name!r} runs at {new.site!r} already")
    if part.sources:
        raise PenstockError(f"{part.name!r} reads sources of {old.site!r}, and cannot leave it")
    if part.site not in (ANY_SITE, new.site):
        raise PenstockError(f"the query says that {part.name!r} runs at {part.site!r}")


def _tell_places(
    plan: DeploymentPlan,
    running: Running,
    calling: Calling,
    known: dict[str, str] | None = None,
) -> dict[str, str]:
    """Gives the orders of what runs once more, with the places of now; answers the columns."""
    columns = dict(known or {})
    for part in plan.cut.fragments:
        for replica in range(len(plan.places[part.name])):
            identity = fragment_id(part.name, plan.query.query, replica)
            if identity in running:
                place, status = running[identity]
                order = plan.order(part, replica, columns, status.incarnation)
                with calling(place.address) as client:
                    columns[part.name] = client.deploy(order).columns
    return columns


def _senders(plan: DeploymentPlan, part: PlannedFragment) -> list[PlannedFragment]:
    """Answers the fragments that one depends on, senders first."""
    wanted = {name for group in part.inputs.values() for name in group}
    found = []
    for fragment in reversed(plan.cut.fragments):
        if fragment.name in wanted:
            wanted |= {name for group in fragment.inputs.values() for name in group}
            found.append(fragment)
    return found[::-1]

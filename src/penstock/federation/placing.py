"""Finds a site for each fragment of a query: where its source is, or by what the oracle ranks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from penstock.errors import PenstockError
from penstock.federation.fragment_plan import PlannedFragment, SplitQuery
from penstock.federation.messages import Place, RankedSite
from penstock.federation.query_file import ANY_SITE, Ranking
from penstock.hints import hint

WAYS: tuple[str, ...] = get_args(Ranking)
"""How a site is chosen where neither sources nor the user say: least loaded, in turn, best SIC."""
USUAL_UTILISATION = 0.05
"""What a fragment adds to the utilisation of a site where its load is not known."""


def place(
    found: SplitQuery,
    ranked: Sequence[RankedSite],
    by: str,
    wanted: Mapping[str, str],
    round_robin_start: int = 0,
    *,
    replicas: Mapping[str, int] | None = None,
    loads: Mapping[str, float] | None = None,
) -> dict[str, list[Place]]:
    """Returns the places of each fragment: one, or as many as it has replicas, on different sites.

    ``ranked`` has the sites that live. ``by`` is the way to choose among them, and ``wanted`` has a
    site or another way for some fragments. ``loads`` estimates the load of fragments, in the unit
    of the sites' capacity: what was placed before counts as load of its site.
    """
    _check(found, by, wanted, ranked)
    sites = {site.site: site for site in ranked}
    state = _Choice(sites, round_robin_start, dict(loads or {}))
    places: dict[str, list[Place]] = {}
    bound_first = sorted(found.fragments, key=lambda each: each.site == ANY_SITE)
    for fragment in bound_first:
        count = (replicas or {}).get(fragment.name, 1)
        chosen: list[str] = []
        for _ in range(count):
            way = wanted.get(fragment.name, by) if not chosen else by
            chosen.append(state.site_of(fragment, way, by, chosen))
        places[fragment.name] = [Place(site=s, address=sites[s].address) for s in chosen]
    return {fragment.name: places[fragment.name] for fragment in found.fragments}


def _check(
    found: SplitQuery, by: str, wanted: Mapping[str, str], ranked: Sequence[RankedSite]
) -> None:
    if not ranked:
        raise PenstockError("no site lives that could take a fragment")
    if by not in WAYS:
        raise PenstockError(f"by must be one of {', '.join(WAYS)}; got {by!r}")
    names = [fragment.name for fragment in found.fragments]
    for name in wanted:
        if name not in names:
            raise PenstockError(f"place.{name}: unknown fragment; {hint(name, names)}")


@dataclass
class _Choice:
    """Chooses sites one after the other, and knows what it has given them."""

    sites: Mapping[str, RankedSite]
    turn: int
    loads: Mapping[str, float]
    given: dict[str, float] = field(default_factory=dict)
    """The utilisation that was added to each site."""
    held: dict[str, int] = field(default_factory=dict)
    """The fragments of this query that each site has been given."""

    def site_of(self, fragment: PlannedFragment, way: str, by: str, taken: Collection[str]) -> str:
        """Returns the site of one more replica of a fragment."""
        site = self._bound(fragment, way, taken)
        if site is None:
            site = self._best(fragment, way if way in WAYS else by, taken)
        load, capacity = self.loads.get(fragment.name), self.sites[site].statistics.capacity
        added = load / capacity if load is not None and capacity > 0 else USUAL_UTILISATION
        self.given[site] = self.given.get(site, 0.0) + added
        self.held[site] = self.held.get(site, 0) + 1
        return site

    def _bound(self, fragment: PlannedFragment, way: str, taken: Collection[str]) -> str | None:
        """Returns the site that sources or the user ask for."""
        asked = None if way in WAYS else way
        if fragment.site == ANY_SITE:
            if asked is not None:
                self._lives(asked, f"place.{fragment.name}")
            return asked
        if asked not in (None, fragment.site):
            raise PenstockError(
                f"place.{fragment.name}: it has to run at {fragment.site!r}; got {asked!r}"
            )
        if taken:
            raise PenstockError(f"{fragment.name}: a fragment at a site of its own has no replica")
        self._lives(fragment.site, f"fragment {fragment.name!r}")
        lent = self.sites[fragment.site].sources
        for source in fragment.sources:
            if source not in lent:
                known = hint(source, lent) if lent else "it lends none"
                raise PenstockError(f"the site {fragment.site!r} lends no {source!r}; {known}")
        return fragment.site

    def _lives(self, site: str, where: str) -> None:
        if site not in self.sites:
            raise PenstockError(
                f"{where}: the site {site!r} is unknown or gone; {hint(site, self.sites)}"
            )

    def _best(self, fragment: PlannedFragment, way: str, taken: Collection[str]) -> str:
        free = [name for name in sorted(self.sites) if name not in taken]
        if not free:
            raise PenstockError(
                f"replicas.{fragment.name}: there must be a site for each; got {len(self.sites)} "
                "that live"
            )
        if way == "round-robin":
            everyone = sorted(self.sites)
            turns = (everyone[(self.turn + n) % len(everyone)] for n in range(len(everyone)))
            site = next(name for name in turns if name in free)
            self.turn = everyone.index(site) + 1
            return site
        if way == "highest-sic":
            return min(free, key=lambda name: (-self._sic(name), self._load(name), name))
        return min(free, key=lambda name: (self._load(name), self.held.get(name, 0), name))

    def _load(self, name: str) -> float:
        return self.sites[name].statistics.utilisation + self.given.get(name, 0.0)

    def _sic(self, name: str) -> float:
        """Returns what its queries' results are worth; without queries nothing is shed."""
        sic = self.sites[name].statistics.average_sic
        return 1.0 if sic is None else sic

"""Says which orders deploy a query: its fragments, their places, and what they read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.federation.fragment_plan import PlannedFragment, SplitQuery
from penstock.federation.messages import FragmentOrder, LentSource, Place
from penstock.federation.query_file import FederatedQuery
from penstock.federation.split import split

Places = Mapping[str, Sequence[Place]]


@dataclass(frozen=True)
class DeploymentPlan:
    """Is a query that has been cut and placed."""

    query: FederatedQuery
    cut: SplitQuery
    catalog: Mapping[str, LentSource]
    places: Places
    submitter: str = ""

    @classmethod
    def of(
        cls,
        query: FederatedQuery,
        catalog: Mapping[str, LentSource],
        places: Places,
        submitter: str = "",
    ) -> "DeploymentPlan":
        """Cuts a query that has been placed."""
        cut = split(query, catalog)
        return cls(query, cut, read_by(cut, catalog), places, submitter)

    def moved(self, fragment: str, replica: int, place: Place) -> "DeploymentPlan":
        """Answers the same with one fragment at another place."""
        mine = list(self.places[fragment])
        mine[replica] = place
        return replace(self, places={**self.places, fragment: mine})

    def steps(self) -> Iterator[tuple[PlannedFragment, int, Place]]:
        """Answers what is deployed where, senders first.

        A receiver needs the columns of its senders; and what senders write before it starts waits
        in the link.
        """
        for fragment in self.cut.fragments:
            for replica, place in enumerate(self.places[fragment.name]):
                yield fragment, replica, place

    def order(
        self,
        fragment: PlannedFragment,
        replica: int,
        columns: Mapping[str, str],
        incarnation: int = 0,
    ) -> FragmentOrder:
        """Makes the order of a fragment; ``columns`` has those of the links of its senders."""
        senders = {sender for group in fragment.inputs.values() for sender in group}
        return FragmentOrder(
            query=self.query,
            fragment=fragment.name,
            replica=replica,
            incarnation=incarnation,
            places={name: list(places) for name, places in self.places.items()},
            catalog=dict(self.catalog),
            schemas={name: columns[name] for name in sorted(senders)},
            submitter=self.submitter,
        )


def read_by(cut: SplitQuery, catalog: Mapping[str, LentSource]) -> dict[str, LentSource]:
    """Answers the part of a catalog that a query reads."""
    read = {f"{part.site}.{source}" for part in cut.fragments for source in part.sources}
    return {name: source for name, source in catalog.items() if name in read}

"""Several sites in one Spark session, for tests: each has its host, its gates and its mind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.documents import Document
from penstock.federation.fragment_plan import SplitQuery
from penstock.federation.ids import fragment_id
from penstock.federation.messages import FragmentOrder, LentSource, Place
from penstock.federation.query_file import FederatedQuery
from penstock.federation.site_file import SiteFile
from penstock.federation.site_host import SiteHost
from penstock.federation.split import split
from tests.spark.support import wait_until

TESTER = "tester"


@dataclass
class Hosts:
    """Sites by name, without servers: orders are handed over as their servers would."""

    by_name: dict[str, SiteHost]
    cuts: dict[str, SplitQuery] = field(default_factory=dict)
    places: dict[str, dict[str, list[Place]]] = field(default_factory=dict)

    @property
    def catalog(self) -> dict[str, LentSource]:
        return {
            f"{site}.{name}": source
            for site, host in self.by_name.items()
            for name, source in host.lent.items()
        }

    def submit(
        self, query: FederatedQuery, root: str | Sequence[str] = "rome"
    ) -> tuple[SplitQuery, dict[str, list[Place]]]:
        """Deploys a query, senders first; fragments without a place of their own go to the root's
        site.
        """
        catalog = self.catalog
        cut = split(query, catalog)
        roots = [root] if isinstance(root, str) else list(root)
        places = {
            fragment.name: [
                place_of(site)
                for site in (
                    roots
                    if fragment.name == "root"
                    else [fragment.site if fragment.site in self.by_name else roots[0]]
                )
            ]
            for fragment in cut.fragments
        }
        schemas: dict[str, str] = {}
        for fragment in cut.fragments:
            for replica, place in enumerate(places[fragment.name]):
                order = FragmentOrder(
                    query=query,
                    fragment=fragment.name,
                    replica=replica,
                    places=places,
                    catalog=catalog,
                    schemas=dict(schemas),
                )
                answer = self.by_name[place.site].deploy(order, TESTER)
                assert answer.id == fragment_id(fragment.name, query.query, replica)
                schemas[fragment.name] = answer.columns
        self.cuts[query.query], self.places[query.query] = cut, places
        return cut, places

    def wait_until_all_is_read(self, home: Path, query: str, seconds: float = 120.0) -> None:
        """Waits until each fragment, senders first, has committed all files that lie before it.

        What was read stands in the checkpoints, whoever runs the fragments.
        """
        shared = home / "links" / query
        for fragment in self.cuts[query].fragments:
            for replica in range(len(self.places[query][fragment.name])):
                checkpoint = shared / "checkpoints" / fragment_id(fragment.name, query, replica)
                inputs = [home / "data" / fragment.site] if fragment.sources else []
                receiver = shared / f"{fragment.name}.{replica}"
                inputs += [receiver / relation for relation in fragment.inputs]
                if self._runs(fragment.name, query, replica):
                    self._wait_for(checkpoint, inputs, seconds)

    def _wait_for(self, checkpoint: Path, inputs: Sequence[Path], seconds: float) -> None:
        def done() -> bool:
            self.check()
            return has_read(checkpoint, inputs)

        wait_until(done, seconds, f"{checkpoint.name} to read all")

    def _runs(self, fragment: str, query: str, replica: int) -> bool:
        identity = fragment_id(fragment, query, replica)
        return any(
            status.id == identity for host in self.by_name.values() for status in host.fragments()
        )

    def check(self) -> None:
        """Fails where a fragment has failed."""
        for host in self.by_name.values():
            for stream in host.site.streams.values():
                error = stream.query.exception()
                assert error is None, error


def has_read(checkpoint: Path, inputs: Sequence[Path]) -> bool:
    """Whether a Spark query has committed batches with all files that lie in its inputs now."""
    offsets, commits = (_batches(checkpoint / log) for log in ("offsets", "commits"))
    files = [file.name for each in inputs for file in each.glob("*.parquet")]
    if not offsets or max(offsets) not in commits:
        return not offsets and not files
    logs = [file for file in (checkpoint / "sources").glob("*/*") if file.name[0].isdigit()]
    told = "".join(file.read_text() for file in logs)
    return all(name in told for name in files)


def _batches(log: Path) -> set[int]:
    return {int(file.name) for file in log.glob("*") if file.name.isdigit()}


def place_of(site: str) -> Place:
    return Place(site=site, address="http://127.0.0.1:1")


@contextmanager
def hosts(
    spark: SparkSession,
    home: Path,
    sources: Mapping[str, Mapping[str, Any]],
    own: Path | None = None,
    **more: Any,
) -> Iterator[Hosts]:
    """Opens sites that lend these sources, with links that they share.

    What is each site's alone lies below ``own``, if that is another place.
    """
    made: dict[str, SiteHost] = {}
    try:
        for site, its in sources.items():
            given = {
                "site": site,
                "directory": str((own or home) / site),
                "links": str(home / "links"),
                "interval": 0.5,
                "latency": 60.0,
                "sources": its,
                **more,
            }
            document = Document(str(home / f"{site}.yaml"), given)
            made[site] = SiteHost(spark, SiteFile.model_validate(given), document)
            made[site].begin()
        yield Hosts(made)
    finally:
        for host in made.values():
            host.end()

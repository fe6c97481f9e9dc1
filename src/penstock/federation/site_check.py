"""Has Spark look at a site file, without starting anything."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.documents import Document
from penstock.federation.fragment_inputs import columns_of
from penstock.federation.messages import LentSource
from penstock.federation.site_file import SiteFile
from penstock.jobs.check import check
from penstock.jobs.inputs import behind, read
from penstock.jobs.load import prepared
from penstock.jobs.model import JobFile
from penstock.spark.spark_errors import told
from penstock.sql import Rewritten


@dataclass(frozen=True)
class CheckedSite:
    """Is what Spark says of a site file in which it finds no mistake."""

    site: str
    lent: Mapping[str, LentSource]
    own: Mapping[str, Rewritten]
    """The site's own queries."""


def check_site(spark: SparkSession, file: SiteFile, document: Document) -> CheckedSite:
    """Raises the first mistake with its place in the file."""
    lent = _lent(spark, file, document)
    if not file.queries:
        return CheckedSite(file.site, lent, {})
    loaded = prepared(JobFile(sources=file.sources, queries=file.queries), document)
    check(spark, loaded)
    return CheckedSite(file.site, lent, loaded.queries)


def _lent(spark: SparkSession, file: SiteFile, document: Document) -> dict[str, LentSource]:
    """Describes the sources that others may read."""
    base = Path(document.name).parent
    found = {}
    for name in file.sources if file.lends.sources is None else file.lends.sources:
        entry = file.sources.get(name)
        if entry is None:
            raise document.error(("lends", "sources"), f"there is no source {name!r}")
        if entry.static:
            continue
        try:
            columns = columns_of(behind(read(spark, entry, base), entry).schema)
        except PySparkException as error:
            raise document.error(("sources", name), told(error)) from None
        except ValueError as error:
            raise document.error(("sources", name), str(error)) from None
        found[name] = LentSource(columns=columns, time=entry.event_time)
    return found

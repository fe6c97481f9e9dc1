"""Tells job files, site files and files of federated queries apart, by the keys in them."""

from collections.abc import Sequence
from pathlib import Path

from penstock.documents import read
from penstock.federation.query_file import FederatedQuery
from penstock.federation.site_file import SiteFile
from penstock.jobs.model import JobFile

OF_SITES = frozenset(SiteFile.model_fields) - frozenset(JobFile.model_fields)
"""The keys that only a site file has."""
OF_QUERIES = frozenset(FederatedQuery.model_fields) - frozenset(JobFile.model_fields)
"""The keys that only the file of a federated query has."""


def sorted_by_kind(files: Sequence[Path]) -> tuple[list[Path], list[Path], list[Path]]:
    """Returns the job files, the site files, and the files of federated queries."""
    jobs: list[Path] = []
    sites: list[Path] = []
    queries: list[Path] = []
    for file in files:
        data = read(file).data
        keys = set(data) if isinstance(data, dict) else set()
        if "queries" in keys or "sources" in keys:
            (sites if keys & OF_SITES else jobs).append(file)
        elif keys & OF_QUERIES:
            (sites if "site" in keys else queries).append(file)
        else:
            (sites if "site" in keys else jobs).append(file)
    return jobs, sites, queries

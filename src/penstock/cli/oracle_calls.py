"""Calls the oracle for a command, with the token of the environment."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cli.command_support import token_of
from penstock.federation.known_sites import KnownSites
from penstock.federation.oracle_client import OracleClient
from penstock.federation.site_file import CertificateEntry


@contextmanager
def oracle_of(options: argparse.Namespace) -> Iterator[OracleClient]:
    """Returns a client of the oracle that the options name."""
    client = OracleClient(options.oracle, token_of(options.token_env), trusted(options.authority))
    try:
        yield client
    finally:
        client.close()


def sites_of(options: argparse.Namespace) -> KnownSites:
    """Knows the sites that the oracle of the options has heard of."""
    return KnownSites(
        options.oracle, token=token_of(options.token_env), tls=trusted(options.authority)
    )


def trusted(authority: str | None) -> CertificateEntry | None:
    """Says whose certificates a caller believes that shows none of its own."""
    return (
        None if authority is None else CertificateEntry(certificate="", key="", authority=authority)
    )

"""What the doctor says of the sites of a federation: tokens, ports, addresses, the oracle."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from penstock.doctor.finding import Finding
from penstock.federation.site_file import SiteFile, is_loopback


@dataclass(frozen=True)
class PlannedSite:
    """Is the file of a site, and what was found out about its surroundings."""

    name: str
    """Of the file."""
    file: SiteFile
    port_taken: bool = False
    """Whether something listens there already; it may be the site itself."""
    oracle_answers: bool | None = None
    """None where it names no oracle."""

    @property
    def directory(self) -> str:
        """Where it keeps what it knows, from where the file lies."""
        return str(Path(self.name).parent / self.file.directory)

    @property
    def links(self) -> str | None:
        """Where its links are; None where only it knows."""
        links = self.file.links
        return None if links is None else str(Path(self.name).parent / links)


def site_findings(sites: Sequence[PlannedSite]) -> Iterator[Finding]:
    """Says what is wrong with each site, and with all of them together."""
    for site in sites:
        yield from _safety(site)
        yield from _places(site)
    yield from _together(sites)


def _safety(site: PlannedSite) -> Iterator[Finding]:
    file = site.file
    values = Counter(file.accepts.values())
    shared = sorted(name for name, token in file.accepts.items() if values[token] > 1)
    if shared:
        yield Finding(
            "bad",
            f"{site.name}: accepts",
            f"{', '.join(shared)} have the same token, so that nobody can tell them apart",
            "give each a token of its own: openssl rand -hex 24",
        )
    if not is_loopback(file.host) and file.tls is None:
        yield Finding(
            "note",
            f"{site.name}: tls",
            "is not given, so that tokens and rows cross the network as they are",
            "name a certificate and its key, or listen on 127.0.0.1 alone",
        )
    if file.accepts and file.token is None:
        yield Finding(
            "note",
            f"{site.name}: token",
            "is not given, so that this site cannot call others that want one",
            "give it the token under which the others know it",
        )
    if file.oracle is not None:
        address = urlsplit(file.oracle)
        far = not is_loopback(address.hostname or "")
        if far and address.scheme == "http" and file.token is not None:
            yield Finding(
                "bad",
                f"{site.name}: oracle",
                "is called without TLS at another machine, with the token in the clear",
                "serve the oracle with --certificate and --key, and write https://",
            )


def _places(site: PlannedSite) -> Iterator[Finding]:
    file = site.file
    if site.port_taken:
        yield Finding(
            "note",
            f"{site.name}: port",
            f"something listens on {file.host}:{file.port} already",
            "if it is not this site, choose another port",
        )
    if file.port == 0 and file.oracle is None:
        yield Finding(
            "note",
            f"{site.name}: port",
            "is any that is free, and no oracle tells others which",
            "give a port, or name an oracle",
        )
    if not is_loopback(file.host) and file.address is None and file.host in ("0.0.0.0", "::"):
        yield Finding(
            "bad",
            f"{site.name}: address",
            f"is not given, and others cannot reach {file.host}",
            "write the address by which they do, such as https://rome.example:7101",
        )
    if site.oracle_answers is False:
        yield Finding(
            "note",
            f"{site.name}: oracle",
            f"{file.oracle} does not answer",
            "start it with penstock oracle; the site runs without, and is found by nobody",
        )


def _together(sites: Sequence[PlannedSite]) -> Iterator[Finding]:
    yield from _same(sites, "site", {s.name: s.file.site for s in sites}, "name")
    ports = {s.name: f"{s.file.host}:{s.file.port}" for s in sites if s.file.port}
    yield from _same(sites, "port", ports, "address")
    yield from _same(sites, "directory", {s.name: s.directory for s in sites}, "directory")
    links = {s.links for s in sites if s.file.brokers is None}
    if len(sites) > 1 and (None in links or len(links) > 1):
        yield Finding(
            "bad",
            ", ".join(site.name for site in sites),
            "do not share a directory of links, so that no row gets from one to the other",
            "name the same 'links' in all of them, or the same 'brokers'",
        )
    yield from _strangers(sites)


def _same(
    sites: Sequence[PlannedSite], key: str, values: Mapping[str, str], what: str
) -> Iterator[Finding]:
    for value, count in Counter(values.values()).items():
        if count > 1:
            names = [site.name for site in sites if values.get(site.name) == value]
            yield Finding(
                "bad", f"{', '.join(names)}: {key}", f"have the same {what}, {value}", "change one"
            )


def _strangers(sites: Sequence[PlannedSite]) -> Iterator[Finding]:
    """Says who will be refused by whom: a coordinator tells all sites of its query the news."""
    for host in sites:
        if not host.file.accepts:
            continue
        known = set(host.file.accepts.values())
        for caller in sites:
            token = caller.file.token
            if caller is not host and token not in known:
                yield Finding(
                    "bad",
                    f"{host.name}: accepts",
                    f"does not have the token of {caller.file.site}, whose news it will refuse",
                    f"add {caller.file.site} with that token",
                )

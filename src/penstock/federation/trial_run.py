"""Runs a federation for trying out: an oracle and its sites as processes of this machine."""

import re
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.federation.children import ChildProcess, end_all
from penstock.federation.client import CallError, SiteClient
from penstock.federation.federation_report import SiteAccount
from penstock.federation.oracle_client import OracleClient
from penstock.federation.oracle_messages import ListedSite
from penstock.federation.trial_files import (
    SUBMITTER,
    query_files,
    site_file,
    token_variable,
    tokens_file,
)
from penstock.federation.yaml_texts import to_yaml

LONGEST_START_SECONDS = 180.0
"""How long the oracle and the sites may take together, on a machine that does much else."""
LONGEST_END_SECONDS = 60.0
LONGEST_REPORT_SECONDS = 60.0
"""A site whose machine is overloaded is slow to answer, too."""
POLL_SECONDS = 0.25
TOKEN_BYTES = 24
LISTENS = re.compile(r"listens on (https?://\S+);")
Pause = Callable[[float], None]
MakeSite = Callable[[str, Sequence[str], str, str, str], dict[str, Any]]
"""Makes a site's file: of its name, all names, the oracle's address, interval and latency."""


def _free_port() -> int:
    """Finds a port for a site, which it keeps: the others have to find it again when it is back."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class ChildEndedError(PenstockError):
    """Is raised where a process has ended that should not have; its log is kept."""


class Trial:
    """Is an oracle and sites that run; ``close`` ends them all."""

    def __init__(
        self,
        directory: Path,
        names: Sequence[str],
        token: str | None,
        interval: str,
        latency: str,
        make_site: MakeSite = site_file,
    ) -> None:
        self.directory, self.names, self._make_site = directory, list(names), make_site
        self._interval, self._latency = interval, latency
        self._tokens = {name: secrets.token_urlsafe(TOKEN_BYTES) for name in names}
        self._tokens[SUBMITTER] = token or secrets.token_urlsafe(TOKEN_BYTES)
        self._children: dict[str, ChildProcess] = {}
        self._client: OracleClient | None = None

    @property
    def token(self) -> str:
        """The token of the submitter."""
        return self._tokens[SUBMITTER]

    @property
    def oracle(self) -> OracleClient:
        """Calls the oracle as the submitter."""
        assert self._client is not None  # it is called after the start
        return self._client

    def start_oracle(self, port: int, pause: Pause) -> str:
        """Starts the oracle, waits until it listens, and returns its address."""
        tokens = self.directory / "tokens.yaml"
        tokens.write_text(to_yaml(dict(tokens_file(self.names))))
        child = self._start(
            "oracle",
            ["oracle", "--port", str(port), "--tokens", str(tokens), "--readers"],
            self._tokens,
        )
        deadline = time.monotonic() + LONGEST_START_SECONDS
        while (found := LISTENS.search(child.said())) is None:
            self.check(["oracle"])
            if time.monotonic() > deadline:
                raise ChildEndedError(f"the oracle does not start: {child.last_words()}")
            pause(POLL_SECONDS)
        self._client = OracleClient(found[1], self.token)
        return found[1]

    def start_sites(self) -> None:
        """Starts all sites, without waiting for them."""
        for name in self.names:
            oracle = self.oracle.address
            told = self._make_site(name, self.names, oracle, self._interval, self._latency)
            file = self.directory / f"{name}.yaml"
            file.write_text(to_yaml({**told, "port": _free_port()}))
            self._start_site(name)

    def kill_site(self, name: str) -> None:
        """Kills the process of a site, as a crash would; its JVM notices and ends."""
        self._children[name].kill()

    def start_again(self, name: str) -> None:
        """Starts a site that has ended, from what it has left on disk."""
        self._start_site(name)

    def write_queries(self) -> list[Path]:
        """Writes the queries over all sites, and returns their files."""
        files = []
        for name, query in query_files(self.names).items():
            files.append(self.directory / f"{name}.yaml")
            files[-1].write_text(to_yaml(query))
        return files

    def sites_up(self) -> dict[str, ListedSite]:
        """Returns the sites that the oracle has heard of."""
        return {site.site: site for site in self.oracle.sites()}

    def check(self, names: Sequence[str] | None = None) -> None:
        """Raises if one of the processes has ended by itself."""
        for child in self._children.values():
            if (names is None or child.name in names) and not child.runs:
                raise ChildEndedError(f"{child.name} has ended; it said:\n{child.last_words()}")

    def ended(self) -> list[str]:
        """Returns the names of the processes that have ended by themselves."""
        return [name for name, child in self._children.items() if not child.runs]

    def accounts(self) -> list[SiteAccount]:
        """Asks every site for its last word; of one that does not answer, it is the oracle's."""
        with ThreadPoolExecutor(len(self.names)) as threads:
            return list(threads.map(self._account, self.oracle.sites()))

    def _account(self, site: ListedSite) -> SiteAccount:
        client = SiteClient(site.address, self.token)
        try:
            told = client.call("GET", "/report", dict[str, Any], seconds=LONGEST_REPORT_SECONDS)
            return SiteAccount(site.site, client.statistics(), told)
        except CallError as error:
            return SiteAccount(site.site, site.statistics, None, str(error))
        finally:
            client.close()

    def pids(self) -> Mapping[str, int]:
        """Returns the numbers of the processes, by name."""
        return {name: child.pid for name, child in self._children.items()}

    def close(self) -> list[str]:
        """Ends the sites, then the oracle; returns the names of those that had to be killed."""
        if self._client is not None:
            self._client.close()
        oracle = [child for name, child in self._children.items() if name == "oracle"]
        sites = [child for name, child in self._children.items() if name != "oracle"]
        return end_all(sites, LONGEST_END_SECONDS) + end_all(oracle, LONGEST_END_SECONDS)

    def _start_site(self, name: str) -> None:
        self._start(name, ["site", str(self.directory / f"{name}.yaml")], self._tokens)

    def _start(self, name: str, arguments: list[str], tokens: Mapping[str, str]) -> ChildProcess:
        given = {token_variable(owner): token for owner, token in tokens.items()}
        temporary = self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        given["TMPDIR"] = str(temporary)
        self._children[name] = ChildProcess(name, arguments, self.directory, given)
        return self._children[name]

"""A real Prometheus for tests, of Debian's package; ``scripts/setup.sh`` fetches it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST_SECONDS = 60.0


def binary(name: str) -> str:
    """Where ``prometheus`` or ``promtool`` is; a test fails where there is none."""
    cache = os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock"
    unpacked = Path(cache) / "prometheus" / "usr" / "bin" / name
    found = shutil.which(name) or (str(unpacked) if unpacked.exists() else None)
    assert found, f"there is no {name}: run scripts/setup.sh, or apt-get install prometheus"
    return found


def promtool(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [binary("promtool"), *arguments], input=given, capture_output=True, text=True, timeout=60
    )


@dataclass
class Prometheus:
    """A server that scrapes once a second."""

    address: str
    process: subprocess.Popen[bytes]
    log: Path

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Answers an expression in PromQL; fails where it is none."""
        text = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self.address}/api/v1/query?{text}", timeout=30) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result

    def values(self, expression: str, label: str) -> dict[str, float]:
        found = self.query(expression)
        return {each["metric"].get(label, ""): float(each["value"][1]) for each in found}

    def wait_for(self, expression: str) -> list[dict[str, Any]]:
        """Waits until an expression has a result."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while True:
            try:
                if found := self.query(expression):
                    return found
            except urllib.error.URLError:  # it has not started yet
                assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, f"{expression}: nothing; {self.log.read_text()}"
            time.sleep(0.1)


@contextmanager
def scraping(
    folder: Path, targets: Mapping[str, str], tokens: Mapping[str, str] | None = None
) -> Iterator[Prometheus]:
    """Runs a Prometheus that scrapes these hosts and ports, by name of the job."""
    jobs: Sequence[dict[str, Any]] = [
        {
            "job_name": name,
            "static_configs": [{"targets": [target]}],
            **(
                {"authorization": {"credentials": tokens[name]}}
                if tokens and name in tokens
                else {}
            ),
        }
        for name, target in targets.items()
    ]
    settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
    config = folder / "prometheus.yaml"
    config.write_text(json.dumps(settings))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = folder / "prometheus.log"
    command = [
        binary("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
    ]
    with log.open("wb") as written:
        process = subprocess.Popen(command, stdout=written, stderr=written)
    try:
        yield Prometheus(f"http://{address}", process, log)
    finally:
        process.terminate()
        process.wait(30)

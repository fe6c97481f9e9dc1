"""Runs a site in the foreground, and says when it listens."""

import signal
from contextlib import suppress
from pathlib import Path

from penstock.cli.interrupt import Interrupt
from penstock.cli.until_eof import end_with_parent
from penstock.federation.site_file import load_site
from penstock.federation.site_process import run_site


def run_site_file(path: Path, until_eof: bool) -> int:
    """Runs a site until it is interrupted, and returns the exit code."""
    name = load_site(path)[0].site
    interrupt = Interrupt()
    print(f"{name}: starting Spark", flush=True)
    with interrupt.installed():
        if until_eof:
            end_with_parent()
        with suppress(KeyboardInterrupt):  # it may come before anything runs
            run_site(path, interrupt, lambda address: _ready(name, address))
    print(f"{name}: ended", flush=True)
    return 128 + (interrupt.number or signal.SIGINT)


def _ready(name: str, address: str) -> None:
    print(f"{name}: listens on {address}; Ctrl-C ends it", flush=True)

"""Shows a federation once, or again and again until Ctrl-C."""

import json
import time
from typing import Protocol

from rich.console import Console, RenderableType
from rich.text import Text

from penstock.cli.federation_view import federation_console, line, picture
from penstock.cli.interrupt import Interrupt
from penstock.cli.oracle_watch import FederationMoment, OracleWatch
from penstock.cli.terminal import Plain, Redrawn, Shown, drawable, say
from penstock.federation.client import CallError
from penstock.federation.oracle_client import OracleClient


class FederationView(Shown, Protocol):
    """Is told what happens, in order, on one thread."""

    def stage(self, title: str) -> None:
        """Shows that something has happened."""

    def moment(self, now: FederationMoment, elapsed: float) -> None:
        """Shows how the federation is."""


def federation_view(console: Console) -> FederationView:
    """Returns tables where the terminal can redraw them, and plain lines elsewhere."""
    return FederationScreen(console) if drawable(console) else FederationLines(console)


class FederationScreen(Redrawn):
    """Shows tables and redraws them in place."""

    def __init__(self, console: Console) -> None:
        self._title = "Penstock"
        self._now: FederationMoment | None = None
        super().__init__(console)

    def stage(self, title: str) -> None:
        """Changes the title."""
        self._title = f"Penstock: {title}"

    def moment(self, now: FederationMoment, elapsed: float) -> None:
        """Changes the tables."""
        del elapsed
        self._now = now

    def picture(self) -> RenderableType:
        """Draws the title and the tables."""
        if self._now is None:
            return Text(self._title, style="bold")
        return picture(self._now, self._title)


class FederationLines(Plain):
    """Shows a line each time, without control characters."""

    def __init__(self, console: Console) -> None:
        self._console, self._title = console, ""

    def stage(self, title: str) -> None:
        """Prints what has happened, unless that was the last thing."""
        if title != self._title:
            say(self._console, title)
        self._title = title

    def moment(self, now: FederationMoment, elapsed: float) -> None:
        """Prints how the federation is."""
        say(self._console, line(now, elapsed))


def show_once(client: OracleClient, as_json: bool = False, bars: bool = True) -> None:
    """Prints one frame, or the same for programs."""
    now = OracleWatch(client).look()
    if as_json:
        print(json.dumps(now.json(), indent=1))
        return
    console = federation_console()
    console.print(picture(now, f"Penstock: {client.address}", bars and drawable_bars(console)))


def drawable_bars(console: Console) -> bool:
    """Says whether the output can hold the characters of a sparkline."""
    return console.encoding.startswith("utf")


def show(client: OracleClient, seconds: float) -> int:
    """Shows a federation until Ctrl-C, also while its oracle is gone; returns the exit code."""
    watch, interrupt = OracleWatch(client), Interrupt()
    now = watch.look()  # a wrong address or token is a mistake, an oracle that goes later is not
    began = time.monotonic()
    with interrupt.installed(), federation_view(federation_console()) as view:
        view.stage(client.address)
        try:
            while True:
                view.moment(now, time.monotonic() - began)
                interrupt.pause(seconds)
                now = _looked(watch, view, client.address, now)
        except KeyboardInterrupt:
            return 128 + interrupt.number


def _looked(
    watch: OracleWatch, view: FederationView, address: str, before: FederationMoment
) -> FederationMoment:
    try:
        now = watch.look()
    except CallError as error:
        if error.status is not None:
            raise
        view.stage(f"{address} does not answer; this is what it told last")
        return before
    view.stage(address)
    return now

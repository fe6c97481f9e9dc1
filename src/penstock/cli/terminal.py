"""Shows how a command is doing: something redrawn in place, or plain lines."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def drawable(console: Console) -> bool:
    """Says whether a terminal can redraw text in place, and shows UTF-8."""
    terminal = console.is_terminal and not console.is_dumb_terminal
    return terminal and console.encoding.startswith("utf")


def say(console: Console, text: str) -> None:
    """Prints one plain line, as it is."""
    console.print(text, soft_wrap=True, markup=False, highlight=False)


@contextmanager
def progress_bar(title: str = "") -> Iterator[Callable[[str, float], None]]:
    """Shows a bar for long work; it is told what is being done, and which part of all is done."""
    columns = (
        TextColumn(title),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda doing, done: progress.update(task, description=doing, completed=done)


class Shown(Protocol):
    """Is shown for as long as a ``with`` block lasts."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class Redrawn(Shown):
    """Shows a picture that a thread of its own redraws four times a second."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, get_renderable=self.picture, refresh_per_second=4)

    def picture(self) -> RenderableType:
        """Returns what to draw now."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class Plain(Shown):
    """Shows text as it comes; there is nothing to set up and nothing to put away."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

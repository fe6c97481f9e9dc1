"""What commands with a live view share: something redrawn in place, or plain lines."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def drawable(console: Console) -> bool:
    """Whether something can be redrawn in place, with characters of more than one byte."""
    terminal = console.is_terminal and not console.is_dumb_terminal
    return terminal and console.encoding.startswith("utf")


def say(console: Console, text: str) -> None:
    """One plain line, as it is."""
    console.print(text, soft_wrap=True, markup=False, highlight=False)


@contextmanager
def progress_bar(title: str = "") -> Iterator[Callable[[str, float], None]]:
    """Of long work: to be told what is being done, and which part of it all is done."""
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
    """Lasts for a ``with`` block."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Redrawn(Shown):
    """A picture, redrawn four times a second, on a thread of its own."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, get_renderable=self.picture, refresh_per_second=4)

    def picture(self) -> RenderableType:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()


class Plain(Shown):
    """Text as it comes: nothing to set up, nothing to put away."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

"""What every command with a live view needs to know of its terminal."""

from rich.console import Console


def drawable(console: Console) -> bool:
    """Whether something can be redrawn in place, with characters of more than one byte."""
    terminal = console.is_terminal and not console.is_dumb_terminal
    return terminal and console.encoding.startswith("utf")


def say(console: Console, text: str) -> None:
    """One plain line, as it is."""
    console.print(text, soft_wrap=True, markup=False, highlight=False)

"""The tuples of the windows that are open, with their groups' frequencies (CoD, section VI).

One buffer serves all windows that overlap: it stores a tuple once, in its pane. On arrival each
tuple gets its *draw*, a random number in [0, 1), its group is counted, and the tuples that came
together are laid by group and draw. When the watermark passes a window's end, the counts are the
concept, and the tuples whose draw is low enough stand at the beginning of each group: what is shed
is not even looked at.

Where a pane would hold more than ``most`` tuples, those of the largest groups with the highest
draws go: what is left is a reservoir of each group, and a sample of it is one of the whole.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.types import Bools, Floats, Ints
from penstock.windows import quota
from penstock.windows.sampling import Shedder, WindowConcept, shed

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class Chunk:
    """Tuples of one pane that came together, in the order of their keys."""

    pane: int
    names: Column
    """Its groups."""
    sizes: Floats
    """How many tuples of each group came, also of those that are not here any more."""
    key: Floats
    """Of each tuple, its group (an index into ``names``) plus its draw; ascending."""
    columns: Mapping[str, Column]
    moments: Floats | None = None
    """Where a value is looked at, of each group: how many there were, their mean, and the sum of
    their squared distances from it. In three rows."""

    @classmethod
    def of(
        cls,
        pane: int,
        names: Column,
        draw: Floats,
        columns: Mapping[str, Column],
        value: str | None = None,
    ) -> "Chunk":
        groups, group = np.unique(names, return_inverse=True)
        key = group + draw
        order = np.argsort(key)
        sizes = np.bincount(group, minlength=groups.size).astype(np.float64)
        ordered = {name: column[order] for name, column in columns.items()}
        moments = None if value is None else _moments_of(columns[value], group, groups.size)
        return cls(pane, groups, sizes, key[order], ordered, moments)

    def below(self, limits: Floats) -> tuple[Ints, Ints]:
        """Answers the places and groups of tuples whose draw is below their group's limit."""
        groups = np.arange(self.names.size)
        starts = np.searchsorted(self.key, groups)
        counts = np.searchsorted(self.key, groups + limits) - starts
        skipped = starts - (np.cumsum(counts) - counts)
        return np.arange(counts.sum()) + np.repeat(skipped, counts), np.repeat(groups, counts)

    def only(self, some: Bools) -> "Chunk":
        """Answers the chunk with these tuples; the sizes of its groups stay what they were."""
        columns = {name: column[some] for name, column in self.columns.items()}
        return replace(self, key=self.key[some], columns=columns)


@dataclass(frozen=True)
class Staged:
    """A window that is ready to be processed."""

    end: float
    """Seconds since the epoch."""
    names: Column
    """Its groups."""
    group: Ints
    """Of each tuple, an index into ``names``."""
    weight: Floats
    """Of each tuple, how many of its group it stands for."""
    columns: Mapping[str, Column]
    arrived: int
    """Tuples that came, also those that were shed."""
    sizes: Floats
    """Of each group, how many of them came."""


@dataclass(frozen=True)
class Buffer:
    """The tuples of all windows that are open. Frozen: each batch makes a new one."""

    length: float
    """Seconds that a window spans."""
    slide: float
    """Seconds from one window's end to the next one's: a pane."""
    most: int | None = None
    """The most tuples of a pane that are stored, or None for all."""
    chunks: tuple[Chunk, ...] = ()
    done: float = field(default=-np.inf)
    """The end of the last window that was processed."""
    value: str | None = None
    """The column whose mean and spread are to be known of each group, if any."""

    def add(
        self, time: Floats, key: Column, columns: Mapping[str, Column], seed: tuple[int, ...]
    ) -> "Buffer":
        """Answers the buffer with these tuples; those of windows that are over are too late."""
        draw = np.random.default_rng(seed).random(time.size)
        # as Spark does, in whole microseconds: a tenth of a second is no binary fraction
        pane = np.rint(time * 1e6).astype(np.int64) // round(self.slide * 1e6)
        chunks = list(self.chunks)
        for number in np.unique(pane).tolist():
            if number * self.slide + self.length > self.done:
                mine = np.flatnonzero(pane == number)
                part = {name: column[mine] for name, column in columns.items()}
                chunks.append(Chunk.of(number, key[mine], draw[mine], part, self.value))
        return replace(self, chunks=tuple(chunks)).bounded()

    def take(self, end: float, shedder: Shedder) -> Staged:
        """Answers the tuples of a window that are to be processed."""
        panes = window_panes(end, self.length, self.slide)
        chunks = [chunk for chunk in self.chunks if chunk.pane in panes]
        names, sizes, groups = _concept(chunks)
        number, mean, squares = _moments(chunks, groups, sizes.size)
        concept = WindowConcept(sizes, number, mean, squares, names)
        limits = shedder.limits(concept)
        some = [c.below(limits[own]) for c, own in zip(chunks, groups, strict=True)]
        draw = [c.key[at] - local for c, (at, local) in zip(chunks, some, strict=True)]
        group = np.concatenate([own[at[1]] for own, at in zip(groups, some, strict=True)])
        chosen = shedder.choose(concept, group, np.concatenate(draw))
        places = np.split(chosen, np.cumsum([at.size for at, _ in some])[:-1])
        taken = [at[mine] for (at, _), mine in zip(some, places, strict=True)]
        group = group[chosen]
        weight = (sizes / np.maximum(np.bincount(group, minlength=sizes.size), 1))[group]
        columns = {
            name: np.concatenate([c.columns[name][at] for c, at in zip(chunks, taken, strict=True)])
            for name in chunks[0].columns
        }
        return Staged(end, names, group, weight, columns, int(sizes.sum()), sizes)

    def __len__(self) -> int:
        return sum(chunk.key.size for chunk in self.chunks)

    def bounded(self) -> "Buffer":
        """Answers the buffer with at most as many tuples a pane as are to be stored."""
        if self.most is None:
            return self
        chunks: list[Chunk] = []
        for pane in sorted({chunk.pane for chunk in self.chunks}):
            mine = [chunk for chunk in self.chunks if chunk.pane == pane]
            if sum(chunk.key.size for chunk in mine) > self.most:
                mine = _thinned(mine, self.most * 3 // 4)
            chunks += mine
        return replace(self, chunks=tuple(chunks))


def window_ends(panes: Iterable[int], length: float, slide: float, done: float) -> list[float]:
    """Answers the ends after ``done`` of the windows that these panes are part of, in order."""
    overlap = round(length / slide)
    ends = {(pane + 1 + later) * slide for pane in panes for later in range(overlap)}
    return sorted(end for end in ends if end > done)


def window_panes(end: float, length: float, slide: float) -> range:
    """Answers the panes of the window that ends there."""
    after = round(end / slide)
    return range(after - round(length / slide), after)


def _concept(chunks: list[Chunk]) -> tuple[Column, Floats, list[Ints]]:
    """Answers a window's groups, their sizes, and where among them each chunk's groups are."""
    names, place = np.unique(np.concatenate([c.names for c in chunks]), return_inverse=True)
    sizes = np.bincount(place, np.concatenate([c.sizes for c in chunks]), names.size)
    ends = np.cumsum([chunk.names.size for chunk in chunks])
    return names, sizes.astype(np.float64), np.split(place, ends[:-1])


def _moments_of(values: Column, group: Ints, groups: int) -> Floats:
    """Answers number, mean and squared distances of each group's values; those that are none do
    not count."""
    value = np.asarray(values, dtype=np.float64)
    there = np.isfinite(value)
    value, group = value[there], group[there]
    number = np.bincount(group, minlength=groups).astype(np.float64)
    mean = np.bincount(group, value, groups) / np.maximum(number, 1.0)
    squares = np.bincount(group, (value - mean[group]) ** 2, groups)
    return np.stack((number, mean, squares))


def _moments(chunks: list[Chunk], groups: list[Ints], size: int) -> Floats:
    """Answers the moments of a window's groups from those of its chunks (see ``moments``)."""
    parts = [
        (own, chunk.moments)
        for chunk, own in zip(chunks, groups, strict=True)
        if chunk.moments is not None
    ]
    if not parts:
        return np.zeros((3, size))
    place = np.concatenate([own for own, _ in parts])
    number, mean, squares = np.concatenate([moments for _, moments in parts], axis=1)
    total = np.bincount(place, number, size)
    middle = np.bincount(place, number * mean, size) / np.maximum(total, 1.0)
    apart = squares + number * (mean - middle[place]) ** 2
    return np.stack((total, middle, np.bincount(place, apart, size)))


def _thinned(chunks: list[Chunk], most: int) -> list[Chunk]:
    """Answers the chunks with so many tuples, or a few more where there are more groups."""
    names, _, groups = _concept(chunks)
    local = [np.floor(chunk.key).astype(np.int64) for chunk in chunks]
    group = np.concatenate([own[at] for own, at in zip(groups, local, strict=True)])
    draw = np.concatenate([c.key - at for c, at in zip(chunks, local, strict=True)])
    here = np.bincount(group, minlength=names.size).astype(np.float64)
    stay = shed(group, np.minimum(here, quota.level(here, float(most))), draw)
    parts = np.split(stay, np.cumsum([chunk.key.size for chunk in chunks])[:-1])
    return [chunk.only(part) for chunk, part in zip(chunks, parts, strict=True)]

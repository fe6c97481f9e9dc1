"""Has the streams that CoD is tried on: recorded ones where they are at hand, else made-up ones."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from penstock.core.types import Floats, Ints
from penstock.lab.cod.drifting import DriftingStream
from penstock.lab.cod.recorded import WindowedStream
from penstock.lab.data_files import data_file

DAY_SECONDS, FIVE_MINUTES_SECONDS = 86_400.0, 300.0
HALF_AN_HOUR_SECONDS, TEN_MINUTES = 1800.0, 600.0
CELLS_PER_ZONE = 10
DELAY_SHIFT_MINUTES = 60.0
"""Is added to delays, so that relative errors mean something; at least 1 remains."""


@dataclass(frozen=True)
class Case:
    """Describes a recorded stream, and a made-up one that stands in where its file is missing."""

    name: str
    file: str
    load: Callable[[pd.DataFrame, int], WindowedStream]
    stand_in: DriftingStream
    windows: int
    """How many windows the recorded stream has."""

    def stream(self, windows: int) -> tuple[WindowedStream, bool]:
        """Returns about so many windows, and whether they are recorded."""
        path = data_file(self.file)
        if path is not None:
            table = pd.read_csv(path) if ".csv" in path.suffixes else pd.read_parquet(path)
            return self.load(table, min(windows, self.windows)), True
        return self.stand_in.stream(windows), False


def _flights(*keys: str) -> Callable[[pd.DataFrame, int], WindowedStream]:
    def load(table: pd.DataFrame, windows: int) -> WindowedStream:
        time = _seconds_of_flights(table)
        part = table.iloc[: int(np.searchsorted(time, windows * DAY_SECONDS))]
        delay = np.maximum(part["delay"].to_numpy(dtype=np.float64) + DELAY_SHIFT_MINUTES, 1.0)
        return WindowedStream(time[: len(part)], _codes(part, *keys), delay, DAY_SECONDS)

    return load


def _seconds_of_flights(table: pd.DataFrame) -> Floats:
    """Returns the seconds of flights since the beginning of the first day."""
    begin = table["date"].iloc[0].floor("D")
    return np.asarray((table["date"] - begin).dt.total_seconds().to_numpy(), dtype=np.float64)


def _google(key: str) -> Callable[[pd.DataFrame, int], WindowedStream]:
    def load(table: pd.DataFrame, windows: int) -> WindowedStream:
        """Returns the live part; a request that is not known has no mean."""
        live = table[(table["time_us"] > 0) & table["cpu_request"].notna()]
        time = live["time_us"].to_numpy(dtype=np.float64) / 1e6
        time -= np.floor(time[0] / FIVE_MINUTES_SECONDS) * FIVE_MINUTES_SECONDS
        part = live.iloc[: int(np.searchsorted(time, windows * FIVE_MINUTES_SECONDS))]
        request = part["cpu_request"].to_numpy(dtype=np.float64)
        return WindowedStream(time[: len(part)], _codes(part, key), request, FIVE_MINUTES_SECONDS)

    return load


def _packets(table: pd.DataFrame, windows: int) -> WindowedStream:
    """Lays all captures over each other in one group, since the query is a scalar mean."""
    ordered = table.sort_values("rel", kind="stable")
    time = ordered["rel"].to_numpy(dtype=np.float64)
    size = int(np.searchsorted(time, 45.0 + 15.0 * (windows - 1)))
    length = ordered["length"].to_numpy(dtype=np.float64)[:size]
    return WindowedStream(time[:size], np.zeros(size, dtype=np.int64), length, 45.0, 15.0)


def _codes(table: pd.DataFrame, *keys: str) -> Ints:
    numbers = table.groupby(list(keys), observed=True, sort=True).ngroup()
    return np.asarray(numbers.to_numpy(), dtype=np.int64)


def _taxis(table: pd.DataFrame, windows: int) -> WindowedStream:
    """Returns rides in the order of their ends, whose route is from one zone to another.

    A zone is ten cells of the challenge wide: of single cells, the opening of the file that is at
    hand has a route for every ride and a half.
    """
    ended = pd.to_datetime(table["dropoff_datetime"])
    time = (ended - ended.iloc[0].floor("h")).dt.total_seconds().to_numpy(dtype=np.float64)
    order = np.argsort(time, kind="stable")
    ordered: Floats = np.asarray(time[order], dtype=np.float64)
    cells = ["pickup_cell_x", "pickup_cell_y", "dropoff_cell_x", "dropoff_cell_y"]
    zones = (table[cells] // CELLS_PER_ZONE).iloc[order]
    size = int(np.searchsorted(ordered, HALF_AN_HOUR_SECONDS + (windows - 1) * TEN_MINUTES))
    fare: Floats = np.asarray(table["fare_amount"].to_numpy(dtype=np.float64)[order])
    return WindowedStream(
        ordered[:size],
        _codes(zones, *cells)[:size],
        fare[:size],
        HALF_AN_HOUR_SECONDS,
        TEN_MINUTES,
    )


FLIGHTS, GOOGLE = "us_flights_2001h1_3m.parquet", "google2011_task_events_part0.parquet"
# mean delay an origin, a day
ORIGIN = Case(
    "flights-origin",
    FLIGHTS,
    _flights("origin"),
    DriftingStream(groups=200, tuples=16_000, skew=1.1, overlap=0.98, distance=0.1),
    181,
)
# mean delay a route, a day
ROUTE = Case(
    "flights-route",
    FLIGHTS,
    _flights("origin", "destination"),
    DriftingStream(groups=3000, tuples=16_000, skew=0.6, overlap=0.9, distance=0.3),
    181,
)
# mean CPU request a class, 5 min
CLASS = Case(
    "google-class",
    GOOGLE,
    _google("sched_class"),
    DriftingStream(groups=4, tuples=10_000, skew=2.0, distance=0.5),
    17,
)
# mean CPU request a user, 5 min
USER = Case(
    "google-user",
    GOOGLE,
    _google("user"),
    DriftingStream(groups=60, tuples=10_000, skew=2.0, overlap=0.8, distance=0.5),
    17,
)
# mean packet size, 45 s sliding 15 s
PACKETS = Case(
    "iot-packets",
    "iot_sentinel_packets.parquet",
    _packets,
    DriftingStream(groups=1, tuples=12_000, length=45.0),
    20,
)


# mean fare a route, 30 min sliding 10 min
TAXIS = Case(
    "debs-taxis",
    "debs2015_first10k.csv.gz",
    _taxis,
    DriftingStream(groups=150, tuples=1800, skew=1.5, overlap=0.8, length=600.0),
    6,
)


def concept_of(stream: WindowedStream, window: slice) -> Floats:
    """Returns the tuples of each group in a window: what CoD calls its concept."""
    return np.bincount(stream.group[window], minlength=stream.groups).astype(np.float64)


def departures_and_arrivals(windows: int) -> WindowedStream:
    """Returns two streams that share keys: flights by origin and by destination."""
    path = data_file(FLIGHTS)
    if path is not None:
        table = pd.read_parquet(path)
        time = _seconds_of_flights(table)
        size = int(np.searchsorted(time, windows * DAY_SECONDS))
        names = [table[side].iloc[:size].astype(str) for side in ("origin", "destination")]
        group = np.unique(np.concatenate(names), return_inverse=True)[1]
        return _interleaved(np.tile(time[:size], 2), group, DAY_SECONDS)
    sides = [DriftingStream(groups=100, skew=1.2).stream(windows, seed) for seed in (0, 1)]
    group = np.concatenate((sides[0].group, sides[1].group + 50))  # half of the keys on both
    return _interleaved(np.concatenate([side.time for side in sides]), group, 60.0)


def _interleaved(time: Floats, group: Ints, length: float) -> WindowedStream:
    order = np.argsort(time, kind="stable")
    source = np.repeat([0, 1], time.size // 2)
    return WindowedStream(
        time[order], group[order], np.ones(time.size), length, source=source[order]
    )

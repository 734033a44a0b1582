"""Clients as fast as real phones and tablets: frame rates that were measured, one device drawn for each client.

The table ``device_speeds.csv`` was made by ``tools/device_speeds.py`` from the npm package detect-gpu 5.0.70, which is
under the MIT licence.  The licence is in the head of the table.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.sim.latency import FlooredLognormal
from pausefl.types import FloatArray, Seconds


@cache
def device_speeds() -> FloatArray:
    """Return the frames per second of every device in the table, from the slowest to the fastest.

    >>> len(device_speeds()), float(np.median(device_speeds()))
    (822, 12.0)
    """
    text = files("pausefl.sim").joinpath("device_speeds.csv").read_text(encoding="utf-8")
    rates, devices = np.loadtxt(text.splitlines(), delimiter=",", unpack=True)
    speeds: FloatArray = np.repeat(rates, devices.astype(np.int64))
    speeds.setflags(write=False)
    return speeds


def device_latency(
    clients: int, median: Seconds, spread: float, floor: Seconds, rng: np.random.Generator
) -> FlooredLognormal:
    """Return latencies of clients whose devices are drawn from the table, each device as likely as any other.

    All clients have the same work, and a client's mean latency is that work divided by the speed of its device.  The
    work is such that the median client has a mean of ``median`` seconds.  In each round a latency is log-normal with
    that mean, and never below ``floor``.
    """
    require(clients >= 1, "clients", clients, "1 or more", "draw at least one device")
    require(
        is_finite(median) and median > 0.0, "median", median, "a finite number of seconds above 0", "for example 0.5"
    )
    seconds_per_work = 1.0 / rng.choice(device_speeds(), clients)
    return FlooredLognormal(median / np.median(seconds_per_work) * seconds_per_work, spread, floor)

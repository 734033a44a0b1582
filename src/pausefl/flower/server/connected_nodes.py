"""The nodes that are connected, for a selector that chooses among them by their ids."""

from __future__ import annotations

import time
from collections.abc import Callable

from flwr.serverapp import Grid

from pausefl.errors import NotEnoughClientsError, is_finite, require
from pausefl.types import ClientId, Seconds

_PAUSE: Seconds = 0.1


def connected(
    grid: Grid, least: int = 1, *, wait: Seconds = 60.0,
    clock: Callable[[], Seconds] = time.monotonic, sleep: Callable[[Seconds], None] = time.sleep,
) -> dict[ClientId, float]:  # fmt: skip
    """Return the ids of the connected nodes, each with one example, as soon as there are ``least`` or more.

    Args:
        grid: The grid of the server app.
        least: How many nodes must be connected.
        wait: For how many seconds to wait for them.  A server app may start before its nodes are there, in a simulation
            too.
        clock: The clock, for tests.
        sleep: How to wait, for tests.

    Use it for selection without privacy, with ``PauseStrategy(…, names="node")``:

    >>> from pausefl.flower.testing import MemoryGrid
    >>> connected(MemoryGrid({7: lambda message: None, 2**63: lambda message: None}), 2)
    {7: 1.0, 9223372036854775808: 1.0}
    """
    whole = isinstance(least, int) and not isinstance(least, bool) and least >= 1
    require(whole, "least", least, "a whole number from 1", "pass as many as a round needs")
    require(is_finite(wait) and wait >= 0.0, "wait", wait, "a number of seconds from 0", "60 is the default")
    start = clock()
    while len(nodes := list(grid.get_node_ids())) < least:
        if clock() - start >= wait:
            raise NotEnoughClientsError(
                f"connected nodes are {len(nodes)} after {wait:g} seconds, but must be at least {least}; start more "
                f"SuperNodes, or in a simulation add --federation-config 'num-supernodes={least}' to flwr run"
            )
        sleep(_PAUSE)
    return dict.fromkeys(nodes, 1.0)

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from pausefl.runs.config import make_config
from pausefl.runs.run_data import RunData


def _made(
    rounds: Sequence[Mapping[str, Any]], overrides: Sequence[str] = (), name: str = "pause", **clients: Any
) -> RunData:
    """A run as it would be read, with the given records."""
    base = {"latency": 0.5, "members": [0, 1], "max_leakage": 1.0, "seconds": 1.0}
    records = [base | {"round": i, "seconds": float(i)} | dict(record) for i, record in enumerate(rounds, 1)]
    config = make_config({"network": {"clients": 4}, "selection": {"per_round": 2}}, overrides)
    return RunData("pause", config, records, {"clients": clients} if clients else None)


@pytest.fixture
def made() -> Callable[..., RunData]:
    """Make a run with the given records."""
    return _made

"""TensorBoard events of a run."""

from __future__ import annotations

from pathlib import Path

from pausefl.errors import MissingExtraError
from pausefl.runs.data import RunData


def write_events(run: RunData, folder: Path) -> None:
    """Write accuracy, loss, leakage and clock per round as events into a folder."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise MissingExtraError("events need the 'report' extra; run: pip install 'pausefl[report]'") from None
    with SummaryWriter(str(folder)) as writer:
        for record in run.records:
            for name in ("accuracy", "loss", "max_leakage", "seconds", "latency"):
                if record.get(name) is not None:
                    writer.add_scalar(name, record[name], record["round"])

"""TensorBoard events of a run, written from its metrics."""

from __future__ import annotations

import json
from pathlib import Path

from pausefl.errors import MissingExtraError


def write_events(folder: Path) -> None:
    """Write accuracy, loss, leakage and clock per round into ``folder/tensorboard``."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise MissingExtraError("events need the 'report' extra; run: pip install 'pausefl[report]'") from None
    with SummaryWriter(str(folder / "tensorboard")) as writer:
        for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            for name in ("accuracy", "loss", "max_leakage", "seconds", "latency"):
                if record.get(name) is not None:
                    writer.add_scalar(name, record[name], record["round"])

"""Waits of Flower's loops that end at times which do not depend on what the machine did before.

Flower asks, waits a second, asks again, and so on, while an app runs.  Each question takes a little longer if the app
keeps the machine busy, and the next ones then come so much later.  After many of them a server could see it.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any


def wait_evenly(module: Any) -> None:
    """Let each wait of a module end at a whole multiple of its length on the machine's clock."""
    module.time = SimpleNamespace(sleep=_sleep_evenly)


def _sleep_evenly(seconds: float) -> None:
    time.sleep(seconds - time.monotonic() % seconds if seconds > 0.0 else 0.0)

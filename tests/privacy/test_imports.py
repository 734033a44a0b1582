"""Heavy things load when first used; the doors are where others expect them."""

from __future__ import annotations

import subprocess
import sys

import pausefl.privacy
from pausefl.errors import AlreadyReservedError, BudgetExceededError


def test_the_privacy_layer_loads_nothing_heavy():
    code = "import sys, pausefl.privacy, pausefl.privacy.audit, pausefl.privacy.composition; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"sqlite3", "opendp", "dp_accounting", "torch", "flwr", "scipy.optimize", "scipy.stats"}


def test_the_doors():
    assert all(getattr(pausefl.privacy, name) for name in pausefl.privacy.__all__)
    assert pausefl.privacy.AlreadyReserved is AlreadyReservedError
    assert pausefl.privacy.BudgetExceeded is BudgetExceededError
    assert not hasattr(pausefl.privacy, "Refund")

"""The benchmark says so, in its exit code too, when a bound is missed."""

from __future__ import annotations

import importlib.util
import runpy
import sys
import time
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "privacy.py"
NAMES = ("laplace_ratio", "reservations_per_second", "pld_seconds", "secure_microseconds", "privunit_seconds")


@pytest.mark.parametrize(("rate", "met"), [(300.0, True), (100.0, False)])
def test_a_missed_bound_is_said(monkeypatch, capsys, rate, met):
    spec = importlib.util.spec_from_file_location("privacy_benchmark", PATH)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "privacy_benchmark", module)
    spec.loader.exec_module(module)
    for name, value in zip(NAMES, (1.0, rate, 1.0, 1.0, 1.0), strict=True):
        monkeypatch.setattr(module, name, lambda value=value: value)
    assert module.main() is met
    assert ("MISSED" in capsys.readouterr().out) is not met


def test_the_exit_code(monkeypatch):
    """With a clock that runs a million times too fast every bound is missed."""
    true = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: 1e6 * true())
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(PATH), run_name="__main__")
    assert caught.value.code == 1

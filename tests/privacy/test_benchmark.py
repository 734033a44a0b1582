"""The benchmark says so, in its exit code too, when a figure is missed; and its ledgers are sound."""

from __future__ import annotations

import sys

import benchmarks.__main__ as command
import pytest
from benchmarks import privacy
from benchmarks.measure import Figure

from pausefl.privacy import SqliteLedger

PARTS = [name for name in vars(privacy) if name.endswith("_figures")]


@pytest.mark.parametrize(("part", "met"), [(None, True), *((part, False) for part in PARTS)])
def test_a_missed_figure_is_said(monkeypatch, capsys, part, met):
    for name in PARTS:
        monkeypatch.setattr(privacy, name, lambda *_, name=name: [Figure(name, "1 x", "<= 2 x", name != part)])
    monkeypatch.setattr(sys, "argv", ["benchmarks", "privacy"])
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert caught.value.code == (0 if met else 1)
    out = capsys.readouterr().out
    assert ("MISSED" in out) is not met and all(name in out for name in PARTS)


def test_the_ledgers_that_are_measured_are_sound_and_charged(tmp_path):
    ledger = privacy.SealedLedger(tmp_path, 30)
    assert ledger.open_and_reserve().min() > 0.0
    assert SqliteLedger(ledger.path).checked_releases() == {"data": 31}
    assert privacy.open_and_reserve_seconds(3, repeats=1) > 0.0


def test_a_message_goes_through_the_gate_that_is_measured():
    with privacy.client() as send:
        send()
        send()


def test_each_figure_has_a_name_a_value_and_a_verdict():
    figures = [*privacy.secure_figures("laplace", 100), *privacy.ledger_figures(rows=20, repeats=1)]
    assert all(figure.name and figure.value and bool(figure.wanted) == (figure.met is not None) for figure in figures)

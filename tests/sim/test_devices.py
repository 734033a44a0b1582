"""Clients with the speeds of measured devices: the table, the draw, and the latencies."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.rng import stream
from pausefl.sim.devices import device_latency, device_speeds
from pausefl.sim.latency import FlooredLognormal

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from device_speeds import table  # noqa: E402


def test_the_table() -> None:
    speeds = device_speeds()
    assert (len(speeds), speeds.min(), np.median(speeds), speeds.max()) == (822, 2.0, 12.0, 144.0)
    text = (ROOT / "src/pausefl/sim/device_speeds.csv").read_text()
    assert "detect-gpu 5.0.70" in text
    assert "MIT License" in text
    assert "Copyright (c) 2020 Tim van Scherpenzeel" in text
    assert not speeds.flags.writeable


def test_the_table_is_made_from_the_package(tmp_path: Path) -> None:
    """Each device once, with its highest rate; desktops and rates of zero are left out."""
    folder = tmp_path / "dist" / "benchmarks"
    folder.mkdir(parents=True)
    (tmp_path / "LICENSE").write_text("MIT License\n")
    (tmp_path / "package.json").write_text('{"name": "detect-gpu", "version": "5.0.70"}')
    chips = {
        "m-a.json": [["a 1", "1", "1 a", 0, [[720, 480, 30, "one"], [720, 480, 0, "watch"]]]],
        "m-b.json": [["b 2", "2", "2 b", 0, [[720, 480, 7, "two"]]], ["b 3", "3", "3 b", 0, [[9, 9, 60, "one"]]]],
        "d-c.json": [["c 4", "4", "4 c", 0, [[720, 480, 500, "desk"]]]],
    }
    for name, entries in chips.items():
        (folder / name).write_text(json.dumps(["5", *entries]))
    lines = table(tmp_path).splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["7,1", "60,1"]
    assert "# MIT License" in lines


def test_the_median_client_has_the_mean_and_the_others_their_ratio_to_it() -> None:
    for clients in (1, 2, 7, 500):
        model = device_latency(clients, 0.7, 0.5, 0.05, stream(3, "devices"))
        drawn = stream(3, "devices").choice(device_speeds(), clients)
        assert np.median(model.means) == pytest.approx(0.7)
        assert np.allclose(model.means * drawn, model.means[0] * drawn[0])  # the same work for all


def test_clients_are_distributed_as_the_devices() -> None:
    clients = 20_000
    model = device_latency(clients, 1.0, 0.5, 1e-6, stream(0, "devices"))
    speeds = 144.0 * model.means.min() / model.means  # the fastest device is among so many clients
    # Dvoretzky–Kiefer–Wolfowitz: the shares differ by more than 0.02 in fewer than 1 of 4 million runs.
    for speed in np.unique(device_speeds()):
        assert abs((speeds <= speed + 1e-6).mean() - (device_speeds() <= speed).mean()) < 0.02


def test_the_devices_are_those_of_the_seed() -> None:
    one, same, other = (device_latency(50, 0.5, 0.5, 0.05, stream(seed, "devices")).means for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.5])
def test_expectations_match_sampling(spread: float) -> None:
    model = FlooredLognormal(np.array([0.01, 0.04, 0.05, 0.07, 0.5, 900.0]), spread, floor=0.05)
    rng, rounds = np.random.default_rng(0), 60_000
    drawn = np.stack([model.sample(rng) for _ in range(rounds)])
    assert drawn.min() == 0.05
    # Five standard errors per number (and rounding where all lie at the floor): a false alarm in 1 of 50,000 runs.
    for values, said in ((drawn, model.expected()), (0.05 / drawn, model.mean_speed(0.05))):
        slack = 5 * values.std(axis=0) / np.sqrt(rounds) + 1e-6
        assert (np.abs(values.mean(axis=0) - said) < slack).all()
    assert np.log(drawn[:, -1]).std() == pytest.approx(spread, rel=0.02)  # seven standard errors


def test_bad_latencies_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="spread is 0"):
        FlooredLognormal(np.ones(2), spread=0.0, floor=0.1)
    with pytest.raises(InvalidValueError, match="means is"):
        FlooredLognormal(np.zeros(2), spread=0.5, floor=0.1)
    with pytest.raises(InvalidValueError, match="median is -1"):
        device_latency(3, -1.0, 0.5, 0.05, stream(0, "devices"))
    with pytest.raises(InvalidValueError, match="clients is 0"):
        device_latency(0, 1.0, 0.5, 0.05, stream(0, "devices"))

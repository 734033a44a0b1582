"""Whole runs: configuration, folders, resuming after a kill, the same result in another process."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pausefl.errors import ConfigError, PauseError
from pausefl.rng import stream
from pausefl.runs.build import build
from pausefl.runs.config import load_config, make_config
from pausefl.runs.parallel import Task, run_many
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_run
from pausefl.runs.small_copies import keep
from pausefl.system.state_file import read_state, write_state

SMALL = {
    "network": {"clients": 10, "availability": "on-off", "dropout": 0.1, "deadline": 0.85},
    "selection": {"per_round": 3},
    "run": {"rounds": 12, "checkpoint_every": 4},
}


def contents(folder: Path) -> tuple[str, str]:
    return (folder / "metrics.jsonl").read_text(), (folder / "summary.json").read_text()


@pytest.mark.parametrize(
    "overrides",
    [
        ["selection.policy=pause"], ["selection.policy=sa-pause"], ["selection.policy=clustered-similarity"],
        ["selection.policy=all"], ["server.aggregation=matched", "server.step=0.7", "server.average=0.8"],
        ["server.average=0.8", "run.evaluate_every=2"],
        [
            "network.latency=devices", "network.availability=diurnal", "network.late=0.3", "network.late_by=8",
            "network.straggle=0.1", "network.clusters=3", "network.jams=0.2", "network.drift_at=5",
        ],
    ],
)  # fmt: skip
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, overrides: list[str]) -> None:
    config = make_config(SMALL, overrides)
    run(config, tmp_path / "straight")

    class Stop(Exception):  # noqa: N818
        pass

    def stop_at(number: int) -> object:
        def watch(record: dict) -> None:
            if record["round"] == number:
                raise Stop

        return watch

    for number in (3, 6, 11):  # before the first checkpoint, between two, just before the end
        with pytest.raises(Stop):
            run(config, tmp_path / "stopped", watch=stop_at(number))
    run(config, tmp_path / "stopped")
    assert contents(tmp_path / "stopped") == contents(tmp_path / "straight")
    ends = [read_state(tmp_path / name / "checkpoint.state", "run")[1] for name in ("stopped", "straight")]
    assert {name: array.tobytes() for name, array in ends[0].items()} == {n: a.tobytes() for n, a in ends[1].items()}


def test_a_run_may_stop_on_its_way_and_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    config = make_config(SMALL, ["run.evaluate_every=3"])
    run(config, tmp_path / "straight")
    for until, rounds in ((3, 4), (4, 4), (5, 8), (2, 8)):  # at a checkpoint, which the last call has passed already
        stopped = run(config, tmp_path / "stopped", until=until)
        assert (len(stopped.records), stopped.summary) == (rounds, None)
        assert stopped == read_run(tmp_path / "stopped")
    whole = run(config, tmp_path / "stopped", until=12)  # the end
    assert whole.summary is not None
    assert contents(tmp_path / "stopped") == contents(tmp_path / "straight")


def test_a_killed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(make_config(SMALL, ["run.rounds=40", "run.checkpoint_every=3"]).toml())
    # A run kills itself soon after a round has been written: in the midst of training, of a line or of a checkpoint.
    # Each is a fork of a process that has imported everything and run nothing.
    code = (
        "import os, signal, sys, threading\n"
        "from pathlib import Path\n"
        "import torch\n"
        "from pausefl.runs.config import load_config\n"
        "from pausefl.runs.play import run\n"
        "def watch(record):\n"
        "    if record['round'] == number:\n"
        "        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"
        "for number, delay in ((4, 0.0), (11, 0.001), (18, 0.002), (25, 0.005)):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        run(load_config(Path(sys.argv[1])), Path(sys.argv[2]), watch=watch)\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == signal.SIGKILL\n"
    )
    child = [sys.executable, "-c", code, str(file), str(tmp_path / "killed")]
    done = subprocess.run(child, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "killed" / "summary.json").exists()
    for name in ("killed", "straight"):
        run(load_config(file), tmp_path / name)
    assert contents(tmp_path / "killed") == contents(tmp_path / "straight")


def test_one_job_and_two_give_the_same_results(tmp_path: Path) -> None:
    configs = [make_config(SMALL, [f"run.seed={seed}"]) for seed in (0, 1)]
    for jobs in (1, 2):
        run_many([Task(c, tmp_path / str(jobs) / str(c.run.seed)) for c in configs], jobs=jobs)
    for seed in ("0", "1"):
        assert contents(tmp_path / "1" / seed) == contents(tmp_path / "2" / seed)
    assert contents(tmp_path / "1" / "0") != contents(tmp_path / "1" / "1")


def test_when_one_of_several_runs_is_refused_nothing_else_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Nothing is learned, so that the processes need not import torch.
    configs = [make_config(SMALL, ["learning.enabled=false", f"run.seed={seed}"]) for seed in range(12)]
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "checkpoint.state").write_text("no state")
    with pytest.raises(PauseError, match="checkpoint"):
        run_many([Task(c, tmp_path / str(c.run.seed)) for c in configs], jobs=2)
    assert "Traceback" not in capfd.readouterr().err


def test_records_and_summary_hold_what_they_should(tmp_path: Path) -> None:
    config = make_config({"run": {"rounds": 5, "evaluate_every": 2}, "selection": {"policy": "random"}})
    summary = run(config, tmp_path).summary
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [r["round"] for r in records] == [1, 2, 3, 4, 5]
    assert ["accuracy" in r for r in records] == [False, True, False, True, True]
    for record in records:
        assert {"seconds", "max_leakage", "members", "latency"} <= set(record)
        assert len(record["members"]) == 5
    assert np.diff([r["seconds"] for r in records]).min() > 0
    assert "per coordinate" in summary["guarantee"]
    assert "whole update" in summary["guarantee"]
    assert load_config(tmp_path / "config.toml") == config
    assert run(config, tmp_path).summary == summary  # a finished run is not run again


def test_a_run_that_ended_goes_on_when_more_rounds_are_asked_for(tmp_path: Path) -> None:
    few, more = (make_config(SMALL, [f"run.rounds={rounds}"]) for rounds in (6, 12))
    run(few, tmp_path / "grown")
    assert run(more, tmp_path / "grown").summary["rounds"] == 12
    run(more, tmp_path / "straight")
    assert contents(tmp_path / "grown") == contents(tmp_path / "straight")
    assert run(few, tmp_path / "grown").summary["rounds"] == 12  # there is more than was asked for


def test_a_run_that_goes_on_forgets_the_score_of_its_former_end(tmp_path: Path) -> None:
    few, more = (make_config(SMALL, ["run.evaluate_every=5", f"run.rounds={rounds}"]) for rounds in (6, 12))
    run(few, tmp_path / "grown")
    assert "accuracy" in read_run(tmp_path / "grown").records[5]
    run(more, tmp_path / "grown")
    run(more, tmp_path / "straight")
    assert contents(tmp_path / "grown") == contents(tmp_path / "straight")


def test_a_run_that_was_killed_before_its_summary_keeps_its_last_score(tmp_path: Path) -> None:
    config = make_config(SMALL, ["run.evaluate_every=4", "run.rounds=6", "run.checkpoint_every=3"])
    run(config, tmp_path)
    before = contents(tmp_path)
    (tmp_path / "summary.json").unlink()
    run(config, tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("spoil", ["checkpoint", "settings", "metrics"])
def test_a_run_that_cannot_go_on_is_left_as_it_is(tmp_path: Path, spoil: str) -> None:
    run(make_config(SMALL), tmp_path)
    path = tmp_path / "checkpoint.state"
    header, arrays = read_state(path, "run")
    header["selector"]["settings"] = "others"
    if spoil == "checkpoint":
        path.write_bytes(path.read_bytes()[:-1])
    elif spoil == "settings":
        write_state(path, "run", header, arrays)
    else:
        (tmp_path / "metrics.jsonl").write_text("")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(PauseError):
        run(make_config(SMALL, ["run.rounds=20"]), tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_half_run_that_was_written_with_the_key_paper_scale_goes_on(tmp_path: Path) -> None:
    config = make_config(SMALL, ["selection.policy=sa-pause-as-published"])
    run(config, tmp_path / "straight")
    half = make_config(SMALL, ["selection.policy=sa-pause-as-published", "run.rounds=8"])
    run(half, tmp_path / "older")
    text = config.toml().replace('"sa-pause-as-published"', '"sa-pause"\npaper_scale = true')
    (tmp_path / "older" / "config.toml").write_text(text)
    (tmp_path / "older" / "summary.json").unlink()
    header, arrays = read_state(tmp_path / "older" / "checkpoint.state", "run")
    header["selector"] |= {"policy": "sa-pause", "class": "SaPause", "settings": "SaPause(how=Annealer(kappa=30.0))"}
    write_state(tmp_path / "older" / "checkpoint.state", "run", header, arrays)
    run(config, tmp_path / "older")
    assert contents(tmp_path / "older") == contents(tmp_path / "straight")


def test_a_run_without_its_model_cannot_go_on_and_is_left_alone(tmp_path: Path) -> None:
    few, more = (make_config(SMALL, [f"run.rounds={rounds}"]) for rounds in (4, 8))
    run(few, tmp_path / "run")
    (kept,) = keep([tmp_path / "run"], tmp_path / "small")
    (tmp_path / "run" / "checkpoint.state").unlink()
    for folder in (tmp_path / "run", kept):
        with pytest.raises(ConfigError, match="cannot continue"):
            run(more, folder)
        assert len(read_run(folder).records) == 4
        assert read_run(folder).summary is not None


def test_another_configuration_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    config = make_config({"run": {"rounds": 1}, "learning": {"enabled": False}})
    run(config, tmp_path)
    with pytest.raises(ConfigError, match="another configuration"):
        run(make_config({"run": {"rounds": 1, "seed": 1}, "learning": {"enabled": False}}), tmp_path)


def test_selection_only_at_scale(tmp_path: Path) -> None:
    config = make_config(
        {
            "network": {"clients": 50_000},
            "selection": {"per_round": 100},
            "learning": {"enabled": False},
            "run": {"rounds": 5, "checkpoint_every": 5},
        }
    )
    summary = run(config, tmp_path).summary
    assert summary["rounds"] == 5
    assert "nothing was released" in summary["guarantee"]


@pytest.mark.parametrize(
    "override",
    [
        "privacy.mechanism=gaussian", "privacy.mechanism=privunit", "privacy.unit=update", "privacy.enabled=false",
        "privacy.schedule=power-law", "privacy.schedule=fixed-horizon", "data.partition=sizes",
        "data.partition=labels", "selection.policy=clustered-similarity",
        "learning.model=linear", "learning.optimizer=sgd", "learning.optimizer_state=fresh",
        "network.latency=lognormal",
        "network.latency=pareto", "network.latency=exponential", "network.latency=normal", "network.clusters=3",
        "network.availability=bernoulli", "selection.policy=brute", "selection.policy=sa-pause-as-published",
        "selection.policy=pausefl.selection:Random",
    ],
)  # fmt: skip
def test_every_part_can_be_chosen(tmp_path: Path, override: str) -> None:
    more = ["selection.rho=0.01"] if "clusters" in override else []
    summary = run(make_config({"network": {"clients": 8}, "selection": {"per_round": 2}, "run": {"rounds": 2}},
                              [override, *more]), tmp_path).summary  # fmt: skip
    assert summary["rounds"] == 2


def test_traces_are_read(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "t.csv", np.full((3, 4), 0.25), delimiter=",")
    content = {
        "network": {"clients": 4, "latency": "trace", "trace": str(tmp_path / "t.csv")},
        "selection": {"per_round": 2},
        "learning": {"enabled": False},
        "run": {"rounds": 4},
    }
    assert run(make_config(content), tmp_path / "out").summary["seconds"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("learning.device=warp", "learning.device is 'warp'"),
        ("learning.model=mpl", "model is 'mpl'"),
        ("selection.policy=no.such:Thing", "selection.policy is 'no.such:Thing'"),
        ("selection.policy=json:JSONDecoder", "does not make a Policy"),
        ("network.latency=trace", "network.trace is missing"),
        ("data.train_size=99999", "train_size is 99999"),
        ("network.clients=99999", "clients is 99999"),
    ],
)
def test_bad_parts_are_named(tmp_path: Path, override: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run(make_config({}, [override]), tmp_path)


def test_a_spent_population_ends_quietly(tmp_path: Path) -> None:
    config = make_config(
        {"network": {"clients": 6}, "selection": {"per_round": 3}, "run": {"rounds": 12},
         "privacy": {"schedule": "fixed-horizon", "releases": 2}}
    )  # fmt: skip
    summary = run(config, tmp_path).summary
    records = read_run(tmp_path).records
    assert summary["rounds"] == 12
    assert summary["max_leakage"] == pytest.approx(40.0)
    assert [len(r["members"]) for r in records[4:]] == [0] * 8


@pytest.mark.parametrize(
    "overrides",
    [
        ["privacy.decay=20", "selection.policy=all", "run.rounds=45"],
        ["privacy.enabled=false", "learning.optimizer=sgd", "learning.lr=1e30"],
        ["learning.optimizer=sgd", "learning.lr=1e30"],
    ],
)
def test_faded_budgets_and_broken_training_do_not_end_a_run(tmp_path: Path, overrides: list[str]) -> None:
    small = {"network": {"clients": 6}, "selection": {"per_round": 3}, "run": {"rounds": 5}}
    assert run(make_config(small, overrides), tmp_path).summary["rounds"] in (5, 45)


def test_delta_adds_up(tmp_path: Path) -> None:
    summary = run(
        make_config({"run": {"rounds": 4}, "selection": {"policy": "all"}}, ["privacy.mechanism=gaussian"]), tmp_path
    ).summary
    assert read_run(tmp_path).records[-1]["max_delta"] == pytest.approx(4e-5)
    assert "delta = 4e-05 after 4 releases" in summary["guarantee"]


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    config = make_config({"run": {"rounds": 3}})

    def second(_: dict) -> None:
        with pytest.raises(ConfigError, match="another process"):
            run(config, tmp_path)

    run(config, tmp_path, watch=second)


def test_final_accuracy_does_not_depend_on_how_often_is_scored(tmp_path: Path) -> None:
    finals = []
    for every in (1, 5):
        config = make_config({"run": {"rounds": 40, "evaluate_every": every}})
        finals.append(run(config, tmp_path / str(every)).summary["accuracy"])
    assert abs(finals[0] - finals[1]) < 3.0


def test_a_cut_metrics_line_is_left_out(tmp_path: Path) -> None:
    run(make_config({"run": {"rounds": 3}}), tmp_path)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"round": 4, "memb')
    assert len(read_run(tmp_path).records) == 3


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_runs_end_with_their_parent(tmp_path: Path, how: signal.Signals) -> None:
    file = tmp_path / "run.toml"
    file.write_text("learning.enabled = false\nrun.rounds = 100000\n")  # so that the processes need not import torch
    command = [
        sys.executable,
        "-m",
        "pausefl",
        "run",
        str(file),
        "--out",
        str(tmp_path / "o"),
        "--seeds",
        "2",
        "--jobs",
        "2",
    ]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    metrics = tmp_path / "o" / "seed-1" / "metrics.jsonl"
    while parent.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.05)
    os.kill(parent.pid, how)
    parent.communicate()  # the runs have inherited the pipe: it ends with the last of them
    assert metrics.stat().st_size > 0
    assert not list(tmp_path.rglob("summary.json"))


def test_a_configuration_that_cannot_be_built_does_not_take_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="policy is 'randm'"):
        run(make_config({}, ["selection.policy=randm"]), tmp_path)
    assert run(make_config({}, ["selection.policy=random", "run.rounds=1"]), tmp_path).summary["policy"] == "random"


def test_what_differs_is_named(tmp_path: Path) -> None:
    run(make_config({"run": {"rounds": 1}, "learning": {"enabled": False}}), tmp_path)
    with pytest.raises(ConfigError, match=r"selection\.gamma = 5\.0 there, 1\.0 here"):
        run(make_config({"run": {"rounds": 2}, "learning": {"enabled": False}, "selection": {"gamma": 1}}), tmp_path)


def test_a_finished_run_lists_what_each_client_is_and_got(tmp_path: Path) -> None:
    content = {
        "network": {"clients": 6},
        "selection": {"per_round": 2},
        "data": {"partition": "sizes"},
        "run": {"rounds": 2},
    }
    run(make_config(content), tmp_path)
    clients = json.loads((tmp_path / "summary.json").read_text())["clients"]
    assert {name: len(values) for name, values in clients.items()} == {"latency": 6, "size": 6, "accuracy": 6}
    assert sum(clients["size"]) > 1000
    assert clients["latency"] == sorted(clients["latency"])


@pytest.mark.parametrize("seed", [0, 1])
def test_clusters_are_drawn_from_the_runs_own_seed(seed: int) -> None:
    config = make_config({"network": {"clusters": 4}, "learning": {"enabled": False}, "run": {"seed": seed}})
    wanted = stream(seed, "clusters").integers(0, 4, 30).tolist()
    built = build(config)
    assert built.network.clusters.tolist() == built.selector.problem().clusters.tolist() == wanted


def test_a_checkpoint_that_no_run_has_written_is_refused_in_one_line(tmp_path: Path) -> None:
    config = make_config(SMALL, ["run.rounds=4"])
    run(config, tmp_path / "whole")
    longer = make_config(SMALL, ["run.rounds=5"])
    header, arrays = read_state(tmp_path / "whole" / "checkpoint.state", "run")
    forged = [
        *(({k: v for k, v in header.items() if k != key}, arrays) for key in header),
        *((header | {key: "odd"}, arrays) for key in header),
        *((header, {k: v for k, v in arrays.items() if k != key}) for key in arrays),
        *((header, arrays | {key: np.zeros((2, 1))}) for key in arrays),
    ]
    refused = 0
    for number, (text, numbers) in enumerate(forged):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        write_state(folder / "checkpoint.state", "run", text, numbers)
        try:
            run(longer, folder)  # some of it is not needed to go on
        except PauseError:  # any other error would be a traceback for the user
            refused += 1
    assert refused > len(forged) / 2

"""Runs on a real Ray cluster of two nodes on this machine: the same folders as here, also when a node is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pausefl.errors import ConfigError, DataMissingError
from pausefl.runs.config import make_config
from pausefl.runs.parallel import Task, run_many
from pausefl.runs.ray_cluster import RayCluster

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
cluster_utils = pytest.importorskip("ray.cluster_utils")

# Ray leaves sockets and processes to the end of the process, and Python warns of them.
pytestmark = [
    pytest.mark.thorough,  # its small siblings, without a cluster, are in tests/runs
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

RUN = {
    "data": {"train_size": 300},
    "network": {"clients": 10, "dropout": 0.1, "deadline": 0.85},
    "selection": {"per_round": 3},
    "run": {"rounds": 40, "checkpoint_every": 4},
}
OWN_POLICY = """
import numpy as np
from pausefl import Policy

class Thrifty(Policy):
    name = "thrifty"

    def pick(self, candidates):
        luck = candidates.tickets(np.arange(len(candidates)))
        return np.lexsort((luck, -candidates.budget_left))[: candidates.m]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with (
        TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,  # a short path: sockets lie below it
        pytest.MonkeyPatch.context() as patch,
    ):
        # Apart from whatever else uses Ray on this machine: its note of the cluster's address, too, lies in here.
        patch.setenv("RAY_TMPDIR", folder)
        head = {
            "num_cpus": 1,
            "include_dashboard": False,
            "_system_config": {"worker_niceness": 0},  # by default workers step back, and starve beside other tests
        }
        made = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        try:
            yield made
        finally:
            made.shutdown()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def tasks(out: Path, seeds: int = 6) -> list[Task]:
    return [
        Task(make_config(RUN, [f"run.seed={seed}", f"selection.policy={policy}"]), out / policy / f"seed-{seed}")
        for policy in ("pause", "random")
        for seed in range(seeds)
    ]


def play_and_kill(address: str, out: str, node: str, raylet: str) -> None:
    """Play all runs, and kill a node as soon as a run on it has a checkpoint, but no end; print what was said."""
    said: list[str] = []
    killed: list[int] = []
    players = RayCluster(address, say=said.append)

    def kill_once(which: int, record: Mapping[str, Any]) -> None:
        if not killed and players.playing[which] == node and record["round"] < 40:
            killed.append(which)
            # The workers too, as when a machine loses its power.
            for pid in (*Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split(), raylet):
                os.kill(int(pid), signal.SIGKILL)

    run_many(tasks(Path(out)), players=players, progress=kill_once)
    print(json.dumps({"killed": killed, "said": said}))


def play_the_rest(address: str, out: str) -> None:
    """Play what is left of two runs; print the first round of each that was played."""
    first: dict[int, int] = {}
    run_many(
        tasks(Path(out), 1), players=RayCluster(address), progress=lambda i, r: first.setdefault(i, r["round"])
    )  # fmt: skip
    print(json.dumps(first))


def play_without_data(address: str, out: str) -> None:
    """Play a run whose data is missing; print how that was refused."""
    task = Task(make_config(RUN, ["data.name=mnist"]), Path(out, "run"))
    try:
        run_many([task], data_dir=Path(out, "nothing"), players=RayCluster(address))
    except DataMissingError as error:
        print(json.dumps(type(error).__name__))


def played(what: Callable[..., None], *words: object) -> tuple[Any, bool]:
    """Call it in a process of its own; return what it printed last, and whether the first try came to its end.

    Ray's own code ends a process now and then.  The same command goes on.
    """
    for attempt in range(3):  # noqa: B007 - it is looked at below
        command = [sys.executable, __file__, what.__name__, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode >= 0:
            break
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), attempt == 0  # Ray writes, too


def test_twelve_runs_are_right_though_a_node_is_killed(cluster: Any, tmp_path: Path) -> None:
    run_many(tasks(tmp_path / "here"))
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    raylet = doomed.all_processes["raylet"][0].process.pid
    try:
        told, at_once = played(play_and_kill, cluster.address, tmp_path / "there", doomed.node_id, raylet)
    finally:
        cluster.remove_node(doomed, allow_graceful=False)
    if at_once:
        killed, said = told["killed"], told["said"]
        assert len(killed) == 1, (said, doomed.node_id)
        [line] = [
            line for line in said if line.startswith(f"{tasks(tmp_path / 'there')[killed[0]].out}: its worker died")
        ]
        assert line.endswith("on another worker (retry 1 of 3)")
        assert "after round 0 " not in line, "it goes on from its last checkpoint"
        assert len(said) <= 2, "the node played one run; at most one more was on its way to it"
    runs = run_many(tasks(tmp_path / "there"))  # all are there, and are only read
    assert [run.settings.run.seed for run in runs] == [0, 1, 2, 3, 4, 5] * 2
    assert all(run.summary is not None for run in runs)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_runs_that_are_there_are_not_played_again_and_a_broken_off_one_goes_on(cluster: Any, tmp_path: Path) -> None:
    (first, second), there = tasks(tmp_path / "here", 1), tasks(tmp_path / "there", 1)
    run_many([first, second])
    from pausefl.runs.play import run

    run(there[0].config, there[0].out)
    run(there[1].config, there[1].out, until=20)
    first_round, at_once = played(play_the_rest, cluster.address, tmp_path / "there")
    assert not at_once or first_round == {"1": 24}
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_the_command_takes_code_of_ones_own_along(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "thrifty.py").write_text(OWN_POLICY)
    file = tmp_path / "code" / "run.toml"
    file.write_text(make_config(RUN, ["selection.policy=thrifty:Thrifty", "run.rounds=8"]).toml())
    printed = []
    for name, more in (("here", []), ("there", ["--ray", cluster.address])):
        command = ["run", str(file), "--seeds", "2", "--out", name, "--json", *more]
        done = subprocess.run(
            [sys.executable, "-m", "pausefl", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == "pausefl: this configuration runs code of its own: thrifty:Thrifty\n"
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert "seed-1/code.json" in contents(tmp_path / "there")


def test_what_a_worker_refuses_is_told_as_if_it_were_refused_here(cluster: Any, tmp_path: Path) -> None:
    assert played(play_without_data, cluster.address, tmp_path)[0] == "DataMissingError"


def test_a_cluster_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    for address, said in (
        ("127.0.0.1:1", r"no Ray cluster can be used at '127\.0\.0\.1:1' \(.*refused\); start one with 'ray start"),
        ("somewhere", "Ray address is 'somewhere', but must be HOST:PORT, 'auto' or 'local'"),
        ("127.0.0.1:99999999", "no Ray cluster can be used at"),
    ):
        with pytest.raises(ConfigError, match=said):
            run_many(tasks(tmp_path, 1), players=RayCluster(address))


if __name__ == "__main__":
    {one.__name__: one for one in (play_and_kill, play_the_rest, play_without_data)}[sys.argv[1]](*sys.argv[2:])

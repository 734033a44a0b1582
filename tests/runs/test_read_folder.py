"""A run is read whole and consistent, or refused in one line; never half believed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pausefl.errors import ConfigError
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_run, read_runs


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("run")
    run(make_config({"run": {"rounds": 5}, "learning": {"enabled": False}}), folder)
    return {name: (folder / name).read_bytes() for name in ("config.toml", "metrics.jsonl", "summary.json")}


def edited(change: Callable[[list[Any]], Any]) -> Callable[[dict[str, bytes]], None]:
    """Change the records of a run, and write them as a run does."""

    def apply(files: dict[str, bytes]) -> None:
        records = [json.loads(line) for line in files["metrics.jsonl"].splitlines()]
        change(records)
        files["metrics.jsonl"] = "".join(json.dumps(record) + "\n" for record in records).encode()

    return apply


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (edited(lambda r: r.__setitem__(2, 5)), "line 3 of the metrics is not round 3"),
        (edited(lambda r: r.pop(2)), "line 3 of the metrics is not round 3"),
        (edited(lambda r: r[1].pop("seconds")), "round 2 lacks its seconds"),
        (edited(lambda r: r[1].update(seconds=0.0)), "the clock goes back"),
        (edited(lambda r: r[1].pop("members")), "round 2 lacks its members"),
        (edited(lambda r: r[1].update(members=["x"])), "round 2 lacks its members"),
        (edited(lambda r: r[1].update(members=[30])), "members that are not among the 30 clients"),
        (edited(lambda r: r[1].update(members=[-1])), "members that are not among the 30 clients"),
        (edited(lambda r: r[1].update(max_leakage="much")), "round 2 has a value that should be a number"),
        (edited(lambda r: r[1].update(median_leakage="much")), "round 2 has a value that should be"),
        (edited(lambda r: r[1].update(seconds=float("nan"))), "round 2 has a value that should be"),
        (edited(lambda r: r[1].update(accuracy=1e308)), "round 2 has a value that should be"),
        (edited(lambda r: r[1].update(latencies=[-1e308] * 5)), "round 2 has latencies"),
        (edited(lambda r: r[1].update(loss=10**400)), "round 2 has a value that should be"),
        (lambda files: files.update({"metrics.jsonl": b"[" * 100_000 + b"\n"}), "lists in lists without end"),
        (edited(lambda r: r[1].update(max_leakage=None)), "round 2 does not say what has leaked"),
        (edited(lambda r: r[1].update(terms="x")), "round 2 lacks"),
        (edited(lambda r: r.pop()), "does not count the 4 rounds"),
        (lambda files: files.update({"summary.json": b"[]"}), "does not count the 5 rounds"),
        (lambda files: files.update({"summary.json": b"{}"}), "does not count the 5 rounds"),
        (lambda files: files.update({"summary.json": b'{"rounds": 5}'}), "lacks its guarantee"),
        (
            lambda files: files.update({"summary.json": b'{"rounds": 5, "guarantee": "", "clients": {"size": 1}}'}),
            "the clients in summary.json",
        ),
        (lambda files: files.update({"config.toml": b""}), r"config.toml lacks \[data\]"),
        (lambda files: files.update({"config.toml": b"data = 1"}), r"config.toml lacks \[data\]"),
        (lambda files: files.update({"config.toml": b"odd = 1\n" + files["config.toml"]}), "odd is not a known key"),
        (lambda files: files.update({"config.toml": files["config.toml"].replace(b"seed = 0", b'seed = "x"')}), "seed"),
        (lambda files: files.update({"config.toml": b"\xff"}), "damaged run"),
        (lambda files: files.update({"metrics.jsonl": b""}), "has not ended a round yet"),
    ],
)
def test_what_is_not_whole_is_refused(
    whole: dict[str, bytes], spoil: Callable[[dict[str, bytes]], None], words: str, tmp_path: Path
) -> None:
    files = dict(whole)
    spoil(files)
    if files["metrics.jsonl"] == b"":
        files.pop("summary.json")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=words) as refused:
        read_run(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_run_that_has_just_begun_is_to_be_waited_for(whole: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(whole["config.toml"])
    for read in (lambda: read_run(tmp_path), lambda: read_runs([tmp_path])):
        with pytest.raises(ConfigError, match="has not ended a round yet; wait for its first"):
            read()


def test_a_run_that_ends_while_it_is_read_is_unfinished_not_damaged(
    whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("config.toml", "metrics.jsonl"):
        (tmp_path / name).write_bytes(whole[name])
    lines = whole["metrics.jsonl"].splitlines(keepends=True)

    def meanwhile(_: Path) -> bytes:
        (tmp_path / "summary.json").write_bytes(whole["summary.json"])
        return b"".join(lines[:-1])

    monkeypatch.setattr(Path, "read_bytes", meanwhile)
    read = read_run(tmp_path)
    assert (len(read.records), read.summary) == (4, None)


@pytest.mark.parametrize(("selection", "name"), [("true", "sa-pause-as-published"), ("false", "sa-pause")])
def test_a_run_that_was_written_with_the_key_paper_scale_is_read(selection: str, name: str, tmp_path: Path) -> None:
    """Until 1.0 the paper's chain was a key of sa-pause; committed results have it."""
    content = {"run": {"rounds": 1}, "learning": {"enabled": False}, "selection": {"policy": name}}
    run(make_config(content), tmp_path)
    now = (tmp_path / "config.toml").read_text()
    older = now.replace(f'policy = "{name}"', f'policy = "sa-pause"\npaper_scale = {selection}')
    assert older != now
    (tmp_path / "config.toml").write_text(older)
    assert read_run(tmp_path).name == name
    assert run(make_config(content), tmp_path).summary["rounds"] == 1  # and it is the same run


@pytest.mark.parametrize("override", ["selection.paper_scale=true", "selection.paper_scale=false"])
def test_the_key_paper_scale_says_what_to_write_instead(override: str) -> None:
    with pytest.raises(
        ConfigError, match=r"paper_scale is no longer a key; set selection.policy = 'sa-pause-as-published'"
    ):
        make_config({}, [override])

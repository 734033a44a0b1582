"""The log of rounds: what its lines say, that they are whole, and that no round is there twice."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pausefl.errors import InvalidValueError, StateFileError
from pausefl.selection import All
from pausefl.selector import Selector

SECONDS = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}


def made(log: Path | None, **given: Any) -> Selector:
    return Selector({"a": 10, "b": 20, "c": 30, "d": 40}, 2, tau_min=0.05, log=log, **given)


def play(sel: Selector, rounds: int) -> None:
    for _ in range(rounds):
        sel.observe({client: SECONDS[client] for client in sel.select()})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_what_the_selection_has(tmp_path: Path) -> None:
    sel = made(tmp_path / "log")
    play(sel, 4)
    chosen = sel.select()
    sel.observe({chosen.members[0]: 0.7})
    line, out = lines(tmp_path / "log")[4], chosen.reasons.left_out
    assert line["round"] == 5
    assert tuple(line["members"]) == chosen.members
    assert line["terms"] == chosen.terms
    assert line["value"] == chosen.value
    assert line["latencies"] == [0.7, None]
    reasons = list(chosen.reasons.values())
    assert line["reasons"] == [{name: getattr(one, name) for name in one.__slots__} for one in reasons]
    assert out is not None
    assert line["left_out"]["client"] == out.client
    assert line["left_out"]["short_by"] == out.short_by
    assert line["left_out"]["replaces"] == list(out.replaces)
    assert line["left_out"]["reason"]["picks"] == out.reason.picks


def test_what_is_infinite_is_null_and_what_is_not_looked_for_too(tmp_path: Path) -> None:
    play(made(tmp_path / "log"), 1)
    play(made(tmp_path / "other", policy="random"), 1)
    first = lines(tmp_path / "log")[0]
    assert first["reasons"][0]["speed_bonus"] is None and first["terms"]["speed"] is None
    assert lines(tmp_path / "other")[0]["left_out"] is None


def test_what_is_told_between_select_and_observe_is_not_in_the_reasons(tmp_path: Path) -> None:
    for told in (False, True):
        sel = made(tmp_path / str(told))
        play(sel, 5)
        chosen = sel.select()
        if told:
            sel.report(dict.fromkeys("abcd", 30))
        sel.observe({client: SECONDS[client] for client in chosen})
    assert lines(tmp_path / "True") == lines(tmp_path / "False")


def test_the_log_changes_no_choice_and_no_state(tmp_path: Path) -> None:
    states = []
    for log in (tmp_path / "log", None):
        sel = made(log)
        play(sel, 6)
        sel.save(tmp_path / "state")
        states.append((tmp_path / "state").read_bytes())
    assert states[0] == states[1]


@pytest.mark.parametrize("how", ["load", "restore"])
def test_rounds_that_are_played_again_are_there_once(tmp_path: Path, how: str) -> None:
    path = tmp_path / "log"
    sel = made(path)
    play(sel, 3)
    sel.save(tmp_path / "state")
    play(sel, 4)
    once = path.read_bytes()
    if how == "load":
        again = Selector.load(tmp_path / "state", log=path)
    else:
        header, arrays = Selector.load(tmp_path / "state").state()
        again = made(path)
        again.restore(header, arrays)
    play(again, 4)
    assert path.read_bytes() == once
    assert [line["round"] for line in lines(path)] == [1, 2, 3, 4, 5, 6, 7]


def test_a_round_that_was_open_when_saved_is_logged_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    sel = made(path)
    chosen = sel.select()
    sel.save(tmp_path / "state")
    for selector in (sel, Selector.load(tmp_path / "state", log=path)):
        selector.observe({client: SECONDS[client] for client in chosen})
        assert [line["round"] for line in lines(path)] == [1]
    assert lines(path)[0]["left_out"] is None, "who else was there is not part of a state"


def test_a_new_selector_does_not_overwrite_the_log_of_another(tmp_path: Path) -> None:
    path = tmp_path / "log"
    play(made(path), 3)
    before = path.read_bytes()
    with pytest.raises(StateFileError, match=r"has rounds up to 3 already, but this selector begins with round 1"):
        made(path).select()
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["hello\n", "[1]\n", '{"a": 1}\n', '{"round": "x"}\n'])
def test_a_file_that_is_no_log_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(StateFileError, match="has a line that is not a round of a selector"):
        made(path).select()
    assert path.read_text() == content


def test_half_a_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log"
    sel = made(path)
    play(sel, 2)
    sel.save(tmp_path / "state")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"round": 3, "mem')
    again = Selector.load(tmp_path / "state", log=path)
    again.select()
    assert path.read_bytes() == whole


def test_a_line_that_cannot_be_written_leaves_the_round_open(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    sel = made(folder / "log")
    chosen = sel.select()
    folder.rename(tmp_path / "away")
    with pytest.raises(StateFileError, match="the round is still open"):
        sel.observe({client: SECONDS[client] for client in chosen})
    assert (sel.rounds, sel.pending) == (0, chosen)
    (tmp_path / "away").rename(folder)
    sel.observe({client: SECONDS[client] for client in chosen})
    assert [line["round"] for line in lines(folder / "log")] == [1]


def test_a_disk_that_is_full_is_told_in_one_line() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    sel = made(Path("/dev/full"))
    sel._log.begin = lambda rounds: None  # type: ignore[method-assign, union-attr]  # a device cannot be read to its end
    sel.select()
    with pytest.raises(StateFileError, match=r"cannot be written \(No space left on device\)"):
        sel.observe({})


def test_an_observation_that_a_policy_breaks_is_logged_once_when_it_is_repeated(tmp_path: Path) -> None:
    class Picky(All):
        name = "picky"
        failing = True

        def learn(self, rows: Any, updates: Any) -> None:
            if Picky.failing:
                raise RuntimeError("not now")

    sel = made(tmp_path / "log", policy=Picky())
    sel.select()
    with pytest.raises(RuntimeError):
        sel.observe(SECONDS, {"a": [1.0]})
    Picky.failing = False
    sel.observe(SECONDS, {"a": [1.0]})
    assert [line["round"] for line in lines(tmp_path / "log")] == [1]


def test_a_missing_folder_and_a_wrong_type_are_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    with pytest.raises(StateFileError, match="its folder does not exist"):
        made(tmp_path / "no" / "log").select()
    with pytest.raises(InvalidValueError, match="log is 3, but must be the path of a file"):
        made(3)  # type: ignore[arg-type]


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    """The child ends itself without any cleaning up, in the middle of its work."""
    script = (
        "import os, sys; from pausefl.selector import Selector\n"
        "sel = Selector([1.0] * 40, 8, tau_min=0.05, log=sys.argv[1])\n"
        "for number in range(30):\n"
        "    chosen = sel.select()\n"
        "    if number == 20: os.kill(os.getpid(), 9)\n"
        "    sel.observe(dict.fromkeys(chosen, 0.3))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path / "log")], env=os.environ, check=False)
    assert ended.returncode == -9
    assert [line["round"] for line in lines(tmp_path / "log")] == list(range(1, 21))


def test_a_line_that_was_not_synced_is_not_there_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    sel = made(tmp_path / "log")
    seconds = dict.fromkeys(sel.select(), 0.3)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(StateFileError, match="the round is still open"):
            sel.observe(seconds)
    sel.observe(seconds)
    assert [line["round"] for line in lines(tmp_path / "log")] == [1]

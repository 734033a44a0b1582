"""State files that others wrote: the checksum is right and the content is not.  Each is refused in one line."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pausefl.cli import main
from pausefl.errors import StateFileError
from pausefl.flower.server.journal import KIND
from pausefl.report.live.live_run import LiveRun
from pausefl.system.state_file import glance_at_state, is_state, read_state, write_state


def described(arrays: Any = None, **more: Any) -> str:
    return json.dumps({"kind": KIND, "header": {}, "arrays": {} if arrays is None else arrays} | more)


ODD = {
    "a list": "[]", "nothing": "{}", "a number": "7", "deep": "[" * 100_000, "no header": json.dumps({"kind": KIND}),
    "a kind that is none": json.dumps({"kind": [], "header": {}, "arrays": {}}),
    "a header that is none": described(header=[]), "arrays that are none": described(arrays=[1]),
    "an array that is none": described({"a": 1}), "objects": described({"a": ["O", [1]]}),
    "fields": described({"a": ["O,i4", [1]]}), "no type": described({"a": ["nonsense", [1]]}),
    "a type that is none": described({"a": [{"names": 1}, [1]]}), "empty items": described({"a": ["V0", [1]]}),
    "negative": described({"a": ["<f8", [-1]]}), "huge": described({"a": ["<f8", [1 << 40, 1 << 40]]}),
    "more than there is": described({"a": ["<f8", [5]]}), "half a number": described({"a": ["<f8", [0.5]]}),
    "a shape that is none": described({"a": ["<f8", 3]}), "many dimensions": described({"a": ["<f8", [1] * 100]}),
}  # fmt: skip


@pytest.fixture(params=ODD)
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    body = ODD[request.param].encode() + b"\n" + bytes(8)
    digest = blake2b(body, digest_size=20).hexdigest()
    path = tmp_path / "odd.state"
    path.write_bytes(f"pausefl state 1 {digest}\n".encode() + body)
    return path


def test_an_odd_state_is_refused_by_whoever_reads_it(odd: Path) -> None:
    for read in (lambda: read_state(odd, KIND), lambda: glance_at_state(odd, KIND, ["a"])):
        with pytest.raises(StateFileError, match=r"odd\.state") as refused:
            read()
        assert "\n" not in str(refused.value) and len(str(refused.value)) < 1000


def test_a_report_refuses_it_in_one_line(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["report", str(odd)])
    err = capsys.readouterr().err
    assert stop.value.code == 2 and err.count("\n") == 1 and "odd.state" in err


def test_the_reader_of_the_live_page_outlives_it(odd: Path, tmp_path: Path) -> None:
    live = LiveRun(tmp_path / "later.state", lambda: 0.0)
    odd.rename(tmp_path / "later.state")
    assert not live.poll() and not live.poll()
    found = live.news(-1, 0.0)
    assert found is not None and json.loads(found[1])["alarms"][0]["kind"] == "fault"


def test_a_checkpoint_that_is_cut_short_is_still_told_to_be_one(tmp_path: Path) -> None:
    write_state(tmp_path / "a.state", KIND, {}, {"a": np.zeros(3)})
    (tmp_path / "a.state").write_bytes((tmp_path / "a.state").read_bytes()[:-1])
    assert is_state(tmp_path / "a.state", KIND)


def test_a_state_of_another_kind_of_run_names_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = described().encode() + b"\n"
    digest = blake2b(body, digest_size=20).hexdigest()
    (tmp_path / "odd.state").write_bytes(f"pausefl state 1 {digest}\n".encode() + body)
    with pytest.raises(SystemExit) as stop:
        main(["report", str(tmp_path / "odd.state")])
    err = capsys.readouterr().err
    assert stop.value.code == 2 and "odd.state is damaged" in err and err.count("\n") == 1

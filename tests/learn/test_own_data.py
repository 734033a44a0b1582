"""A data set of one's own comes in by an import path, and is checked before anything is trained."""

import json
from pathlib import Path

import numpy as np
import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError, InvalidValueError
from pausefl.learn.datasets import load_dataset
from pausefl.runs.config import make_config

MODULE = """
import numpy as np

def stripes():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    images = rng.integers(0, 60, (400, 6, 6)).astype(np.uint8)
    images[np.arange(400), labels] += 150
    return images[:300], labels[:300], images[300:], labels[300:]

def rows():
    images, labels, more, others = stripes()
    return images.reshape(300, 36), labels, more.reshape(100, 36), others

def floats():
    images, *rest = stripes()
    return (images / 255.0, *rest)

def short():
    images, labels, *rest = stripes()
    return (images, labels[:-1], *rest)

def negative():
    images, labels, *rest = stripes()
    return (images, labels - 1, *rest)

def three():
    return stripes()[:3]

def strangers():
    images, labels, more, others = stripes()
    return images, labels, more, others + 1

def unlike():
    images, labels, more, others = stripes()
    return images, labels, more[:, :5], others

def hospitals():
    return (*stripes(), np.array(["south", "north", "east"])[np.arange(300) % 3])

def numbers():
    return (*stripes(), [7, 40, 12] * 100)

def few_owners():
    return (*stripes(), [7, 40, 12])

def shares():
    return (*stripes(), np.ones(300) / 2)

def broken():
    raise RuntimeError("no disk")
"""


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stripes_data.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "stripes_data", raising=False)
    return tmp_path


def test_images_and_rows_are_taken(beside: Path) -> None:
    images, rows = load_dataset("stripes_data:stripes"), load_dataset("stripes_data:rows")
    assert images.train_images.shape == (300, 1, 6, 6)
    assert rows.train_images.shape == (300, 1, 1, 36)
    assert (set(images.train_labels.tolist()), images.train_labels.dtype) == ({0, 1, 2}, np.int64)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("floats", "must be uint8"),
        ("short", "one for each of the 300 images"),
        ("negative", "whole numbers from 0"),
        ("few_owners", "owners of type int64 and shape (3,), but they must be whole numbers or texts, one for each"),
        ("shares", "owners of type float64"),
        ("three", "must return a tuple of train_images"),
        ("strangers", "test labels that are not in training"),
        ("unlike", "training and test images the same shape"),
        ("broken", "cannot be loaded (RuntimeError: no disk, at "),
        ("nobody", "no attribute 'nobody'"),
    ],
)
def test_what_cannot_be_used_is_refused(beside: Path, name: str, words: str) -> None:
    with pytest.raises(InvalidValueError) as refusal:
        load_dataset(f"stripes_data:{name}")
    assert words in str(refusal.value)


@pytest.mark.parametrize(("name", "first"), [("hospitals", [2, 1, 0]), ("numbers", [0, 2, 1])])
def test_owners_are_numbered_in_their_order(beside: Path, name: str, first: list[int]) -> None:
    data = load_dataset(f"stripes_data:{name}")
    assert data.owners is not None
    assert (data.owners[:3].tolist(), data.owners.dtype) == (first, np.int64)
    assert load_dataset("stripes_data:stripes").owners is None


def test_a_run_on_natural_clients(beside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(name: str, clients: int) -> str:
        (beside / "own.toml").write_text(
            f'[data]\nname = "stripes_data:{name}"\npartition = "natural"\n[network]\nclients = {clients}\n'
            "[selection]\nper_round = 2\n[privacy]\nenabled = false\n[run]\nrounds = 2\n"
        )
        with pytest.raises(SystemExit) as stop:
            main(["run", str(beside / "own.toml"), "--out", str(beside / f"{name}-{clients}")])
        first, *rest = capsys.readouterr().err.splitlines()
        assert first.startswith("pausefl: this configuration runs code of its own")
        assert (stop.value.code in (0, None)) == (not rest)
        return "".join(rest)

    assert said("hospitals", 3) == ""
    assert said("hospitals", 4).startswith(
        "pausefl: network.clients is 4, but must be 3, the number of natural clients"
    )
    assert said("stripes", 3).startswith(
        "pausefl: data.partition is 'natural', but data set 'stripes_data:stripes' does"
    )


def test_a_name_that_is_nearly_right() -> None:
    with pytest.raises(ConfigError, match=r"data\.name is 'minst'.*did you mean 'mnist'"):
        make_config({"data": {"name": "minst"}})


def test_a_run_on_it_learns_and_says_whose_code_it_ran(beside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (beside / "own.toml").write_text(
        '[data]\nname = "stripes_data:stripes"\n[network]\nclients = 6\n[selection]\nper_round = 2\n'
        "[privacy]\nenabled = false\n[run]\nrounds = 6\n"
    )
    with pytest.raises(SystemExit) as stop:
        main(["run", str(beside / "own.toml"), "--out", str(beside / "out"), "--json"])
    out, err = capsys.readouterr()
    assert stop.value.code in (0, None)
    assert err == "pausefl: this configuration runs code of its own: stripes_data:stripes\n"
    [summary] = json.loads(out)
    assert summary["best_accuracy"] > 60.0

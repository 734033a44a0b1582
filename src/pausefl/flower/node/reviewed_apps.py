"""The apps that an owner has reviewed, in one file: a bundle that is not on the list does not run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pausefl.errors import ConfigError
from pausefl.flower.node.bundle import Bundle
from pausefl.system.lock import only_writer
from pausefl.system.private_file import require_private, write_private
from pausefl.system.toml_sections import Section, read_toml, toml_text, validated

FILE = "reviewed-apps.toml"
"""The name of the list, beside the owner's file."""

_PATIENCE = 10.0
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ReviewedApp(Section):
    """One app as it was reviewed: the hash of its bundle, what it called itself, and the hash of each file."""

    sha256: Hash
    publisher: str
    name: str
    version: str
    reviewed: str
    files: dict[str, Hash]


class _File(Section):
    app: list[ReviewedApp] = Field(default_factory=list)


class ReviewedApps:
    """The list.  It is read afresh each time: a review, or a withdrawal, counts from the next message on.

    Law: a hash is on the list exactly if it was added and not withdrawn since; a list that others may write is refused.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[ReviewedApp]:
        """Return the apps on it; a list that does not exist is empty."""
        if not self._path.exists():
            return []
        require_private(self._path, "list of reviewed apps")
        return validated(_File, read_toml(self._path), remedy="withdraw the app and review it again").app

    def __contains__(self, sha256: str) -> bool:
        return any(app.sha256 == sha256 for app in self.read())

    def add(self, bundle: Bundle) -> ReviewedApp:
        """Put a bundle on the list."""
        date = datetime.now(UTC).date().isoformat()
        app = ReviewedApp(sha256=bundle.sha256, reviewed=date, files=bundle.hashes(), **bundle.app)
        with self._alone():
            self._write([*(old for old in self.read() if old.sha256 != app.sha256), app])
        return app

    def withdraw(self, start: str) -> ReviewedApp:
        """Take the app whose hash begins like this off the list."""
        with self._alone():
            apps = self.read()
            found = [app for app in apps if app.sha256.startswith(start)]
            if len(found) != 1 or len(start) < 8:
                raise ConfigError(
                    f"{start!r:.80} is the beginning of {len(found)} hashes in {self._path}; "
                    "pass 8 digits or more of one hash"
                )
            self._write([app for app in apps if app is not found[0]])
        return found[0]

    def changes(self, bundle: Bundle) -> tuple[ReviewedApp, dict[str, str]] | None:
        """Return the newest reviewed app of this publisher and name, and what became of each file since then."""
        name = bundle.app["publisher"], bundle.app["name"]
        same = [app for app in self.read() if (app.publisher, app.name) == name]
        if not same:
            return None
        old, new = same[-1].files, bundle.hashes()
        differ = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]
        return same[-1], {path: _what(path, old, new) for path in differ}

    def _alone(self) -> AbstractContextManager[None]:
        """Hold the list from its reading to its writing: what another writes in between would be undone."""
        real = self._path.resolve()
        return only_writer(real.with_name(f"{real.name}.lock"), self._path, "end that process", wait=_PATIENCE)

    def _write(self, apps: list[ReviewedApp]) -> None:
        text = "# Apps that may run on this node; written by 'pausefl node review'.\n"
        text += toml_text({"app": [app.model_dump() for app in apps]})
        write_private(self._path.resolve(), text)


def _what(path: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    return "added" if path not in old else "removed" if path not in new else "changed"

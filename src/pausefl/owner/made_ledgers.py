"""Which ledgers a user has: their names and places, so that no data gets a second ledger by mistake.

A folder can be lost together with its ledger.  What is written here lies beside the second notes, outside that folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.owner.second_note_place import second_note_folder
from pausefl.system.state_file import write_whole

_ABOUT = ".about"
_MOST = 50
"""How many ledgers a warning names."""


@dataclass(frozen=True, slots=True)
class MadeLedger:
    """The name that a ledger was made for, where it is, and where the records are, if pausefl cuts the data."""

    name: str
    path: str
    records: str = ""


def remember(ledger_id: str, name: str, ledger: Path, records: Path | None = None) -> None:
    """Write down for whom a ledger is, and where; what cannot be written is left out: no promise relies on it.

    Who does not know where the records are leaves what was written before.
    """
    with suppress(OSError, ConfigError):
        file = _file(ledger_id)
        before = _read(file)
        place = os.path.realpath(records) if records is not None else before.records if before is not None else ""
        text = json.dumps(asdict(MadeLedger(name, os.path.realpath(ledger), place))) + "\n"
        if not file.exists() or file.read_text(encoding="utf-8") != text:  # its time tells when it was made
            write_whole(file, text)


def require_new_data(name: str, ledger: Path, records: Path | None) -> None:
    """Refuse a name, or records, that this user has another ledger for; ``ledger`` is the place of the new one.

    A call that was stopped there, and is repeated, has the ledger still, and may go on.
    """
    for ledger_id in _ledger_ids():
        made = _read(_file(ledger_id))
        if made is None or (made.path == os.path.realpath(ledger) and ledger.exists()):
            continue
        if records is not None and made.records == os.path.realpath(records.expanduser()):
            raise ConfigError(
                f"this user has made a ledger for the records in {made.records!r:.300} before, at {made.path!r:.300}"
                f"{_when(ledger_id)}; a new one would be a second budget, so go on with that one, or put it back with "
                "'pausefl ledger restore'; other data needs a path of its own"
            )
        if made.name.casefold() == name.casefold():
            raise ConfigError(
                f"this user has made a ledger for {name!r:.80} before, at {made.path!r:.300}{_when(ledger_id)}; if it "
                "is about the same data, a new one would be a second budget, so put it back with 'pausefl ledger "
                "restore'; for other data, or for a trial with made-up data, pass another --name"
            )


def other_ledgers_warning(ledger_id: str) -> list[str]:
    """Return a line if this user has other ledgers: for the same data they are a second budget."""
    with suppress(ConfigError):
        others = sorted(set(_ledger_ids()) - {ledger_id})
        if others:
            count = "another ledger" if len(others) == 1 else f"{len(others)} other ledgers"
            shown = ", ".join(map(_described, others[:_MOST])) + ", …" * (len(others) > _MOST)
            return [
                f"this user has {count} ({shown}); if one of them is about the same data, go on with the older one, "
                "which knows what has left; retire the new one, and never use both"
            ]
    return []


def _ledger_ids() -> Iterator[str]:
    """Yield the ids of all ledgers of which this user has a second note."""
    with suppress(OSError):  # a folder that cannot be read is for whoever writes there to tell
        yield from sorted(path.name for path in second_note_folder().iterdir() if path.name.isalnum())


def _described(ledger_id: str) -> str:
    made = _read(_file(ledger_id))
    return ledger_id if made is None else f"{ledger_id}: {made.name!r:.80} at {made.path!r:.200}{_when(ledger_id)}"


def _when(ledger_id: str) -> str:
    with suppress(OSError):
        return f" on {datetime.fromtimestamp(_file(ledger_id).stat().st_mtime, UTC):%Y-%m-%d}"
    return ""


def _file(ledger_id: str) -> Path:
    return second_note_folder() / f"{ledger_id}{_ABOUT}"


def _read(path: Path) -> MadeLedger | None:
    try:
        made = MadeLedger(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None  # made before such files were written, or damaged
    return made if all(isinstance(one, str) for one in (made.name, made.path, made.records)) else None

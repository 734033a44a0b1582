"""Which ledgers a user has: their names and places, so that no data gets a second ledger by mistake.

A folder can be lost together with its ledger.  What is written here lies beside the second notes, outside that folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pausefl.errors import ConfigError, PauseError
from pausefl.owner.second_note_place import cannot, require_second_note_folder, second_note_folder
from pausefl.privacy import SqliteLedger
from pausefl.system.lock import only_writer
from pausefl.system.private_file import make_private_folder
from pausefl.system.state_file import write_whole

_ABOUT = ".about"
_MOST = 50
"""How many ledgers a warning names."""
_PATIENCE = 30.0
"""Seconds to wait for somebody else who makes a ledger."""


@dataclass(frozen=True, slots=True)
class MadeLedger:
    """The name that a ledger was made for, where it is, and where its records were, if pausefl cuts the data.

    The records are named by all paths ever seen: as they were given, and where links led then.  ``since`` is the day
    on which this user first had the ledger.
    """

    name: str
    path: str
    records: tuple[str, ...]
    since: str


def remember(ledger: SqliteLedger, name: str, records: Path | None = None) -> None:
    """Write down for whom a ledger is, and where; what cannot be written is left out: no promise relies on it."""
    with suppress(OSError, PauseError):
        file = _file(ledger.id)
        before = _read(file)
        places = sorted({*(before.records if before is not None else ()), *_places(records)})
        since = before.since if before is not None else _first_day(ledger)
        made = MadeLedger(name, os.path.realpath(ledger.path), tuple(places), since)
        if made != before:
            write_whole(file, json.dumps(asdict(made)) + "\n")


@contextmanager
def only_new_data(name: str, ledger: Path, records: Path | None) -> Iterator[None]:
    """Refuse a name, or records, that this user has another ledger for; ``ledger`` is the place of the new one.

    It holds until the new one is remembered.  A call that was stopped there, and is repeated, has the ledger still, and
    may go on.
    """
    folder = require_second_note_folder(ledger)
    try:
        make_private_folder(folder)
    except OSError as error:
        raise cannot("written", folder, error) from None
    with only_writer(folder / "making.lock", folder, "try again later", wait=_PATIENCE):
        _require_new_data(name, ledger, records)
        yield


def _require_new_data(name: str, ledger: Path, records: Path | None) -> None:
    here = _id_of(ledger)
    for ledger_id in _ledger_ids():
        made = _read(_file(ledger_id))
        if made is None or ledger_id == here:
            continue
        known = [old for old in made.records if any(_overlap(new, old) for new in _places(records))]
        if known:
            raise ConfigError(
                f"this user has made a ledger for the records in {known[0]!r:.300} before, at {made.path!r:.300}"
                f" on {made.since:.20}; a new one would be a second budget, so go on with that one, or put it back "
                "with 'pausefl ledger restore'; data of other persons needs a path of its own, and a copy of this "
                "data is no other data"
            )
        if made.name.casefold() == name.casefold():
            raise ConfigError(
                f"this user has made a ledger for {name!r:.80} before, at {made.path!r:.300} on {made.since:.20}; if "
                "it is about the same data, a new one would be a second budget, so put it back with 'pausefl ledger "
                "restore'; for other data, or for a trial with made-up data, pass another --name"
            )


def _places(records: Path | None) -> set[str]:
    """Return the names by which records are known: where they were said to be, and where links lead now."""
    if records is None:
        return set()
    given = records.expanduser()
    beside = os.path.join(os.path.realpath(given.parent), given.name)  # noqa: PTH118 - a link of that name stays
    return {str(given.absolute()), beside, os.path.realpath(given)}


def _overlap(new: str, old: str) -> bool:
    """Whether one path is in the other, or both lead to one file."""
    if Path(new).is_relative_to(old) or Path(old).is_relative_to(new):
        return True
    with suppress(OSError):
        return Path(new).samefile(old)
    return False


def _first_day(ledger: SqliteLedger) -> str:
    """Return the day of the first release, or today: a ledger that was put back is older than what is known of it."""
    days = [charge.when[: len("2026-01-01")] for name in ledger.subjects() for charge in ledger.charges(name)]
    return min(days, default=_day(time.time()))


def _id_of(ledger: Path) -> str | None:
    with suppress(PauseError, OSError):
        return SqliteLedger(ledger).id if ledger.exists() else None
    return None


def other_ledgers_warning(ledger_id: str) -> list[str]:
    """Return a line if this user has other ledgers: for the same data they are a second budget."""
    with suppress(ConfigError):
        others = sorted(set(_ledger_ids()) - {ledger_id})
        if others:
            count = "another ledger" if len(others) == 1 else f"{len(others)} other ledgers"
            shown = ", ".join(map(_described, others[:_MOST])) + ", …" * (len(others) > _MOST)
            return [
                f"this user has {count} ({shown}); if one of them is about the same data, never use both: go on with "
                "the one that has releases ('pausefl ledger show'), and retire the other; if both have some, the "
                "budget of this data counts as spent"
            ]
    return []


def _ledger_ids() -> Iterator[str]:
    """Yield the ids of all ledgers of which this user has a second note."""
    with suppress(OSError):  # a folder that cannot be read is for whoever writes there to tell
        yield from sorted(path.name for path in second_note_folder().iterdir() if path.name.isalnum())


def _described(ledger_id: str) -> str:
    made = _read(_file(ledger_id))
    return ledger_id if made is None else f"{ledger_id}: {made.name!r:.80} at {made.path!r:.200} on {made.since:.20}"


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def _file(ledger_id: str) -> Path:
    return second_note_folder() / f"{ledger_id}{_ABOUT}"


def _read(path: Path) -> MadeLedger | None:
    try:
        found = {"records": (), "since": _day(path.stat().st_mtime), **json.loads(path.read_bytes())}
        name, place, records, since = (found[key] for key in ("name", "path", "records", "since"))
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None  # made before such files were written, or damaged
    records = (records,) if isinstance(records, str) else records  # as it was written at first
    fine = isinstance(records, list | tuple) and all(isinstance(one, str) for one in (name, place, since, *records))
    return MadeLedger(name, place, tuple(records), since) if fine else None

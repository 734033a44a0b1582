"""A ledger put back in its place, from a backup or after its folder was moved, if it has forgotten nothing."""

from __future__ import annotations

import os
from pathlib import Path

from pausefl.errors import ConfigError, LedgerError, PauseError
from pausefl.owner.kept_replies import replies_folder, writing_in
from pausefl.owner.ledger_identity import read_note, write_note
from pausefl.privacy import SqliteLedger

_SPENT = (
    "failing that, its budget counts as spent: take part no more ('pausefl ledger retire' writes that down for ever)"
)


def restore_ledger(path: Path, backup: Path | None = None, head: str | None = None) -> SqliteLedger:
    """Put a backup in the ledger's place, or accept the ledger that is there, and open it.

    It must contain the head noted beside the replies, the ``head`` that was noted elsewhere, and all that a sound
    ledger in its place contains.  Without any note nothing shows that it has forgotten nothing: it is refused.
    """
    path = Path(os.path.realpath(path))
    source = SqliteLedger(path if backup is None else backup)
    if source.simulation:
        raise ConfigError(f"ledger {source.path} was made for a simulation; name a backup of this data's ledger")
    if backup is None and source.is_backup:
        raise ConfigError(f"ledger {path} is a backup; put it elsewhere and name it with --from")
    folder = replies_folder(path)
    if not folder.exists() and head is None:
        raise _unproven(source)
    folder.mkdir(mode=0o700, exist_ok=True)
    with writing_in(folder):
        _check(path, source, head)
        if backup is not None:
            _replace(path, source)
        restored = SqliteLedger(path)
        write_note(restored)
    return restored


def _check(path: Path, source: SqliteLedger, head: str | None) -> None:
    """Refuse a ledger of which it is not known that it has forgotten nothing."""
    try:
        note = read_note(path)
    except ConfigError:  # damaged: as good as none
        note = None
    if note is None and head is None:
        raise _unproven(source)
    try:
        if note is not None:
            note.check(source)
        source.verify(head)
    except PauseError as error:
        raise ConfigError(f"{error}; {_SPENT}") from None


def _replace(path: Path, source: SqliteLedger) -> None:
    """Put a copy of the source in the place of a ledger; one that is damaged is set aside, and one ahead is kept."""
    if path.exists():
        try:
            there = SqliteLedger(path)
        except LedgerError:
            path.replace(path.with_name(f"{path.name}.damaged"))
        else:
            if there.id != source.id or not source.contains(there.head):
                raise ConfigError(
                    f"ledger {path} has {there.head.rows} rows, and not all are in {source.path}; keep it, and run "
                    f"'pausefl ledger restore {path}' if it is refused"
                )
    journal = path.with_name(f"{path.name}-journal")
    if journal.exists():  # it belongs to the old file, and SQLite would roll the new one back with it
        journal.replace(path.with_name(f"{journal.name}.damaged"))
    copy = path.with_name(f".{path.name}.restored")
    copy.unlink(missing_ok=True)
    SqliteLedger.restore(source.path, copy)
    copy.replace(path)


def _unproven(source: SqliteLedger) -> ConfigError:
    return ConfigError(
        f"nothing tells whether {source.path} has forgotten a release; give a head that you noted elsewhere with "
        f"--head HASH; {_SPENT}"
    )

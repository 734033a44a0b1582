"""A ledger put back in its place, from a backup or after its folder was moved, if it has forgotten nothing."""

from __future__ import annotations

import os
from pathlib import Path

from pausefl.errors import ConfigError, DamagedLedgerError, PauseError
from pausefl.owner.kept_replies import replies_folder
from pausefl.owner.ledger_identity import require_one_place
from pausefl.owner.made_ledgers import remember
from pausefl.owner.noted_heads import (
    DamagedNoteError,
    NotedHead,
    node_lock,
    notes_after,
    notes_elsewhere,
    noting,
    read_note,
    read_witness,
    readable_note,
    witness_path,
    write_notes,
)
from pausefl.owner.owner_init import owner_beside
from pausefl.owner.second_note_place import require_second_note_folder
from pausefl.privacy import SqliteLedger
from pausefl.system.lock import only_writer
from pausefl.system.state_file import sync_folder

_SPENT = "if you cannot do that, its budget counts as spent, so never take part with this data again"


def restore_ledger(path: Path, backup: Path | None = None, releases: int | None = None) -> SqliteLedger:
    """Put a backup in the ledger's place, or accept the ledger that is there, and open it.

    It must contain the heads noted beside the replies and outside the folder, and all that a sound ledger in its place
    contains.  Unless the note outside tells that it is the newest, ``releases`` must be the number of releases that
    it holds: how many were made in all, as far as the owner knows.  A note outside that was left behind, when the
    ledger went to another state folder, does not tell that; those that it leads to are asked, too.  If a note outside
    is there and tells nothing, this refuses: an owner who sees its file would believe that it was asked.  A restore
    that is refused changes nothing.
    """
    path = Path(os.path.realpath(path))
    if backup is not None and not backup.is_file():
        raise ConfigError(f"--from is {str(backup)!r}, but there is no such file; pass the path of your newest backup")
    if backup is None and not path.exists():
        raise ConfigError(f"ledger {path} does not exist; pass the newest backup of it with --from BACKUP")
    source = SqliteLedger(path if backup is None else backup)
    if source.simulation:
        raise ConfigError(f"ledger {source.path} was made for a simulation; pass a backup of this data's ledger")
    if backup is None and source.is_backup:
        raise ConfigError(f"ledger {path} is a backup; move it to another place and pass it with --from")
    if backup is not None and not source.is_backup:
        raise ConfigError(f"{backup} is a ledger, not a backup; pass a file that 'pausefl ledger backup' has written")
    folder = replies_folder(path)
    user = (folder if folder.exists() else path.parent).stat().st_uid
    if user != os.geteuid():
        raise ConfigError(
            f"{path.parent} belongs to user {user}, but this is user {os.geteuid()}; run this as user {user}"
        )
    require_second_note_folder(path)
    _check(path, source, releases)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        running = only_writer(node_lock(path), path, "stop the node first", doing="used")
        with running, noting(path, source.id):
            damaged = _check(path, source, releases)  # again: a client may have charged meanwhile
            if backup is not None:
                _replace(path, source, damaged)
            restored = SqliteLedger(path)
            require_one_place(path)
            write_notes(restored)
    except PauseError:
        raise
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be restored: {error.strerror or error}; free space on its disk and on that of the second "
            "note, or let them be written, and run this again"
        ) from error
    beside = owner_beside(restored)
    for name in restored.checked_releases() or (() if beside is None else (beside.name,)):
        remember(restored, name, None if beside is None else beside.records)
    return restored


def _check(path: Path, source: SqliteLedger, releases: int | None) -> bool:
    """Refuse what may have forgotten a release; return whether the ledger in its place is damaged."""
    note, witness = readable_note(lambda: read_note(path)), _speaking_witness(source.id)
    try:
        if note is not None:
            note.check(source)
        for other, place in notes_elsewhere(note, source.id):
            other.check(source, f"in {place}")
        if witness is not None:
            witness.check(source, f"in {witness_path(source.id)}")
            for later, place in notes_after(witness):
                later.check(source, f"in {place}")
    except PauseError as error:
        raise ConfigError(f"{source.path} cannot be restored: {error}; {_SPENT}") from None
    count = sum(source.checked_releases().values())
    # Without a note beside the replies nothing tells whether the ledger has been in another state folder since.
    newest = note is not None and witness is not None and witness.head == source.head and note.fits(witness)
    if releases is None and not newest:
        note_says = ""
        if witness is not None and witness.head == source.head:
            note_says = (
                f" (or {count}, if the node has always used {witness_path(source.id).parent}, and nobody has ever run "
                "'restore --releases': the second note there agrees)"
            )
        raise ConfigError(
            f"nothing here tells whether {source.path} is the newest; pass --releases N, the largest N of the lines "
            "'pausefl: charged release N of' with this ledger's name in your node's own log (not of lines that only "
            f"quote these words){note_says}, and do not take the server's word for it; if N is too small, the server "
            f"gets a second budget; {_SPENT}"
        )
    if releases is not None and releases != count:
        more = (
            f"put back a newer backup; {_SPENT}"
            if releases > count
            else "your number is too small, so look through all logs again, also older ones"
        )
        if releases == count - 1:
            more += f"; if none is missing, the node was ended before it could write its last line, so pass {count}"
        raise ConfigError(f"releases is {releases}, but {source.path} has {count}; {more}")
    return source.path != path and path.exists() and _is_damaged(path, source)


def _speaking_witness(ledger_id: str) -> NotedHead | None:
    """Return the note outside; refuse one that is there, but cannot tell whether a backup is the newest."""
    path = witness_path(ledger_id)
    todo = (
        "find N, the number of all releases, in your node's own log and not in the backup, move this file away, and "
        "run this again with --releases N"
    )
    try:
        witness = read_witness(ledger_id)
    except DamagedNoteError:
        raise ConfigError(f"the second note {path} is damaged, so it tells nothing; {todo}; {_SPENT}") from None
    if witness is not None and witness.is_void:
        *_, (last, place) = [(witness, str(path)), *notes_after(witness)]
        if last.is_void:
            raise ConfigError(
                f"the second note {place} was left behind when the ledger's note moved to {last.place}, where there is "
                f"none now; put that one back (is its disk mounted?), or if it is lost for good, {todo}; {_SPENT}"
            )
    return witness


def _is_damaged(path: Path, source: SqliteLedger) -> bool:
    """Whether the ledger in its place cannot be read for good; one that is ahead of the source is kept."""
    try:
        there = SqliteLedger(path)
    except DamagedLedgerError:
        return True
    if there.id != source.id or not source.contains(there.head):
        raise ConfigError(
            f"ledger {path} has {there.head.rows} rows, and some of them are not in {source.path}; keep it, and run "
            f"'pausefl ledger restore {path}' if a node refuses it"
        )
    return False


def _replace(path: Path, source: SqliteLedger, damaged: bool) -> None:
    """Put a copy of the source in the place of a ledger; what is damaged is set aside under a new name."""
    copy = path.with_name(f".{path.name}.restored")
    copy.unlink(missing_ok=True)
    SqliteLedger.restore(source.path, copy)
    aside = _free_name(path)
    journal = path.with_name(f"{path.name}-journal")
    if journal.exists():  # it belongs to the old file, and SQLite would roll the new one back with it
        journal.rename(aside.with_name(f"{aside.name}-journal"))
    if damaged:
        path.rename(aside)
    copy.replace(path)
    sync_folder(path.parent)


def _free_name(path: Path) -> Path:
    number = 1
    while any(os.path.lexists(f"{path}.damaged-{number}{end}") for end in ("", "-journal")):
        number += 1
    return path.with_name(f"{path.name}.damaged-{number}")

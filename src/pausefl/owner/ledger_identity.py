"""Whether a ledger is the one of its data: by its id, its place on the disk, and the heads noted of it."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.owner.kept_replies import replies_folder, send_no_more, writing_in
from pausefl.owner.made_ledgers import remember
from pausefl.owner.noted_heads import (
    NotedHead,
    node_lock,
    note_path,
    notes_elsewhere,
    noting,
    read_note,
    read_witness,
    seal_path,
    witness_path,
    write_notes,
)
from pausefl.owner.owner_file import Owner
from pausefl.owner.second_note_place import require_second_note_folder
from pausefl.privacy import SqliteLedger
from pausefl.privacy.ledger.charge import Charge
from pausefl.privacy.ledger.file_faults import only_a_backup
from pausefl.system.lock import only_writer
from pausefl.system.mounts import is_mount_point
from pausefl.system.private_file import require_private, require_private_folder


def make_ledger(path: Path) -> SqliteLedger:
    """Make the one ledger of some data, and the folder of its replies with a first note."""
    folder = replies_folder(path)
    if folder.exists():
        raise ConfigError(
            f"{folder} exists, so there was a ledger here before; put that ledger back, because a second one would be "
            "a second budget"
        )
    require_second_note_folder(path)
    ledger = SqliteLedger.create(path)
    folder.mkdir(mode=0o700)
    with noting(path, ledger.id):
        write_notes(ledger)
    return ledger


def open_ledger(owner: Owner, run: str) -> SqliteLedger:
    """Open the ledger that a run of this owner is charged in, or refuse; nothing is made but a simulated run's own."""
    path = owner.ledger_of(run)
    if owner.simulation:
        return _simulated(path)
    return _lasting(path, owner)


def check_newest(ledger: SqliteLedger) -> None:
    """Refuse a ledger that no client may charge, whoever its owner is: the line says what the client would log."""
    path, note = ledger.path, note_path(ledger.path)
    if ledger.simulation:
        raise ConfigError(f"ledger {path} was made for a simulation; use the ledger of this data")
    if ledger.is_backup:
        raise only_a_backup(path)
    require_one_place(path)
    require_second_note_folder(path)
    for folder in (path.parent, replies_folder(path)):
        if folder.exists():
            require_private_folder(folder, "folder")
    again = f"run 'pausefl ledger restore {shlex.quote(str(path))} --releases N', where N counts all releases"
    noted = read_note(path)
    if noted is None:
        raise ConfigError(f"ledger {path} has no head noted in {note.parent}; {again}")
    require_private(note, "noted head")
    noted.check(ledger)
    witness, place = read_witness(ledger.id), witness_path(ledger.id)
    for other, where in notes_elsewhere(noted, noted.ledger_id):
        other.check(ledger, f"in {where}")
    if witness is not None:
        witness.check(ledger, f"in {place}")
        if not noted.fits(witness):
            there = "which holds" if str(noted.place) == str(place) else f"but {place} holds"
            raise ConfigError(
                f"ledger {path} belongs to a second note that was last written to {noted.place}, {there} "
                f"another one now, so it may be an older copy; run this as the node's user and with the node's "
                f"XDG_STATE_HOME; if the first of these notes is lost, {again}"
            )
        if ledger.head.rows > witness.rows + 1:
            raise ConfigError(
                f"ledger {path} has {ledger.head.rows} rows, but the note in {place} counts {witness.rows}; a note "
                f"is never more than one row behind, so it is an older copy; {again}"
            )
    elif ledger.head.rows or str(noted.place) == os.path.realpath(place):
        # Without rows and with another place, it may be new, and handed over to this user with chown.
        raise ConfigError(
            f"ledger {path} has {ledger.head.rows} rows, but no head is noted in {place}, so it may be an older copy; "
            f"run this as the node's user, and mount the disk of the second note, if it has its own; if the second "
            f"note is lost, {again}"
        )
    if noted.inode != path.stat().st_ino:
        raise ConfigError(
            f"ledger {path} is a copy, or was put back without pausefl; use the original; if you moved the whole "
            f"folder here and nobody uses the old one, run 'pausefl ledger restore {shlex.quote(str(path))}'; if the "
            f"original is lost for good, {again}"
        )


def require_one_place(path: Path) -> None:
    """Refuse a file with two names: a journal lies beside one of them only, so a crash would undo a charge."""
    names, quoted = path.stat().st_nlink, shlex.quote(str(path))
    if names != 1:
        raise ConfigError(
            f"ledger {path} has {names} names (hard links), but must have one; find them with `find / -samefile "
            f"{quoted}` and remove the others"
        )
    if is_mount_point(path):
        raise ConfigError(
            f"ledger {path} is a mount point itself, but its journal must be beside it; mount the folder that holds it"
        )


def require_name(ledger: SqliteLedger, name: str) -> None:
    """Refuse a ledger in which the data has another name: under a second one it would have a second budget."""
    others = [one for one in ledger.checked_releases() if one != name]
    if others and not ledger.simulation:
        raise ConfigError(
            f"name is {name!r}, but ledger {ledger.path} belongs to {others[0]!r}; write name = {others[0]!r}"
        )


@contextlib.contextmanager
def charging(ledger: SqliteLedger) -> Iterator[None]:
    """Be the only one to charge this ledger; refuse if it is not the newest.  End with :func:`note_head`."""
    if ledger.simulation:
        yield
        return
    with noting(ledger.path, ledger.id), ledger.held_open():
        # Another client may have been killed between its charge and its note.  Our row would be the second without one.
        ledger.catch_up()
        check_newest(ledger)
        # The first charge by this user, of a ledger that has no rows yet; or one that was killed before it was noted.
        if read_witness(ledger.id) != NotedHead.of(ledger):
            write_notes(ledger)
        yield


def note_head(ledger: SqliteLedger) -> None:
    """Write down where the ledger ends now; refuse if what was charged is not in the file any more."""
    if not ledger.simulation:
        ledger.read_back()
        check_newest(ledger)
        write_notes(ledger)


def retire_for_ever(ledger: SqliteLedger, subject: str) -> Charge:
    """Spend all that the subject has left, and note it, so that no copy from before is ever charged again.

    Refused while a node runs: a finished reply may wait in it for as long as the server likes.  A training that goes on
    without a node, in Flower's own SuperNode, sends nothing.
    """
    if ledger.simulation:
        return ledger.retire(subject)
    if ledger.is_backup:
        raise only_a_backup(ledger.path)
    replies_folder(ledger.path).mkdir(mode=0o700, exist_ok=True)
    running = only_writer(node_lock(ledger.path), ledger.path, "stop the node first", doing="used")
    with running, noting(ledger.path, ledger.id):
        for noted in filter(None, (read_note(ledger.path), read_witness(ledger.id))):
            noted.check(ledger)
        try:
            spent = ledger.retire(subject)
        finally:  # also if it was retired before, and somebody was killed before that was noted
            ledger.verify()
            # Not if nothing was retired, because a disk was full: the notes would make an older copy the newest one.
            if ledger.checked_past(subject).retired is not None:
                send_no_more(replies_folder(ledger.path), subject)
                write_notes(ledger)
    return spent


def _lasting(path: Path, owner: Owner) -> SqliteLedger:
    seal = None
    with contextlib.suppress(ConfigError):  # there is no place for it: this is said below
        seal = seal_path(owner.ledger_id)
    ledger = SqliteLedger(path, seal=seal)
    if ledger.id != owner.ledger_id and not ledger.simulation:
        raise ConfigError(
            f"ledger {path} has the id {ledger.id}, but ledger_id is {owner.ledger_id}; put back the ledger with "
            "that ledger_id"
        )
    check_newest(ledger)
    require_name(ledger, owner.name)
    remember(ledger, owner.name, owner.records)  # also if the file was edited since it was made
    return ledger


def _simulated(path: Path) -> SqliteLedger:
    if not path.exists():
        folder = replies_folder(path)
        folder.mkdir(parents=True, exist_ok=True)
        # All clients of a run begin at once: one of them makes the ledger, and the others find it.
        with writing_in(folder):
            if not path.exists():
                SqliteLedger.create(path, simulation=True)
    ledger = SqliteLedger(path)
    if not ledger.simulation:
        raise ConfigError(f"ledger {path} was not made for a simulation; move it to another folder")
    return ledger

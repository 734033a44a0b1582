"""Where a ledger ended when it was last charged: noted beside its replies, and again in the user's state folder.

The second note is the witness.  It does not lie in the owner's folder, so it shows when an older copy of that whole
folder was put back, and when two copies of one ledger are in use.  Nothing is charged without it.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pausefl.errors import ConfigError, PauseError
from pausefl.owner.kept_replies import LOCK, replies_folder, writing_in
from pausefl.owner.owner_file import Owner
from pausefl.owner.second_note_place import cannot, folder_in_home, require_second_note_folder, second_note_folder
from pausefl.privacy import SqliteLedger
from pausefl.privacy.ledger.hash_chain import Head
from pausefl.system.lock import only_writer
from pausefl.system.private_file import make_private_folder, require_private
from pausefl.system.state_file import sync_folder, write_whole

_PATIENCE = 30.0
"""Seconds to wait for a client that uses another copy of the ledger."""
_LONGEST = 1 << 16
"""Letters of a note that are read at most."""
_VOID = ""
"""The mark of a second note that was left behind."""


class DamagedNoteError(ConfigError):
    """A note that can be read, but makes no sense."""


@dataclass(frozen=True, slots=True)
class NotedHead:
    """What was last known of a ledger: its id, where its chain ended, and the inode of its file.

    A ledger may be one row ahead of its note, because a client can be killed between the two.  It may never be behind
    it.  ``mark`` is the same random word in both notes, and another one after the second note has moved to ``place``:
    one that was left behind elsewhere, and knows nothing of later rows, does not vouch for an older copy.
    """

    ledger_id: str
    rows: int
    hash: str
    inode: int
    mark: str = field(compare=False)
    place: str = field(compare=False)

    @staticmethod
    def of(ledger: SqliteLedger, mark: str = "") -> NotedHead:
        """Return the note that fits this ledger as it is now."""
        place = os.path.realpath(witness_path(ledger.id))
        return NotedHead(ledger.id, ledger.head.rows, ledger.head.hash, ledger.path.stat().st_ino, mark, place)

    def fits(self, other: NotedHead) -> bool:
        """Whether both are notes of one pair."""
        return self.mark == other.mark and not self.is_void

    @property
    def is_void(self) -> bool:
        """Whether this is a second note that was left behind, and knows nothing of what was charged since."""
        return self.mark == _VOID

    @property
    def head(self) -> Head:
        """Where the chain ended."""
        return Head(self.rows, self.hash)

    def check(self, ledger: SqliteLedger, where: str = "beside its replies") -> None:
        """Refuse a ledger that is another one, or has forgotten something."""
        if self.ledger_id != ledger.id:
            raise ConfigError(
                f"ledger {ledger.path} has the id {ledger.id}, but the one noted {where} is {self.ledger_id}; put back "
                "the ledger with the noted id"
            )
        if not ledger.contains(self.head):
            ledger.verify()  # another client may have charged and noted since it was opened
        if not ledger.contains(self.head):
            raise ConfigError(
                f"ledger {ledger.path} has {ledger.head.rows} rows, but not the head of row {self.rows} that is noted "
                f"{where}, so it misses a release or the retirement; find its newest backup, and put that back with "
                "'pausefl ledger restore'"
            )


def note_path(ledger: Path) -> Path:
    """Return the file of the note beside the replies of a ledger."""
    return replies_folder(ledger) / "head"


def witness_path(ledger_id: str) -> Path:
    """Return the file of the note outside the owner's folder."""
    return second_note_folder() / ledger_id


def seal_path(ledger_id: str) -> Path:
    """Return the file that says which rows of a ledger were checked: not in the owner's folder either."""
    return second_note_folder() / f"{ledger_id}.seal"


def node_lock(ledger: Path) -> Path:
    """Return the file that a running node locks: two nodes would train on the same records at the same time."""
    return replies_folder(ledger) / "node.lock"


def ledger_files(owner: Owner) -> list[Path]:
    """Return the ledger of a deployment, its notes and seal, and the locks: whoever holds a lock can stop the gate."""
    note, witness = note_path(owner.ledger), witness_path(owner.ledger_id)
    locks = [note.with_name(LOCK), _lock_of(witness), node_lock(owner.ledger)]
    return [owner.ledger, note, witness, *locks, seal_path(owner.ledger_id)]


def _lock_of(witness: Path) -> Path:
    return witness.with_name(f"{witness.name}.lock")


def read_note(ledger: Path) -> NotedHead | None:
    """Return what is noted beside the replies of a ledger; None if nothing is."""
    path = note_path(ledger)
    try:
        return _read(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); run this as the user who owns it") from None


def read_witness(ledger_id: str) -> NotedHead | None:
    """Return what is noted outside; None only if nothing is there, as on another machine or for another user."""
    path = witness_path(ledger_id)
    try:
        found = _read(path)
        if found is not None:
            require_private(path, "second note")
    except PauseError:
        raise
    except OSError as error:
        raise cannot("read", path, error) from None
    return found


def notes_after(witness: NotedHead) -> Iterator[tuple[NotedHead, str]]:
    """Yield what was noted instead of a second note that is void, and where, as far as this user can read it."""
    seen: set[str] = set()
    while witness.is_void and witness.place not in seen:
        seen.add(place := witness.place)
        with suppress(OSError, DamagedNoteError):
            found = _read(Path(place))
            if found is not None and found.ledger_id == witness.ledger_id:
                witness = found
                yield found, place


def _place_before(note: NotedHead | None, ledger_id: str) -> Path | None:
    """Return where a second note may have been left behind: where a note says so; without one, in the home."""
    if note is not None:
        return Path(note.place)
    folder = folder_in_home()
    return None if folder is None else folder / ledger_id


def notes_elsewhere(note: NotedHead | None, ledger_id: str) -> Iterator[tuple[NotedHead, str]]:
    """Yield what lies where a second note was before, as far as this user can read it.

    It may not be where this process would look, and may know of releases that a copy of the ledger has forgotten.
    """
    place = _place_before(note, ledger_id)
    if place is not None:
        with suppress(OSError, DamagedNoteError):
            found = _read(place)
            if found is not None and found.ledger_id == ledger_id:
                yield found, str(place)
                yield from notes_after(found)


@contextmanager
def noting(ledger: Path, ledger_id: str) -> Iterator[None]:
    """Be the only one that charges this ledger or a copy of it, puts one back, or notes where it ends."""
    folder = require_second_note_folder(ledger)
    try:
        make_private_folder(folder)
    except OSError as error:
        raise cannot("written", folder, error) from None
    with (
        writing_in(replies_folder(ledger)),
        only_writer(_lock_of(folder / ledger_id), folder / ledger_id, "end that process", wait=_PATIENCE),
    ):
        yield


def write_notes(ledger: SqliteLedger) -> None:
    """Write both notes of this ledger, whatever was noted before; for whoever is the only one that does.

    Where the two were no pair, they get a new mark, and a second note of before that lies elsewhere is made void.  That
    comes first, and the note beside the replies last: whoever is killed in between has to do it again.
    """
    old, here = readable_note(lambda: read_note(ledger.path)), readable_note(lambda: read_witness(ledger.id))
    paired = old is not None and here is not None and old.fits(here)
    note = NotedHead.of(ledger, old.mark if paired and old else secrets.token_hex(16))
    witness = witness_path(ledger.id)
    before = _place_before(old, ledger.id)
    if before is not None and str(before) != note.place:
        _make_void(before, note)
    try:
        _write(witness, _text(note))
    except OSError as error:
        raise cannot("written", witness, error) from None
    _write(note_path(ledger.path), _text(note))


def _make_void(place: Path, note: NotedHead) -> None:
    """Make a second note void that was left behind: it would vouch for older copies."""
    try:
        left = _read(place)
        mine = left is not None and place.stat().st_uid == os.geteuid() and not _is_one_file(place, Path(note.place))
    except (OSError, DamagedNoteError):
        return  # of another user or machine, or none
    if left is None or not mine or (place.name, left.ledger_id) != (note.ledger_id, note.ledger_id):
        return
    try:
        _write(place, _text(replace(left, mark=_VOID, place=note.place)))
    except OSError as error:
        raise ConfigError(
            f"the second note in {place} is left behind and cannot be made void ({error.strerror}); let it be written, "
            "or remove it, and run this again"
        ) from None


def _is_one_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file; one that is not there is none."""
    with suppress(OSError):
        return one.samefile(other)
    return False


def readable_note(read: Callable[[], NotedHead | None]) -> NotedHead | None:
    """Return a note; a damaged one is as good as none, but one that cannot be read may tell of more releases."""
    try:
        return read()
    except DamagedNoteError:
        return None


def _read(path: Path) -> NotedHead | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")  # to read a pipe, say, would take for ever
        with path.open(encoding="utf-8") as file:
            note = NotedHead(**json.loads(file.read(_LONGEST)))
        if [type(getattr(note, name)) for name in note.__slots__] != [str, int, str, int, str, str]:
            raise TypeError
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError):
        raise DamagedNoteError(
            f"{path} is damaged; move it away, and run 'pausefl ledger restore LEDGER --releases N' to write it again"
        ) from None
    return note


def _text(note: NotedHead) -> str:
    return json.dumps(asdict(note)) + "\n"


def _write(path: Path, text: str) -> None:
    write_whole(path, text)
    path.chmod(0o600)
    sync_folder(path.parent)

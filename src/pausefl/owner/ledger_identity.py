"""Whether a ledger is the one of its data: by its id, its place on the disk, and the head noted beside the replies."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pausefl.errors import ConfigError, LedgerError
from pausefl.owner.kept_replies import replies_folder, writing_in
from pausefl.owner.owner_file import Owner
from pausefl.privacy import SqliteLedger
from pausefl.privacy.ledger.hash_chain import Head
from pausefl.system.private_file import require_private, require_private_folder
from pausefl.system.state_file import sync_folder, write_whole

_NOTE = "head"


@dataclass(frozen=True, slots=True)
class NotedHead:
    """What was last known of a ledger: its id, where its chain ended, and the inode of its file.

    A ledger may be ahead of its note, because a client can be killed between the two.  It may never be behind it.
    """

    ledger_id: str
    rows: int
    hash: str
    inode: int

    @staticmethod
    def of(ledger: SqliteLedger) -> NotedHead:
        """Return the note that fits this ledger as it is now."""
        return NotedHead(ledger.id, ledger.head.rows, ledger.head.hash, ledger.path.stat().st_ino)

    def check(self, ledger: SqliteLedger) -> None:
        """Refuse a ledger that is another one, or has forgotten something."""
        if self.ledger_id != ledger.id:
            raise ConfigError(
                f"ledger {ledger.path} has the id {ledger.id}, but the one noted beside its replies is "
                f"{self.ledger_id}; put back the ledger that belongs here"
            )
        if not ledger.contains(Head(self.rows, self.hash)):
            raise ConfigError(
                f"ledger {ledger.path} has {ledger.head.rows} rows without the head of row {self.rows} that is noted "
                "beside its replies: it has forgotten a release; put back the newest with 'pausefl ledger restore'"
            )


def make_ledger(path: Path) -> SqliteLedger:
    """Make the one ledger of some data, and the folder of its replies with a first note."""
    folder = replies_folder(path)
    if folder.exists():
        raise ConfigError(f"{folder} exists, so there was a ledger here before; put that one back, or name another")
    ledger = SqliteLedger.create(path)
    folder.mkdir(mode=0o700)
    write_note(ledger)
    return ledger


def open_ledger(owner: Owner, run: str) -> SqliteLedger:
    """Open the ledger that a run of this owner is charged in, or refuse; nothing is made but a simulated run's own."""
    path = owner.ledger_of(run)
    if owner.simulation:
        return _simulated(path)
    ledger = _lasting(path, owner)
    for folder in (path.parent, replies_folder(path)):
        require_private_folder(folder, "folder")
    return ledger


def note_head(ledger: SqliteLedger) -> None:
    """Write down where the ledger ends now, unless another client has noted a later head already."""
    folder = replies_folder(ledger.path)
    with writing_in(folder):
        known = read_note(ledger.path)
        if known is None or known.rows < ledger.head.rows:
            write_note(ledger)


def write_note(ledger: SqliteLedger) -> None:
    """Write the note of this ledger, whatever was noted before; for whoever holds the lock of its replies."""
    folder = replies_folder(ledger.path)
    write_whole(folder / _NOTE, json.dumps(asdict(NotedHead.of(ledger))) + "\n")
    (folder / _NOTE).chmod(0o600)
    sync_folder(folder)


def read_note(ledger: Path) -> NotedHead | None:
    """Return what is noted beside the replies of a ledger; None if nothing is."""
    path = replies_folder(ledger) / _NOTE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        note = NotedHead(**values)
        if [type(value) for value in asdict(note).values()] != [str, int, str, int]:
            raise TypeError
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        raise ConfigError(f"{path} cannot be read; put it back with 'pausefl ledger restore {ledger}'") from None
    return note


def _lasting(path: Path, owner: Owner) -> SqliteLedger:
    noted = read_note(path)  # before the ledger is read: another process may be at work
    ledger = SqliteLedger(path)
    if ledger.simulation:
        raise ConfigError(f"ledger {path} was made for a simulation; name the ledger of this data")
    if ledger.id != owner.ledger_id:
        raise ConfigError(
            f"ledger {path} has the id {ledger.id}, but ledger_id is {owner.ledger_id}; put back the ledger that "
            "belongs here"
        )
    if noted is None:
        raise ConfigError(
            f"ledger {path} has no head noted in {replies_folder(path)}; run 'pausefl ledger restore {path} --head "
            "HASH' with a head that you noted elsewhere"
        )
    require_private(replies_folder(path) / _NOTE, "noted head")
    noted.check(ledger)
    if noted.inode != path.stat().st_ino:
        raise ConfigError(
            f"ledger {path} is a copy, or was put back by other means; if the old one is gone for good, run "
            f"'pausefl ledger restore {path}'"
        )
    others = [name for name in ledger.checked_releases() if name != owner.name]
    if others:
        raise ConfigError(f"name is {owner.name!r}, but ledger {path} belongs to {others[0]!r}; data keeps its name")
    return ledger


def _simulated(path: Path) -> SqliteLedger:
    if not path.exists():
        replies_folder(path).mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(LedgerError):  # another client of the run was faster
            SqliteLedger.create(path, simulation=True)
    ledger = SqliteLedger(path)
    if not ledger.simulation:
        raise ConfigError(f"ledger {path} was not made for a simulation; remove it from this folder")
    return ledger

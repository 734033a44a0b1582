"""A data owner's first step: a folder with the owner's file, the one ledger of the data, and its first note."""

from __future__ import annotations

import errno
import fcntl
import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Literal

from pausefl.errors import BudgetExceededError, ConfigError, PauseError, is_finite, require
from pausefl.owner.data_records import count_records
from pausefl.owner.kept_replies import replies_folder
from pausefl.owner.ledger_identity import make_ledger
from pausefl.owner.made_ledgers import remember
from pausefl.owner.noted_heads import NotedHead, noting, read_note, read_witness, write_notes
from pausefl.owner.owner_file import Owner, owner_of, read_owner
from pausefl.owner.second_note_place import require_second_note_folder
from pausefl.privacy import SqliteLedger
from pausefl.privacy.ledger.price import release_price
from pausefl.system.private_file import make_private_folder, require_private_folder, write_private
from pausefl.system.state_file import sync_folder
from pausefl.system.toml_sections import toml_text

FILE, LEDGER = "owner.toml", "ledger.db"

_TEXT = """\
# The terms on which this data takes part in federated learning.  Only you can change them: no server can.
# "pausefl owner check FILE" tells you what they mean, and what is left of the budget.

{name}  # the name by which the server knows this data, for life
ledger = "{ledger}"  # the record of all releases so far; it is beside this file
ledger_id = "{id}"  # the id of that ledger; any other is refused

[schedule]  # how much may leave in the whole life of this data; fixed by the first release
kind = "fixed-horizon"
{budget}  # epsilon of all releases together: the smaller, the stronger the promise
releases = {releases}  # how many times you may take part; every release has the same share

{mechanism}
{data}
[replies]
{examples}
keep = 2  # how many replies to keep on this disk, so that they can be sent again
"""

_SIMULATION = """\
# Terms for simulated clients, one file for all of them.  They protect nothing, and a deployment refuses them: there
# every data owner makes a file of its own with "pausefl owner init".
simulation = true
{name}  # {{…}} is a value of the simulated node's configuration

[schedule]  # how a budget is spread over releases; every run begins anew, with a ledger in the folder "simulated"
kind = "fixed-horizon"
{budget}  # epsilon of all releases together: the smaller, the stronger the promise
releases = {releases}  # how many times each client may take part; every release has the same share

{mechanism}
{data}
[replies]
{examples}
"""
SIMULATED_NAME = "client-{partition-id}"

_UPDATE = """\
[mechanism]  # how an update is bounded and noised before it leaves
kind = "privunit"  # a promise about the whole update, not about each of its numbers alone
{clip}  # the length that every update is brought to
batch_norm = "refuse"  # or "keep-local": statistics of batch norms stay here; or "noise": they leave noised"""
_ANY_NUMBER = "examples = 1  # the number of examples that you tell every server, whatever the true one is"

_RECORD = """\
[mechanism]  # how the contribution of each record is bounded, and their sum noised, before it leaves
kind = "gaussian"
unit = "record"  # a promise about each single record: up to the budget, nobody can tell it from another in its place
{clip}  # the length that no record's contribution exceeds
{delta}  # the allowance on top of epsilon, for all releases together; fixed by the first release"""
_RECORDS = "examples = {records}  # how many records you have at most; every server is told this number"

_DATA = """
[records]  # pausefl cuts your data into records, and the app gets one at a time: it cannot mix two of them
{path}  # a file with a record in each line, or a folder with a record in each file
"""

_BUDGET, _RELEASES = {"update": 8.0, "record": 1.0}, {"update": 8, "record": 20}
"""What an owner gets who says nothing: a moderate promise about the whole update, or a strong one about each record."""
_DELTA = 1e-6


def init_owner(
    folder: Path, name: str, *, unit: Literal["update", "record"] | None = None, records: int | None = None,
    records_from: Path | None = None, budget: float | None = None, releases: int | None = None, clip: float = 1.0,
    delta: float | None = None,
) -> Owner:  # fmt: skip
    """Make file and ledger for data that never took part before; nothing is overwritten, and links are refused.

    Who says how many ``records`` there are, or the file or folder that they are cut ``records_from``, gets terms that
    protect each of them.  Who does not gets terms that protect the whole update.  ``delta`` is for records only.

    The owner's file comes last.  Whatever stops this before leaves nothing that could release anything, and the same
    call finishes it.
    """
    terms = _terms(name, unit, records, records_from, budget, releases, clip, delta)
    _check_terms(folder, name, terms(id="0" * 32))  # before anything is made
    require_second_note_folder(folder / LEDGER)
    try:
        make_private_folder(folder)
        require_private_folder(folder, "folder")
        with _alone_in(folder):
            ledger = _ledger(folder)
            remember(ledger, name, records_from and records_from.expanduser())
            write_private(folder / FILE, terms(id=ledger.id))
        sync_folder(folder.absolute().parent)
    except PauseError:
        raise
    except OSError as error:
        todo = "free space on its disk" if error.errno == errno.ENOSPC else "let it be a folder that you may write to"
        raise ConfigError(
            f"{folder} cannot be written ({error.strerror}); {todo}, and run the same command again"
        ) from None
    return read_owner(folder / FILE, {})


def init_simulation(
    folder: Path, name: str = SIMULATED_NAME, *, unit: Literal["update", "record"] | None = None,
    records: int | None = None, records_from: Path | None = None, budget: float | None = None,
    releases: int | None = None, clip: float = 1.0, delta: float | None = None,
) -> Owner:  # fmt: skip
    """Make the one file that all clients of a simulation share; it has no ledger yet, because every run makes one."""
    text = _terms(name, unit, records, records_from, budget, releases, clip, delta, _SIMULATION)()
    _check_terms(folder, name, text)
    path = folder / FILE
    if os.path.lexists(path):
        raise ConfigError(f"{path} exists, and pausefl does not overwrite it; pass another folder")
    try:
        make_private_folder(folder)
        write_private(path, text)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written ({error.strerror}); pass a folder that you may write to"
        ) from None
    return read_owner(path)


def owner_beside(ledger: SqliteLedger) -> Owner | None:
    """Return whose ledger this is, by the owner's file beside it; None if no file there quotes this ledger."""
    try:
        owner = read_owner(ledger.path.with_name(FILE), {})
    except (PauseError, OSError):
        return None
    return owner if owner.ledger_id == ledger.id else None


def _check_terms(folder: Path, name: str, text: str) -> None:
    """Refuse terms under which not one release could be made."""
    terms = owner_of(tomllib.loads(text), folder)
    try:
        release_price(terms.schedule, 1, terms.mechanism, (), 0.0, name)
    except BudgetExceededError:
        budget, releases = terms.schedule.budget, terms.schedule.limit or 1
        raise ConfigError(
            f"budget is {budget:g} for {releases} releases, which leaves each of them less than epsilon "
            f"{terms.mechanism.least_epsilon:g}, the least for {terms.mechanism.name}; raise the budget, or make fewer "
            "releases"
        ) from None


def _ledger(folder: Path) -> SqliteLedger:
    """Make the ledger and its first note, or take up those of a call that was stopped before it wrote its file."""
    file, path = folder / FILE, folder / LEDGER
    replies = replies_folder(path)
    if os.path.lexists(file):
        raise _exists(
            file, f"if it belongs to this data, read what it says with: pausefl owner check {quote(str(file))}"
        )
    if not os.path.lexists(path):
        if os.path.lexists(replies):
            raise _exists(replies, "put back the ledger that was here, as 'pausefl ledger restore --help' says")
        return make_ledger(path)
    if path.is_symlink() or replies.is_symlink() or (replies.exists() and not replies.is_dir()):
        raise _exists(path, f"put back the {FILE} that belongs to it")
    try:
        ledger = SqliteLedger(path)
    except PauseError:
        raise _exists(path, "it is not a new ledger, so put back the files that belong here") from None
    if ledger.head.rows or ledger.simulation or ledger.is_backup:
        raise _exists(path, f"put back the {FILE} that belongs to it")
    replies.mkdir(mode=0o700, exist_ok=True)
    with noting(ledger.path, ledger.id):
        new, note, witness = NotedHead.of(ledger), read_note(ledger.path), read_witness(ledger.id)
        strange = witness is not None and (witness.is_void or (note is not None and not note.fits(witness)))
        if strange or note not in (None, new) or witness not in (None, new):
            raise _exists(path, "it is an older copy, or it was moved, so put back the files that belong here")
        write_notes(ledger)
    return ledger


def _exists(path: Path, todo: str) -> ConfigError:
    return ConfigError(
        f"{path} exists, and a second ledger would be a second budget; {todo}; other data needs a folder of its own"
    )


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Be the only one that fills the folder; the lock goes with the process, and leaves no file behind."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _terms(
    name: str, unit: str | None, records: int | None, records_from: Path | None, budget: float | None,
    releases: int | None, clip: float, delta: float | None, form: str = _TEXT,
) -> Callable[..., str]:  # fmt: skip
    """Return what makes the owner's file of the ``id`` of its ledger; that of a simulation has none."""
    if records_from is not None:
        records_from = records_from.expanduser().absolute()
        count, given = count_records(records_from), records
        records = count if given is None else given
        require(
            count <= records,
            "records",
            records,
            f"at least {count}, as {records_from} has",
            "leave it out, or raise it",
        )
    unit = unit or ("update" if records is None else "record")
    require(
        unit in _BUDGET,
        "unit",
        unit,
        "'update' or 'record'",
        "'record' protects each record, 'update' the whole update",
    )
    if unit == "record":
        if records is None:
            raise ConfigError("the records are missing; pass --records-from PATH to protect each of them")
    else:
        for what, value in (("records", records), ("records_from", records_from), ("delta", delta)):
            require(
                value is None,
                what,
                value,
                f"left out where the unit is {unit!r}",
                "leave it out, or set unit to 'record'",
            )
    budget = _BUDGET[unit] if budget is None else budget
    fine = is_finite(budget) and budget > 0.0
    require(fine, "budget", budget, "a finite number above 0", "1 is a strong promise, 8 a weak one")
    mechanism, examples = (_RECORD, _RECORDS) if unit == "record" else (_UPDATE, _ANY_NUMBER)
    return partial(
        form.format, name=toml_text({"name": name}).rstrip("\n"), ledger=LEDGER,
        budget=f"budget = {float(budget)!r}", releases=_RELEASES[unit] if releases is None else releases,
        mechanism=mechanism.format(
            clip=f"l2 = {float(clip)!r}", delta=f"delta = {_DELTA if delta is None else float(delta)!r}"
        ),
        data=_DATA.format(path=toml_text({"path": str(records_from)}).rstrip("\n")) if records_from else "",
        examples=examples.format(records=records),
    )  # fmt: skip

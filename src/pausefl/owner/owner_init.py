"""A data owner's first step: a folder with the owner's file, the one ledger of the data, and its first note."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.owner.kept_replies import replies_folder
from pausefl.owner.ledger_identity import make_ledger
from pausefl.owner.owner_file import Owner, owner_of, read_owner
from pausefl.privacy.ledger.charge import charged_epsilon
from pausefl.system.private_file import require_private
from pausefl.system.state_file import sync_folder
from pausefl.system.toml_sections import toml_text

FILE, LEDGER = "owner.toml", "ledger.db"

_TEXT = """\
# The terms on which this data takes part in federated learning.  Only you can change them: no server can.
# "pausefl owner check FILE" tells you what they mean, and what is left of the budget.

{name}  # how the server knows you; data keeps its name for life
ledger = "{ledger}"  # beside this file: what has left so far
ledger_id = "{id}"  # the id of that ledger; any other is refused

[schedule]  # how much may leave in the whole life of this data; fixed by the first release
kind = "fixed-horizon"
{budget}  # epsilon of all releases together: the smaller, the stronger the promise
releases = {releases}  # how often you take part at most; every release has the same share

[mechanism]  # how an update is bounded and noised before it leaves
kind = "privunit"  # a promise about the whole update, not about each of its numbers alone
{clip}  # the length that every update is brought to
batch_norm = "refuse"  # or "keep-local": statistics of batch norms stay here; or "noise": they leave noised

[replies]
examples = 1  # what you tell as your number of examples, whatever the true one is
keep = 2  # replies kept on this disk, to be sent again if they are asked for again
"""


def init_owner(folder: Path, name: str, *, budget: float = 8.0, releases: int = 8, clip: float = 1.0) -> Owner:
    """Make file and ledger for data that never took part before; nothing is overwritten, and links are refused."""
    text = _text(name, "0" * 32, budget, releases, clip)
    terms = owner_of(tomllib.loads(text), folder, {})  # before anything is made
    charged_epsilon(terms.schedule, 1, terms.mechanism, (), name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_private(folder, "folder")
    file, ledger = folder / FILE, folder / LEDGER
    for path in (file, ledger, replies_folder(ledger)):
        if os.path.lexists(path):
            raise ConfigError(f"{path} exists, and a second ledger would be a second budget; name another folder")
    made = make_ledger(ledger)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(_text(name, made.id, budget, releases, clip))
        opened.flush()
        os.fsync(opened.fileno())
    sync_folder(folder)
    return read_owner(file, {})


def _text(name: str, ledger_id: str, budget: float, releases: int, clip: float) -> str:
    return _TEXT.format(
        name=toml_text({"name": name}).rstrip("\n"), ledger=LEDGER, id=ledger_id,
        budget=f"budget = {float(budget)!r}", releases=releases, clip=f"l2 = {float(clip)!r}",
    )  # fmt: skip

"""Ways in which the same data once got a second lifetime budget: all are refused, nothing is charged anywhere."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message, RecordDict

from pausefl.flower import PrivateUpdate
from pausefl.flower.protocol import Note, Refusal
from pausefl.owner.ledger_identity import make_ledger
from pausefl.owner.noted_heads import read_note
from pausefl.privacy import SqliteLedger


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What reaches Flower's log, a line each."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    monkeypatch.setattr(logging.getLogger("flwr"), "handlers", [handler])
    yield lines


def sent(tools: Any, file: Path, number: int) -> Message:
    """Send a training request to the owner's file, as a SuperNode that names it does."""
    config = {"partition-id": 0, "pausefl-owner": str(file)}
    context = Context(run_id=1, node_id=5, node_config=config, state=RecordDict(), run_config={})
    return PrivateUpdate()(tools.request(round=number), context, tools.trained)


def rows_below(folder: Path) -> int:
    """How many charges all ledgers below a folder hold, read past all checks."""
    found = 0
    for path in folder.rglob("*.db"):
        if path.is_file():
            with sqlite3.connect(path) as connection:
                found += connection.execute("SELECT count(*) FROM charges").fetchone()[0]
            connection.close()
    return found


def refused(tools: Any, told: list[str], folder: Path, file: Path, said: str) -> None:
    before = rows_below(folder)
    told.clear()
    for number in (2, 3):
        reply = sent(tools, file, number)
        assert reply.has_error()
        assert Refusal.of(reply.error) == Refusal("unready")
    assert rows_below(folder) == before
    assert len(told) == 2 and told[0] == told[1]
    assert said in told[0] and "\n" not in told[0], told[0]


def test_a_link_to_the_file_from_another_folder_leads_to_the_same_ledger(client, tools, told, tmp_path):
    client.ask(round=1)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "owner.toml").symlink_to(client.folder / "owner.toml")
    assert Note.of(sent(tools, tmp_path / "elsewhere" / "owner.toml", 2)).releases == 2
    assert [path.name for path in tmp_path.rglob("*.db")] == ["ledger.db"]


def test_a_file_without_its_ledger_is_refused_wherever_it_lies(client, tools, told, tmp_path):
    client.ask(round=1)
    (tmp_path / "copy").mkdir()
    shutil.copy(client.folder / "owner.toml", tmp_path / "copy")
    refused(tools, told, tmp_path, tmp_path / "copy" / "owner.toml", "there is no such file")
    assert not (tmp_path / "copy" / "ledger.db").exists()


def test_a_volume_that_is_not_mounted_gives_no_new_budget(client, tools, told, tmp_path):
    """The ledger lies on a volume; without it the mount point is an empty folder."""
    volume = tmp_path / "volume"
    volume.mkdir()
    made = make_ledger(volume / "ledger.db")
    client.write(f'ledger = "volume/ledger.db"\nledger_id = "{made.id}"\n{tools.OWNER}'.replace("{partition-id}", "0"))
    assert client.ask(round=1).has_content()
    volume.rename(tmp_path / "unmounted")
    volume.mkdir()
    refused(tools, told, tmp_path, client.folder / "owner.toml", "there is no such file")
    assert list(volume.iterdir()) == []


@pytest.mark.parametrize("name", ["client-{", "client-}", "client-{partition-id}", "client-{{0}}"])
def test_braces_in_the_name_of_a_deployment_are_refused(client, tools, told, tmp_path, name):
    client.ask(round=1)
    file = client.folder / "owner.toml"
    file.write_text(file.read_text().replace("client-0", name))
    refused(tools, told, tmp_path, file, "braces are for files with simulation = true")


@pytest.mark.parametrize("keep", [0, 2])
def test_an_older_copy_of_the_ledger_is_refused_also_without_kept_replies(client, tools, told, tmp_path, keep):
    client.write(tools.OWNER + f"keep = {keep}\n")
    client.ask(round=1)
    older = (client.folder / "ledger.db").read_bytes()
    client.ask(round=7)
    (client.folder / "ledger.db").write_bytes(older)  # in place: the inode stays
    refused(tools, told, tmp_path, client.folder / "owner.toml", "so it misses a release")


def test_rows_cut_at_the_end_with_the_head_moved_are_missed(client, tools, told, tmp_path):
    """The chain is whole, and the ledger alone cannot tell."""
    client.ask(round=1)
    client.ask(round=7)
    with sqlite3.connect(client.folder / "ledger.db") as connection:
        connection.execute("DROP TRIGGER no_delete")
        connection.execute("DELETE FROM charges WHERE seq = 2")
        connection.execute("UPDATE head SET rows = 1, hash = (SELECT hash FROM charges WHERE seq = 1)")
        connection.execute(
            "CREATE TRIGGER no_delete BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); "
            "END"
        )
    connection.close()
    assert SqliteLedger(client.folder / "ledger.db").verify().rows == 1
    refused(tools, told, tmp_path, client.folder / "owner.toml", "so it misses a release")


def test_a_copy_of_the_whole_folder_is_refused_and_the_original_goes_on(tools, told, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    client = tools.Client(home)
    client.write(tools.OWNER)
    client.ask(round=1)
    shutil.copytree(home, tmp_path / "copy")
    refused(tools, told, tmp_path, tmp_path / "copy" / "owner.toml", "is a copy, or was put back without pausefl")
    assert client.ask(round=2).has_content()


def test_a_new_ledger_in_the_old_ones_place_is_refused(client, tools, told, tmp_path):
    client.ask(round=1)
    (client.folder / "ledger.db").unlink()
    SqliteLedger.create(client.folder / "ledger.db")
    refused(tools, told, tmp_path, client.folder / "owner.toml", "but ledger_id is")
    # Even a file that quotes the new one does not help: the note beside the replies tells of the old one.
    file = client.folder / "owner.toml"
    file.write_text(file.read_text().replace(file.read_text()[13:45], SqliteLedger(client.folder / "ledger.db").id))
    refused(tools, told, tmp_path, file, "noted beside its replies is")


@pytest.mark.parametrize("what", ["removed", "emptied", "another folder"])
def test_without_the_noted_head_nothing_is_answered(client, tools, told, tmp_path, what):
    client.ask(round=1)
    replies = client.folder / "ledger.db-replies"
    if what == "removed":
        (replies / "head").unlink()
    elif what == "emptied":
        (replies / "head").write_text("")
    else:
        shutil.rmtree(replies)
        replies.mkdir(mode=0o700)
    refused(tools, told, tmp_path, client.folder / "owner.toml", "pausefl ledger restore")


@pytest.mark.parametrize("name", ["owner.toml", "ledger.db", "ledger.db-replies/head"])
def test_a_file_that_others_may_write_is_refused_with_the_command_that_mends_it(client, tools, told, tmp_path, name):
    client.ask(round=1)
    (client.folder / name).chmod(0o666)
    refused(tools, told, tmp_path, client.folder / "owner.toml", f"chmod go-w {client.folder / name}")


def test_the_head_is_noted_before_training_and_only_ever_grows(client, tools):
    seen = []

    def app(msg: Message, context: Context) -> Message:
        seen.append(read_note(client.folder / "ledger.db"))
        return tools.trained(msg, context)

    client.app = app
    for number in (1, 2, 3):
        client.ask(round=number)
    assert [note.rows for note in seen] == [1, 2, 3]
    assert seen[-1].hash == client.ledger.head.hash
    client.ask(round=3)  # a kept reply: nothing new to note
    assert read_note(client.folder / "ledger.db") == seen[-1]


def test_a_ledger_ahead_of_its_note_is_fine(client):
    """A client that was killed between its charge and its note."""
    client.ask(round=1)
    note = (client.folder / "ledger.db-replies" / "head").read_bytes()
    client.ask(round=2)
    (client.folder / "ledger.db-replies" / "head").write_bytes(note)
    assert Note.of(client.ask(round=3)).releases == 3
    assert read_note(client.folder / "ledger.db").rows == 3


CHILD = """
import os, signal, sys
from pathlib import Path
import numpy as np
from pausefl.owner import gate, kept_replies
from pausefl.owner.owner_file import read_owner
from pausefl.owner.request_and_reply import TrainingRequest
owner = read_owner(Path(sys.argv[1]))
kept_replies.os.link = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)  # before the reply has its name
gate.note_head = lambda ledger: None
gate.Gate(owner, "run").train(TrainingRequest("run", 1), {"w": np.ones(50)}, lambda: ({"w": np.ones(50)}, {}))
"""


def test_what_a_killed_client_left_half_written_is_removed(client):
    words = [sys.executable, "-c", CHILD, str(client.folder / "owner.toml")]
    assert subprocess.run(words, check=False, env=dict(os.environ)).returncode == -signal.SIGKILL
    replies = client.folder / "ledger.db-replies"
    assert len(list(replies.glob(".*"))) == 1
    assert client.charges == 1
    assert client.ask(round=2).has_content()
    assert sorted(path.suffix or path.name for path in replies.iterdir()) == [".reply", "head", "lock"]

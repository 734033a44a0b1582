"""Files that others could change are refused, with the very command that mends them."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from pausefl.errors import NotPrivateError
from pausefl.system.private_file import require_private, require_private_folder, require_readable


@pytest.fixture
def file(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir(mode=0o700)
    made = folder / "owner's file.toml"
    made.touch(mode=0o600)
    return made


def test_a_file_is_refused_if_and_only_if_others_may_write_it(file):
    for mode in range(0o1000):
        file.chmod(mode)
        if mode & 0o022 == 0:
            require_private(file, "file")
            continue
        with pytest.raises(NotPrivateError, match="owner's file") as refused:
            require_private(file, "file")
        mend(str(refused.value))
        require_private(file, "file")
        assert file.stat().st_mode & 0o777 == mode & ~0o022


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o770, 0o775, 0o777, 0o757, 0o702, 0o1777, 0o1757])
def test_a_folder_is_refused_if_everybody_may_rename_what_is_in_it(file, mode):
    file.parent.chmod(mode)
    if not mode & 0o002 or mode & 0o1000:
        require_private(file, "file")
        return
    with pytest.raises(NotPrivateError, match="can be replaced by every user") as refused:
        require_private(file, "file")
    mend(str(refused.value))
    require_private(file, "file")


@pytest.mark.parametrize("mode", [0o755, 0o1777, 0o777])
def test_a_folder_above_in_which_everybody_may_rename_is_refused(file, tmp_path, mode):
    """Somebody could exchange the whole folder for another one of the same user."""
    tmp_path.chmod(mode)
    for check in (lambda: require_private(file, "file"), lambda: require_private_folder(file.parent, "folder")):
        if mode != 0o777:
            check()
            continue
        with pytest.raises(NotPrivateError, match="can be replaced by every user") as refused:
            check()
        mend(str(refused.value))
        check()
        tmp_path.chmod(mode)


def test_a_link_is_followed(file, tmp_path):
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    require_private(link, "file")
    file.chmod(0o666)
    with pytest.raises(NotPrivateError) as refused:
        require_private(link, "file")
    mend(str(refused.value))
    require_private(link, "file")


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o770, 0o777, 0o757, 0o1777, 0o1770])
def test_an_owners_folder_is_refused_if_others_may_put_anything_into_it(file, mode):
    file.parent.chmod(mode)
    if not mode & 0o022:
        require_private_folder(file.parent, "folder")
        return
    with pytest.raises(NotPrivateError, match="can be written by other users") as refused:
        require_private_folder(file.parent, "folder")
    mend(str(refused.value))
    require_private_folder(file.parent, "folder")


ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@ROOT_ONLY
@pytest.mark.parametrize("require", [require_private, require_private_folder])
def test_what_belongs_to_another_user_is_refused_and_root_is_not_told_to_take_it(file, require):
    """Root that took the ledger from the node's user would stop the node."""
    path = file if require is require_private else file.parent
    os.chown(path, 12345, -1)
    with pytest.raises(NotPrivateError, match=r"belongs to user 12345, .*run it as user 12345") as refused:
        require(path, "file")
    assert "chown" not in str(refused.value)


@ROOT_ONLY
def test_a_user_is_told_what_root_must_do():
    with tempfile.TemporaryDirectory() as shared:
        Path(shared).chmod(0o755)
        file = Path(shared) / "clinic" / "owner.toml"
        file.parent.mkdir(mode=0o755)
        file.touch(mode=0o600)
        _told_what_root_must_do(file)


def _told_what_root_must_do(file):
    os.chown(file, 12345, -1)
    os.seteuid(65534)
    try:
        with pytest.raises(NotPrivateError, match=r"if user .*65534.* runs the node, let root run `chown") as refused:
            require_private(file, "file")
        with pytest.raises(NotPrivateError, match="cannot be read by user") as unread:
            require_readable(file, "file")
    finally:
        os.seteuid(0)
    mend(str(refused.value))
    assert file.stat().st_uid == 65534
    mend(str(unread.value))
    assert file.parent.stat().st_uid == 65534


def mend(message):
    """Run the command that the message names, as a reader would."""
    assert "\n" not in message
    (command,) = re.findall("`(.*)`", message)
    subprocess.run(["sh", "-c", command], check=True)

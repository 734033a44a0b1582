"""Files that others could change are refused, with the very command that mends them."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from pausefl.errors import NotPrivateError
from pausefl.system.private_file import require_private


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
    with pytest.raises(NotPrivateError, match="exchanged") as refused:
        require_private(file, "file")
    mend(str(refused.value))
    require_private(file, "file")


def test_a_link_is_followed(file, tmp_path):
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    require_private(link, "file")
    file.chmod(0o666)
    with pytest.raises(NotPrivateError) as refused:
        require_private(link, "file")
    mend(str(refused.value))
    require_private(link, "file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(file):
    os.chown(file, 12345, -1)
    with pytest.raises(NotPrivateError, match="belongs to user 12345") as refused:
        require_private(file, "file")
    mend(str(refused.value))
    require_private(file, "file")


def mend(message):
    """Run the command that the message names, as a reader would."""
    assert "\n" not in message
    (command,) = re.findall("`(.*)`", message)
    subprocess.run(["sh", "-c", command], check=True)

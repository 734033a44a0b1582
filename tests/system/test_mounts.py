"""What is mounted where: read from a table like the system's own, and from the system's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pausefl.system.mounts import forgetful_file_system, is_mount_point

TABLE = r"""21 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/a
22 21 8:1 / /srv rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /srv/fast rw - tmpfs tmpfs rw
24 22 8:1 /x/ledger.db /srv/my\040clinic/ledger.db rw - ext4 /dev/sda1 rw
25 21 0:22 / /over rw - tmpfs tmpfs rw
26 21 8:2 / /over rw - xfs /dev/sdb1 rw
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "mountinfo").write_text(TABLE)
    return tmp_path / "mountinfo"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/clinic", "overlay: the layer of a container"),
        ("/srvother", "overlay"),
        ("/srv/clinic", None),
        ("/srv/fast/clinic", "tmpfs: memory"),
        ("/over/clinic", None),
    ],
)
def test_the_nearest_and_last_mount_decides(table: Path, path: str, said: str | None) -> None:
    found = forgetful_file_system(Path(path), table)
    assert found is None if said is None else found is not None and found.startswith(said)


def test_a_single_file_can_be_a_mount_point(table: Path) -> None:
    assert is_mount_point(Path("/srv/my clinic/ledger.db"), table)
    assert not is_mount_point(Path("/srv/my clinic"), table)


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="needs Linux")
def test_the_systems_own_table_is_read(tmp_path: Path) -> None:
    assert is_mount_point(Path("/proc"))
    assert not is_mount_point(tmp_path)


def test_another_users_mount_with_an_odd_name_spoils_nothing(tmp_path: Path) -> None:
    """The system writes a form feed as it is, and everybody may mount something in a folder of their own."""
    (tmp_path / "table").write_bytes(b"30 21 0:50 / /home/m/a\x0c\xe2\x80\xa8b rw - fuse.x x rw\n" + TABLE.encode())
    assert is_mount_point(Path("/srv/fast"), tmp_path / "table")
    assert is_mount_point(Path("/home/m/a\x0c\u2028b"), tmp_path / "table")

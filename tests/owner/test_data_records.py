"""How pausefl cuts an owner's data into records: by each record's own bytes, and nothing else."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import ConfigError
from pausefl.owner import data_records
from pausefl.owner.data_records import DataRecord, DataRecords, count_records


def read(path: Path) -> list[DataRecord | None]:
    with DataRecords(path) as records:
        return list(records)


LINE = st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"").rstrip(b"\r").removeprefix(codecs.BOM_UTF8))


@given(
    lines=st.lists(LINE, max_size=30),
    end=st.sampled_from([b"\n", b"\r\n"]),
    last=st.booleans(),
    chunk=st.integers(1, 9),
)
def test_every_line_is_a_record(
    lines: list[bytes], end: bytes, last: bool, chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("data") / "records"
    whole = end.join(lines)
    ended = bool(lines) and (last or not lines[-1])  # without an end, an empty last line is none
    path.write_bytes(whole + (end if ended else b""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_records, "_CHUNK", chunk)
        assert [record.data for record in read(path) if record] == lines


def test_a_mark_before_the_first_line_is_in_no_record(tmp_path: Path) -> None:
    """It would change the line of another person if the first one was taken out."""
    path = tmp_path / "records"
    path.write_bytes(codecs.BOM_UTF8 + b"a,1\nb,2\n")
    whole = read(path)
    path.write_bytes(codecs.BOM_UTF8 + b"b,2\n")
    assert (whole, read(path)) == ([DataRecord(b"a,1"), DataRecord(b"b,2")], [DataRecord(b"b,2")])


def test_a_file_of_a_folder_that_became_a_link_is_no_record(tmp_path: Path) -> None:
    """It would be another record for a second time."""
    for name in "ab":
        (tmp_path / name).write_text(name)
    with DataRecords(tmp_path) as records:
        (tmp_path / "b").unlink()
        (tmp_path / "b").symlink_to("a")
        assert list(records) == [DataRecord(b"a", "a"), None]


def test_every_file_of_a_folder_is_a_record_at_any_depth(tmp_path: Path) -> None:
    for name, content in (("b.txt", b"two"), ("a/x/1.png", b"one"), (".hidden", b""), ("a.csv", b"3\n4\n")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert read(tmp_path) == [
        DataRecord(b"", ".hidden"),
        DataRecord(b"3\n4\n", "a.csv"),
        DataRecord(b"one", "a/x/1.png"),
        DataRecord(b"two", "b.txt"),
    ]


def test_what_cannot_be_read_stays_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_records, "MOST_BYTES", 4)
    file, folder = tmp_path / "lines", tmp_path / "files"
    file.write_bytes(b"1234\n12345\n1\n")
    assert [record and record.data for record in read(file)] == [b"1234", None, b"1"]
    folder.mkdir()
    for name, content in (("a", b"12345"), ("b", b"1234"), ("c", b"")):
        (folder / name).write_bytes(content)
    records = DataRecords(folder)
    (folder / "c").unlink()
    os.mkfifo(folder / "c")  # nobody writes to it: a reader would wait for ever
    assert [record and record.data for record in records] == [None, b"1234", None]


def test_a_file_that_takes_the_place_of_another_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\n")
    with DataRecords(path) as records:
        (tmp_path / "new").write_bytes(b"a much longer line\n")
        (tmp_path / "new").replace(path)
        assert [record and record.data for record in records] == [b"one", b"two"]


def test_links_and_pipes_in_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match=r"link, but must have folders and plain files only"):
        DataRecords(tmp_path)
    (tmp_path / "link").unlink()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ConfigError, match=r"plain file"):
            DataRecords(path)
    with pytest.raises(ConfigError, match=r"nothing cannot be read \(No such file"):
        DataRecords(tmp_path / "nothing")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_path_without_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"1\n2\n3\n")
    (tmp_path / "none").touch()
    assert count_records(tmp_path / "lines") == 3
    with pytest.raises(ConfigError, match=r"none has 0 records, but must have 1 or more"):
        count_records(tmp_path / "none")


def test_records_come_in_a_new_order_each_time_and_never_more_than_there_may_be(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"".join(b"%d\n" % number for number in range(100)))
    with DataRecords(tmp_path / "lines") as records:
        orders = [records.in_random_order() for _ in range(3)]
    assert all(sorted(order) == list(range(100)) for order in orders) and len(set(map(tuple, orders))) == 3
    with DataRecords(tmp_path / "lines", 60) as records:
        orders = [records.in_random_order() for _ in range(20)]
    assert all(len(set(order)) == 60 for order in orders)
    assert set().union(*orders) == set(range(100)), "one that is never chosen: 1e-6 chance"


@pytest.mark.parametrize("new", [b"a longer line\nb\n", b"on\nfour\n"])
def test_of_a_file_that_is_written_over_in_its_place_no_line_is_read_any_more(tmp_path: Path, new: bytes) -> None:
    """Its lines end elsewhere now, so one of them would be cut into two records."""
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\n")
    os.utime(path, ns=(10**18, 10**18))
    with DataRecords(path) as records:
        assert records.read(0) == DataRecord(b"one")
        path.write_bytes(new)
        assert [*records] == [None, None]

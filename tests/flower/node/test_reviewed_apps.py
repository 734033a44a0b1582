"""Bundles as they are read for a review, and the list that they are put on."""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from flwr.cli.build import build_fab_from_disk
from hypothesis import given
from hypothesis import strategies as st

from pausefl.cli import main
from pausefl.errors import ConfigError, NotPrivateError
from pausefl.flower.node.app_text import importer_of, text_marks
from pausefl.flower.node.bundle import load_bundle, read_bundle
from pausefl.flower.node.reviewed_apps import ReviewedApp, ReviewedApps


def zipped(files: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", how) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


def test_a_folder_is_built_as_flower_builds_it(tmp_path: Path, kit: ModuleType) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    content = build_fab_from_disk(folder)
    bundle = load_bundle(folder)
    assert bundle.content == content
    assert bundle.sha256 == hashlib.sha256(content).hexdigest()
    (tmp_path / "app.fab").write_bytes(content)
    assert load_bundle(tmp_path / "app.fab") == bundle
    assert bundle.app == {"publisher": "tests", "name": "tried", "version": "1.0"}
    assert bundle.components == {"serverapp": "tried.server:app", "clientapp": "tried.client:app"}
    assert bundle.files["tried/client.py"].decode() == kit.PLAIN


@pytest.mark.parametrize(
    "name", ["../out.py", "/etc/out.py", "a/../../out.py", "a\\b.py", "a\nb.py", "\x1b[31m.py", "a/./b.py", "a//b.py"]
)
def test_names_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="plain and unique"):
        read_bundle(zipped({"pyproject.toml": b"", name: b""}))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tried/__pycache__/client.cpython-311.pyc", "compiled"),
        ("tried/client.pyc", "compiled"),
        ("tried/client.abi3.so", "compiled"),
        ("tried/client/__init__.py", "hides the other"),
        ("tried/client.py/x", "hides the other"),
    ],
)
def test_files_that_would_run_in_place_of_those_shown_are_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_bundle(zipped({"pyproject.toml": b"", "tried/client.py": b"shown", name: b"run"}))


def test_a_bundle_that_cannot_be_unpacked_is_told_so() -> None:
    content = bytearray(zipped({"pyproject.toml": b"abc" * 100}, zipfile.ZIP_DEFLATED))
    content[44:64] = b"\xff" * 20  # after the name: what was compressed
    with pytest.raises(ConfigError, match="not the bundle of an app"):
        read_bundle(bytes(content))


def test_a_name_that_begins_with_a_zero_byte_is_refused_in_one_line() -> None:
    """Python cuts names there, and has an error of its own for an empty one."""
    content = zipped({"pyproject.toml": b"", "LICENSE": b"x"}).replace(b"LICENSE", b"\0ICENSE")
    with pytest.raises(ConfigError, match=r"not the bundle of an app|plain and unique"):
        read_bundle(content)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_are_refused() -> None:
    """One would be shown, and the other would run."""
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for text in ("shown", "run"):
            archive.writestr("pyproject.toml", text)
    with pytest.raises(ConfigError, match="plain and unique"):
        read_bundle(content.getvalue())


GOOD = {"pyproject.toml": b"", "tried/client.py": b"shown"}


def entries(*drop: int, **more: Any) -> bytes:
    """Three files, and of their lines in the directory all but those to drop; ``more`` is set on the last."""
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in (*GOOD.items(), ("tried/more.py", b"run")):
            archive.writestr(name, text)
        for number in drop:
            del archive.filelist[number]
        for name, value in more.items():
            setattr(archive.filelist[-1], name, value)
    return content.getvalue()


def with_version(made: int, needed: int) -> bytes:
    """A bundle whose last file says that it needs another version of the format, at both of its places."""
    content = bytearray(zipped(GOOD))
    struct.pack_into("<H", content, content.rindex(b"PK\x03\x04") + 4, needed)
    struct.pack_into("<BxH", content, content.rindex(b"PK\x01\x02") + 4, made, needed)
    content[content.rindex(b"PK\x01\x02") + 5] = 3
    return bytes(content)


def packed(text: bytes, stream: bytes, how: int = zipfile.ZIP_DEFLATED, name: str = "tried/client.py") -> bytes:
    """A bundle in which one entry says that it holds ``text``, and whose bytes are ``stream``."""
    head = struct.pack("<HHHHHIIIH", 20, 0, how, 0, 33, zlib.crc32(text), len(stream), len(text), len(name)) + b"\0\0"
    configuration = zipped({"pyproject.toml": b""})
    first = configuration[: configuration.index(b"PK\1\2")]
    line = configuration[len(first) : configuration.index(b"PK\5\6")]
    files = first + b"PK\3\4" + head + name.encode() + stream
    lines = (
        line + b"PK\1\2" + struct.pack("<H", 0x0314) + head + bytes(10) + struct.pack("<I", len(first)) + name.encode()
    )
    end = struct.pack("<HHHHIIH", 0, 0, 2, 2, len(lines), len(files), 0)
    return files + lines + b"PK\5\6" + end


def deflated(text: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(text) + packer.flush()


def with_end(place: int, value: int) -> bytes:
    """A bundle in whose end one number is another."""
    content = bytearray(zipped(GOOD))
    struct.pack_into("<H", content, len(content) - 22 + place, value)
    return bytes(content)


HIDING = {
    "another number of files": with_end(10, 1),
    "another disk": with_end(4, 7),
    "another place of the directory": with_end(16, 1000),
    "another length of the directory": with_end(12, 40),
    "a folder": zipped({**GOOD, "tried/more/": b""}),
    "a folder that leads out": zipped({**GOOD, "../../evil/": b""}),
    "names that differ in capitals": zipped({**GOOD, "tried/Client.py": b"run"}),
    "a stream longer than it says": packed(b"run", deflated(b"run\nshown")),
    "a stream shorter than it says": packed(b"run", deflated(b"ru")),
    "bytes behind a stream": packed(b"run", deflated(b"run") + b"hidden"),
    "a stream that is cut": packed(b"run" * 9, deflated(b"run" * 9)[:-1]),
    "more bytes than it says": packed(b"run", b"run\nshown", zipfile.ZIP_STORED),
    "an empty file with bytes": packed(b"", b"hidden", zipfile.ZIP_STORED),
    "a folder with bytes": packed(b"", b"hidden", zipfile.ZIP_STORED, "tried/more/"),
    "before": zipped(GOOD) + zipped(GOOD),
    "before, no bundle": b"#!/bin/sh\n" + zipped(GOOD),
    "behind": zipped(GOOD) + b"x",
    "a hidden entry": entries(1),
    "a hidden entry at the end": entries(2),
    "more about an entry": entries(extra=b"up\x06\x00\x01\x00\x00\x00\x00x"),
    "a link": entries(external_attr=0o120777 << 16),
    "a device": entries(external_attr=0o060600 << 16),
    "a folder by its attributes": entries(external_attr=0x10),
    "a text whose lines are changed": entries(internal_attr=1),
    "another system": entries(create_system=7),
    "packed by LZMA": zipped(GOOD, zipfile.ZIP_LZMA),
    "packed by bzip2": zipped(GOOD, zipfile.ZIP_BZIP2),
    "a comment": entries(comment=b"x"),
    "a size of its own": zipped(GOOD).replace(b"\x05\0\0\0\x05\0\0\0", b"\x04\0\0\0\x04\0\0\0", 1),
    "a name of its own": zipped(GOOD).replace(b"tried/client.py", b"tried/server.py", 1),
    "a folder with content": zipped({**GOOD, "tried/more/": b"x"}),
    "a name that is cut": zipped({**GOOD, "tried/more.py.txt": b""}).replace(b"more.py.txt", b"more.py\0txt"),
    "what torch imports": zipped({**GOOD, "x.dist-info/entry_points.txt": b"[torch.backends]\nx = cProfile:main\n"}),
    "the same as an egg": zipped({**GOOD, "x.EGG-info/more.json": b"{}"}),
    "a program without an ending": zipped({**GOOD, "app": b"shown"}),
    "settings of git": zipped({**GOOD, ".git/config": b"[core]\nfsmonitor = evil\n"}),
    "a set of names": zipped({**GOOD, "conf[1].json": b"{}"}),
    "two versions of one file": zipped({**GOOD, "tried/client.py;1": b"shown"}),
    "a name for another system": zipped({**GOOD, "tried/a:b": b"shown"}),
    "a blank at the end of a name": zipped({**GOOD, "tried/client.py ": b"shown"}),
    "a dot at the end of a name": zipped({**GOOD, "tried/client.py.": b"shown"}),
    "a version that some tools do not read": with_version(20, 63),
    "another version of its maker": with_version(63, 20),
    "something beside the version": with_version(20, 0x0114),
    "a name that no disk takes": zipped({**GOOD, "tried/" + "\u00e9" * 128: b""}),
}


@pytest.mark.parametrize("how", HIDING)
def test_a_bundle_that_other_tools_would_show_in_another_way_is_refused(how: str) -> None:
    assert read_bundle(zipped(GOOD)).files == GOOD
    assert read_bundle(zipped(GOOD, zipfile.ZIP_DEFLATED)).files == GOOD
    assert set(read_bundle(entries()).files) == {*GOOD, "tried/more.py"}
    assert read_bundle(with_version(20, 20)).files == GOOD
    for whole in (packed(b"run", deflated(b"run")), packed(b"run", b"run", zipfile.ZIP_STORED)):
        assert read_bundle(whole).files["tried/client.py"] == b"run"  # what the others differ from
    with pytest.raises(
        ConfigError, match=r"bundle hides something|plain and unique|not the bundle of an app|would not pack"
    ):
        read_bundle(HIDING[how])


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda text: zipped({"pyproject.toml": text})))
def test_rubbish_is_refused_in_one_line(content: bytes) -> None:
    try:
        bundle = read_bundle(content)
    except ConfigError as error:
        assert len(str(error).splitlines()) <= 2
    else:
        assert set(bundle.app) == {"publisher", "name", "version"}


def test_a_bundle_that_swells_is_refused() -> None:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pyproject.toml", bytes((1 << 28) + 1))
    with pytest.raises(ConfigError, match="holds more than"):
        read_bundle(content.getvalue())


def test_no_app_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no pyproject\.toml"):
        load_bundle(tmp_path)
    with pytest.raises(ConfigError, match="there is no file or folder"):
        load_bundle(tmp_path / "nothing")


def test_an_app_that_would_take_for_ever_to_read_is_refused(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    os.mkfifo(folder / "tried" / "pipe.py")
    with pytest.raises(ConfigError, match=r"pipe.py' is a named pipe"):
        load_bundle(folder)
    (folder / "tried" / "pipe.py").unlink()
    for text in (".".join(["a"] * 30_000) + " = 1", "#\n" * 200_000):
        (folder / "pyproject.toml").write_text(text)
        with pytest.raises(ConfigError, match=r"or a line of more than 1000 dots; do not run it"):
            load_bundle(folder)
        with pytest.raises(ConfigError, match=r"or a line of more than 1000 dots; do not run it"):
            read_bundle(zipped({"pyproject.toml": text.encode()}))


def test_without_a_terminal_nothing_is_put_on_the_list_unless_told(
    node: Any, kit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    words = ["node", "review", str(folder), "--owner", str(node.guard.owner)]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "add --yes if it may" in capsys.readouterr().err
    assert node.apps.read() == []
    with pytest.raises(SystemExit) as ended:
        main([*words, "--yes"])
    assert not ended.value.code and load_bundle(folder).sha256 in node.apps


def test_a_name_with_letters_that_look_like_others_is_refused(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    (folder / "tried" / "cli\u0435nt.py").write_text("")  # a Cyrillic letter
    with pytest.raises(ConfigError, match=r"a file called 'tried/cli\\u0435nt.py', which is not ASCII"):
        load_bundle(folder)


HIDDEN = {
    "utf-7": b"# coding: utf-7\n# as in the paper +AAo-RAN = True +AAo-\n",
    "a codec that is none": b"# coding: no-such-codec\nRAN = True\n",
    "latin-1": b"# coding: latin-1\nRAN = True\n",
    "not UTF-8": b"RAN = True  # \xff\n",
    "a return": b"# as in the paper\rRAN = True\r#\n",
    "a form feed": b"if False:\n    pass\n    \x0cRAN = True\n",
    "a mark of direction": "if 'a' != 'a\u202e \u2066# never\u2069 \u2066':\n    RAN = True\n".encode(),
    "no width": "if 'a\u200b' != 'a':\n    RAN = True\n".encode(),
    "an escape": b"RAN = True  #\x1b[1A\x1b[2K\n",
    "zero": b"RAN = True  #\0\n",
    "selectors of a variant": "RAN = 'a\ufe01\U000e0101' != 'a'\n".encode(),
    "a blank letter": "\u3164 = RAN = True\n".encode(),
    "a mark of UTF-8": b"\xef\xbb\xbfRAN = True\n",
    "an empty pattern": "RAN = True  #\u2800\n".encode(),
    "an object without a picture": "RAN = True  # stop\ufffcall\n".encode(),
    "letters from the right": "RAN = 1 - 2  # \u05d0\u05d1\n".encode(),
    "marks over other lines": ("RAN = True  # a" + "\u0301" * 120 + "\n").encode(),
}
# What an app reads decides what it does: each of these reads as {"on bad value": "zero"}, and another key counts.
SETTINGS_FILES = {
    "a letter of another alphabet": '{"on b\u0430d value": "zero"}',
    "a letter without a picture": '{"on\ufffcbad value": "zero"}',
    "no width": '{"on bad\u200b value": "zero"}',
    "a return": '{"on bad value": "stop",\r "on bad value": "zero"}',
    "a key that stands twice": '{"on bad value": "zero", "on bad value": "stop"}',
    "a mark of UTF-8": '\ufeff{"on bad value": "zero"}',
    "a tab that looks like a blank": '{"on bad\tvalue": "zero"}',
    "a blank at the end of a line": '{"on bad value": "zero"} \n',
    "two ends of lines": '{"on bad value":\r\n"zero"}\n',
    "not UTF-8": b'{"on bad value": "\xff"}',
}


@pytest.mark.parametrize("way", HIDDEN)
def test_source_that_reads_otherwise_than_it_runs_is_refused(way: str, kit: ModuleType, tmp_path: Path) -> None:
    """Where records are protected, the review is all that keeps an app honest."""
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    (folder / "tried" / "client.py").write_bytes(HIDDEN[way] + kit.PLAIN.encode())
    with pytest.raises(ConfigError, match=r"a screen does not show as it is|which Python reads as"):
        load_bundle(folder)


@pytest.mark.parametrize("name", ["limits.json", "limits.jsonl", "limits.yaml", "limits.yml", "limits.toml"])
@pytest.mark.parametrize("way", SETTINGS_FILES)
def test_settings_that_read_otherwise_than_they_count_are_refused(
    way: str, name: str, kit: ModuleType, tmp_path: Path
) -> None:
    folder, text = kit.write_app(tmp_path / "app", kit.PLAIN), SETTINGS_FILES[way]
    (folder / "tried" / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    if way == "a key that stands twice" and "json" not in name:
        load_bundle(folder)  # the page says so
        return
    with pytest.raises(ConfigError, match=r"a screen does not show as it is|can look like another|twice|strict JSON"):
        load_bundle(folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("limits.jsonl", '{\n"a": 1,\n"a": 2\n}\n'),
        ("limits.json", '{"a": 1}\n{"a": 2, "a": 3}\n'),
        ("limits.json", '{"a": 1, "a": 2,}'),
        ("limits.json", '{"a": ' + "9" * 5000 + "}"),
        ("limits.json", "[" * 100_000),
        ("limits.json", '{"a": NaN}'),
        ("limits.json", '{"a": 1e999}'),
    ],
    ids=["lines of one value", "two values", "a comma at the end", "a long number", "depth", "no number", "too large"],
)
def test_json_that_is_not_strict_is_refused(name: str, text: str, kit: ModuleType, tmp_path: Path) -> None:
    """Other readers than that of JSON take it, and a key may stand twice in it."""
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    (folder / "tried" / name).write_text(text)
    with pytest.raises(ConfigError, match="strict JSON"):
        load_bundle(folder)


def test_blanks_that_a_screen_does_not_show_as_they_are_are_refused(kit: ModuleType, tmp_path: Path) -> None:
    odd_ones = (
        "if True:\n\tpass\n",
        'x = """a\n    \tb"""\n',
        'x.get("bad\trecord")\n',
        'x = """a \nb"""\n',
        "x = 1\r\n",
    )
    for number, odd in enumerate(odd_ones):
        with pytest.raises(ConfigError, match="a screen does not show as it is"):
            load_bundle(kit.write_app(tmp_path / str(number), kit.PLAIN + odd))


def test_a_kind_of_app_that_flower_does_not_load_is_refused(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    file = folder / "pyproject.toml"
    file.write_text(
        file.read_text().replace("[tool.flwr.app.components]\n", '[tool.flwr.app.components]\nhelper = "a:b"\n')
    )
    with pytest.raises(ConfigError, match="'helper', which is no kind of app"):
        load_bundle(folder)


def test_a_value_of_the_app_that_is_set_twice_is_refused(kit: ModuleType, tmp_path: Path) -> None:
    """Flower takes the last one, and a reader may see the first."""
    twice = '"a.b" = 2\n[tool.flwr.app.config.a]\nb = "3"\n'
    with pytest.raises(ConfigError, match="sets one value of the app twice"):
        load_bundle(kit.write_app(tmp_path / "app", kit.PLAIN, settings=twice))


def test_components_that_are_no_text_are_refused_in_one_line(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    file = folder / "pyproject.toml"
    file.write_text(file.read_text().replace('"tried.client:app"', '["tried.client:app"]'))
    with pytest.raises(ConfigError, match="is not an app that Flower can send"):
        load_bundle(folder)


@pytest.mark.parametrize(
    ("line", "fine"),
    [
        ("# by M\u00fcller", True),
        ("x = 1  # \u03b1", True),
        ("x = '\u00fc'", False),
        ('x = """\n# \u00fc\n"""', False),
        ("\u0430 = 1", False),
        ("\uff45val('1')", False),
        ("x = '\\u00fc'", True),
        ("x = (  # \u00fc", False),
    ],
)
def test_letters_that_are_not_ascii_stand_in_comments_only(
    line: str, fine: bool, kit: ModuleType, tmp_path: Path
) -> None:
    folder = kit.write_app(tmp_path / "app", f"{kit.PLAIN}\n{line}\n")
    if fine:
        load_bundle(folder)
        return
    with pytest.raises(ConfigError, match=r"can look like another|is not Python"):
        load_bundle(folder)


def test_a_list_of_ignored_files_that_would_take_for_ever_is_refused(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    (folder / ".gitignore").write_text("*.pyc\n" + "*a" * 13 + "b\n")
    (folder / ("a" * 120)).touch()
    with pytest.raises(ConfigError, match="more than 3 stars"):
        load_bundle(folder)


def test_a_module_without_a_name_is_refused_and_so_is_one_that_names_none(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    (folder / "tried" / ".py").write_bytes(HIDDEN["a return"])
    with pytest.raises(ConfigError, match="a module without a name"):
        load_bundle(folder)
    (folder / "tried" / ".py").unlink()
    file = folder / "pyproject.toml"
    for odd in ("tried.:app", "tried..client:app", "tried.client:", "tried/client:app"):
        file.write_text(file.read_text().replace("tried.client:app", odd))
        with pytest.raises(ConfigError):
            load_bundle(folder)
        file.write_text(file.read_text().replace(odd, "tried.client:app"))
    load_bundle(folder)


def test_long_lines_code_out_of_sight_and_letters_in_comments_and_prose_are_marked(
    node: Any, kit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    (folder / "tried" / "server.py").write_text("# \uff45val\nx = 1" + " " * 300 + "; evil()\n")
    (folder / "tried" / "limits.json").write_text('{"a": "zero",' + " " * 300 + '"b": "stop"}\n')
    (folder / "README.md").write_text("by M\u00fcller" + " " * 300)
    with pytest.raises(SystemExit):
        main(["node", "review", str(folder), "--owner", str(node.guard.owner), "--yes"])
    marked = [line.partition("bytes  ")[2] for line in capsys.readouterr().out.splitlines() if "WARNING" in line]
    assert sorted(marked) == [
        "README.md  (WARNING: it has letters that are not ASCII)",
        "tried/limits.json  (WARNING: it has a line of 325 columns)  (WARNING: it has code behind 40 blanks)",
        "tried/server.py  (WARNING: it has letters that are not ASCII)  (WARNING: it has a line of 313 columns)  "
        "(WARNING: it has code behind 40 blanks)",
    ]


def test_the_example_can_be_reviewed() -> None:
    """The owner's page tries it; its marks are named there."""
    folder = Path(__file__).parents[3] / "examples" / "flower-digits"
    bundle = load_bundle(folder)
    marked = [name for name, content in bundle.files.items() if text_marks(name, content)]
    assert marked == ["README.md", "deploy.py", "digits_app/client.py", "digits_app/server.py"]


def test_a_name_that_an_installed_package_imports_is_found() -> None:
    """An app could be called so: torch asks for this module if it is there."""
    assert importer_of("opt_einsum").startswith("torch/") and importer_of("digits_app") == ""


def test_a_module_that_is_no_part_of_the_app_is_marked(
    node: Any, kit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Installed packages try to import modules that are not installed, and the bundle comes first."""
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    (folder / "opt_nothing.py").write_text("")
    (folder / "notes").mkdir()
    (folder / "notes" / "text.md").write_text("")
    with pytest.raises(SystemExit):
        main(["node", "review", str(folder), "--owner", str(node.guard.owner), "--yes"])
    marked = [line.partition("bytes  ")[2] for line in capsys.readouterr().out.splitlines() if "WARNING" in line]
    assert "opt_nothing.py  (WARNING: any package may import it as 'opt_nothing')" in marked
    assert not any(line.startswith("tried/") for line in marked)


def test_what_is_left_out_is_named(
    node: Any, kit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    (folder / "tried" / "_more.py").write_text("x = 1\n")
    (folder / ".gitignore").write_text("_*\n")
    file = folder / "pyproject.toml"
    file.write_text(file.read_text() + "centre = false\n" + "".join(f"key_{n:0>60} = {n}\n" for n in range(40)))
    (folder / "json").mkdir()
    (folder / "json" / "tool.py").write_text("")
    with pytest.raises(SystemExit):
        main(["node", "review", str(folder), "--owner", str(node.guard.owner), "--yes"])
    said, error = capsys.readouterr()
    assert not error
    assert (
        "WARNING: code or settings that you see in the folder are NOT in the bundle" in said
        and "tried/_more.py" in said
    )
    assert "the server can change these settings, and no others:\n  centre = False\n" in said and "39 = 39\n" in said
    assert "json/tool.py  (WARNING: it takes the place of the module 'json')" in said


def test_all_that_is_left_out_is_named(
    node: Any, kit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the last of many files, files of settings, and what lies among compiled files."""
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    (folder / ".gitignore").write_text("settings.json\n")
    (folder / "tried" / "settings.json").write_text("{}")
    (folder / "tried" / "__pycache__").mkdir(exist_ok=True)
    (folder / "tried" / "__pycache__" / "rules.txt").write_text("")
    (folder / "tried" / "__pycache__" / "client.cpython-311.pyc").write_text("")
    for number in range(100):
        (folder / f"a{number:0>3}.txt").write_text("")
    with pytest.raises(SystemExit):
        main(["node", "review", str(folder), "--owner", str(node.guard.owner), "--yes"])
    said = capsys.readouterr().out
    assert "WARNING: code or settings that you see in the folder are NOT in the bundle" in said
    assert all(name in said for name in ("a099.txt", "tried/settings.json", "tried/__pycache__/rules.txt"))
    assert ".pyc" not in said


@pytest.mark.parametrize(
    ("source", "mark"),
    [
        ("x = (1\n" + " " * 100 + "- evil()\n)\n", "code behind 40 blanks"),
        ("x = 1\n" + "\n" * 60 + "evil()\n", "60 lines without code in a row"),
        ("x = 1\n" + "#\n" * 60 + "evil()\n", "60 lines without code in a row"),
        ("x = '" + "a" * 130 + "'\n", "a line of 136 columns"),
        ("def f(): pass\n\n\ny = 2" + " " * 20 + "# why\n", ""),
        ("import pickle\n\nx = pickle.loads(y)\n", "look why it says pickle"),
        ("import time, ctypes\n", "look why it says ctypes, time"),
        ("x = pd.to_datetime(y) or pd.Timestamp(y)\n", "look why it says Timestamp, to_datetime"),
        ("x = pd.read_csv(y, parse_dates=[0])\n", "look why it says parse_dates"),
        ("import cloudpickle\n", "look why it says cloudpickle"),
        ("x = np.datetime64('now')\n", "look why it says datetime64, now"),
        ("x = os.stat(y).st_mtime_ns\n", "look why it says st_mtime_ns, stat"),
        ("model = torch.load(y)  # load it\n", "look why it says .load("),
        ("# load the rows\ntimely = unload = upload(1)\n", ""),
        ("x = 1", ""),
        ("", ""),
    ],
)
def test_code_out_of_sight_is_marked(source: str, mark: str) -> None:
    marks = text_marks("tried/client.py", source.encode())
    assert [mark in one for one in marks] == [True] * bool(mark)


def test_an_app_of_another_alphabet_is_refused(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    file = folder / "pyproject.toml"
    file.write_text(file.read_text().replace("tried.client:app", "tried.client:\u0430pp"))
    with pytest.raises(ConfigError, match=r"must name package\.module:object"):
        load_bundle(folder)


def test_an_app_is_on_the_list_from_review_to_withdrawal(node: Any, kit: ModuleType) -> None:
    one, two = node.app(), node.app(kit.PLAIN + "# two\n")
    assert [bundle.sha256 in node.apps for bundle in (one, two)] == [True, True]
    assert node.apps.withdraw(one.sha256[:8]).sha256 == one.sha256
    assert [bundle.sha256 in node.apps for bundle in (one, two)] == [False, True]
    node.apps.add(two)
    assert len(node.apps.read()) == 1
    for wrong in (one.sha256, two.sha256[:7], ""):
        with pytest.raises(ConfigError, match="hashes in"):
            node.apps.withdraw(wrong)


def test_a_withdrawal_is_not_undone_by_a_review_at_the_same_time(node: Any, kit: ModuleType, tmp_path: Path) -> None:
    bad = node.app()
    withdrawal = threading.Thread(target=node.apps.withdraw, args=(bad.sha256,))

    class Slow(ReviewedApps):
        def _write(self, apps: list[ReviewedApp]) -> None:
            withdrawal.start()
            withdrawal.join(timeout=0.5)  # it would be over by now if it did not wait
            super()._write(apps)

    Slow(node.guard.reviewed).add(load_bundle(kit.write_app(tmp_path / "new", kit.PLAIN + "# new\n")))
    withdrawal.join()
    assert bad.sha256 not in node.apps and len(node.apps.read()) == 1


def test_names_are_shown_without_what_a_terminal_would_obey(node: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = node.app(version="1\\u001b[31m")
    for words in (["list"], ["withdraw", bundle.sha256]):
        with pytest.raises(SystemExit):
            main(["node", *words, "--owner", str(node.guard.owner)])
        said = capsys.readouterr().out
        assert "1 [31m" in said and "\x1b" not in said


def test_what_changed_since_the_last_review_of_that_name(node: Any, kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_app(tmp_path / "app", kit.PLAIN)
    (folder / "old.md").write_text("x")
    first = load_bundle(folder)
    assert node.apps.changes(first) is None
    node.apps.add(first)
    (folder / "old.md").unlink()
    (folder / "tried" / "more.py").write_text("x")
    (folder / "tried" / "client.py").write_text(kit.PLAIN + "#")
    changed = node.apps.changes(load_bundle(folder))
    assert changed is not None and changed[0].sha256 == first.sha256
    assert changed[1] == {
        ".info/CONTENT": "changed", "old.md": "removed", "tried/client.py": "changed", "tried/more.py": "added",
    }  # fmt: skip
    assert node.apps.changes(load_bundle(kit.write_app(tmp_path / "b", kit.PLAIN, name="other"))) is None


def test_the_list_is_the_owners_alone(node: Any) -> None:
    path = node.guard.reviewed
    node.app()
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list(path.parent.glob(".reviewed*"))
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        with pytest.raises(NotPrivateError, match="chmod go-w"):
            node.apps.read()
        with pytest.raises(NotPrivateError):
            node.apps.withdraw("00000000")


def test_a_list_behind_a_link_stays_there(node: Any, kit: ModuleType, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere.toml"
    node.app()
    node.guard.reviewed.rename(real)
    node.guard.reviewed.symlink_to(real)
    node.app(kit.PLAIN + "#")
    assert node.guard.reviewed.is_symlink()
    assert len(ReviewedApps(real).read()) == 2


@pytest.mark.parametrize(
    ("path", "marked"), [("_data-of-python.py", True), ("read-me.txt", False), ("some-folder/x.txt", False)]
)
def test_a_module_whose_name_no_import_can_say_is_marked_too(path: str, marked: bool) -> None:
    """Python's own packages load some modules by names that they put together."""
    from types import SimpleNamespace

    from pausefl.cli.node import _place_marks

    found = _place_marks(path, SimpleNamespace(components={"clientapp": "tried.app:app"}))  # type: ignore[arg-type]
    assert bool(found) is marked

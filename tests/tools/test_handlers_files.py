"""read_document, write_file and edit_file through the handlers' map."""

from __future__ import annotations

import base64
import os
import stat
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from geode.contract import ImageBlock, TextBlock
from geode.tools.handlers import BUILTIN_HANDLERS
from geode.tools.types import ToolContext, ToolError, ToolReturn


def call(tool: str, workspace: Path, **arguments: Any) -> Any:
    return BUILTIN_HANDLERS[tool](**arguments, context=ToolContext(workspace))


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def test_read_numbers_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\nthree\n")
    assert call("read_document", tmp_path, path="a.txt") == {
        "path": "a.txt",
        "content": "     1\tone\n     2\ttwo\n     3\tthree",
        "start_line": 1,
        "end_line": 3,
        "total_lines": 3,
        "size_bytes": 15,
        "encoding": "utf-8",
        "truncated": False,
    }


def test_read_a_page(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"l{n}\n" for n in range(1, 11)))
    page = call("read_document", tmp_path, path="./a.txt", offset=4, limit=2)
    assert (page["content"], page["next_offset"], page["truncated"]) == ("     4\tl4\n     5\tl5", 6, True)
    with pytest.raises(ToolError, match=r"^offset 11 is past the end: a.txt has 10 lines$"):
        call("read_document", tmp_path, path="a.txt", offset=11)


def test_read_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    page = call("read_document", tmp_path, path="a")
    assert (page["content"], page["total_lines"], page["truncated"]) == ("", 0, False)


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        ("grüß".encode(), "utf-8", "grüß"),
        ("grüß".encode("utf-8-sig"), "utf-8 with BOM", "grüß"),
        ("grüß".encode("utf-16"), "utf-16-le with BOM", "grüß"),
        ("grüß".encode("cp1252"), "cp1252", "grüß"),
        (b"\x81\xff", "latin-1", "\x81ÿ"),
    ],
)
def test_encodings_are_found_out(tmp_path: Path, data: bytes, encoding: str, text: str) -> None:
    (tmp_path / "a").write_bytes(data)
    page = call("read_document", tmp_path, path="a")
    assert (page["encoding"], page["content"]) == (encoding, f"     1\t{text}")


def test_encoding_given(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("日本".encode("shift_jis"))
    assert call("read_document", tmp_path, path="a", encoding="shift_jis")["content"] == "     1\t日本"
    with pytest.raises(ToolError, match="unknown encoding 'nope'"):
        call("read_document", tmp_path, path="a", encoding="nope")
    with pytest.raises(ToolError, match="a is not valid utf-8"):
        call("read_document", tmp_path, path="a", encoding="utf-8")


def test_long_lines_and_binary(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 5000)
    (tmp_path / "b").write_bytes(b"\x7fELF\0\0")
    assert call("read_document", tmp_path, path="a")["content"] == "     1\t" + "x" * 2000 + "... (5000 characters)"
    with pytest.raises(ToolError, match=r"^b is a binary file of 6 bytes: it cannot be read as text$"):
        call("read_document", tmp_path, path="b")


def test_image_comes_back_as_a_block(tmp_path: Path) -> None:
    data = png(3, 2)
    (tmp_path / "a.png").write_bytes(data)
    assert call("read_document", tmp_path, path="a.png") == ToolReturn(
        [
            TextBlock(f"a.png (image/png, 3x2 pixels, {len(data)} bytes)"),
            ImageBlock("image/png", base64.b64encode(data).decode()),
        ]
    )
    (tmp_path / "big.png").write_bytes(png(9000, 2))
    with pytest.raises(ToolError, match="9000x2 pixels, at most 8000 a side"):
        call("read_document", tmp_path, path="big.png")


def test_missing_and_folder(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(ToolError, match=r"^x/y does not exist$"):
        call("read_document", tmp_path, path="x/y")
    with pytest.raises(ToolError, match=r"^d is a folder: use glob_files to list it$"):
        call("read_document", tmp_path, path="d")
    with pytest.raises(ToolError, match=r"^\. is a folder: use glob_files to list it$"):
        call("read_document", tmp_path, path=".")


def test_absolute_path_inside_and_links_inside(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a").write_text("hi")
    (tmp_path / "link").symlink_to("d/../d/a")
    (tmp_path / "abs").symlink_to(tmp_path / "d")
    for path in (str(tmp_path / "d/a"), "link", "abs/a", "d/../d/./a"):
        assert call("read_document", tmp_path, path=path)["content"] == "     1\thi"


def test_write_creates_and_replaces(tmp_path: Path) -> None:
    first = call("write_file", tmp_path, path="x/y/a.txt", content="a\nb")
    assert first == {"path": "x/y/a.txt", "created": True, "bytes": 3, "lines": 2}
    os.chmod(tmp_path / "x/y/a.txt", 0o750)
    second = call("write_file", tmp_path, path="x/y/a.txt", content="ü\n")
    assert second == {"path": "x/y/a.txt", "created": False, "bytes": 3, "lines": 1}
    assert (tmp_path / "x/y/a.txt").read_text() == "ü\n"
    assert stat.S_IMODE((tmp_path / "x/y/a.txt").stat().st_mode) == 0o750
    assert os.listdir(tmp_path / "x/y") == ["a.txt"]


def test_write_leaves_other_hard_links_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    os.link(tmp_path / "a", tmp_path / "b")
    call("write_file", tmp_path, path="a", content="new")
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("new", "old")


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", "sub/.GIT/config"])
def test_git_settings_are_not_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolError, match=r"files below \.git are not written"):
        call("write_file", tmp_path, path=path, content="x")


def test_lone_surrogate_is_an_error_not_a_crash(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="content cannot be written as UTF-8: surrogates not allowed at character 1"):
        call("write_file", tmp_path, path="a", content="x\ud800")
    assert os.listdir(tmp_path) == []


def test_edit_replaces_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    assert call("edit_file", tmp_path, path="a", old_string="two\n", new_string="2\n2b\n") == {
        "path": "a",
        "replacements": 1,
        "line": 2,
        "snippet": "     1\tone\n     2\t2\n     3\t2b\n     4\tthree\n     5\t",
    }
    assert (tmp_path / "a").read_text() == "one\n2\n2b\nthree\n"


def test_edit_keeps_line_ends_and_encoding(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("\ufeffone\r\ntwo\r\n".encode("utf-16-le"))
    call("edit_file", tmp_path, path="a", old_string="one\ntwo", new_string="1\n2")
    assert (tmp_path / "a").read_bytes() == "\ufeff1\r\n2\r\n".encode("utf-16-le")


def test_edit_must_be_unique(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\ny\nx\n")
    with pytest.raises(ToolError, match=r"^old_string occurs 2 times in a \(lines 1, 3\): add surrounding lines"):
        call("edit_file", tmp_path, path="a", old_string="x", new_string="z")
    assert call("edit_file", tmp_path, path="a", old_string="x", new_string="z", replace_all=True)["replacements"] == 2
    assert (tmp_path / "a").read_text() == "z\ny\nz\n"


def test_edit_says_what_comes_near(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("def alpha():\n    return 1\n\ndef beta():\n    return 2\n")
    with pytest.raises(ToolError) as error:
        call("edit_file", tmp_path, path="a", old_string="def alpah():", new_string="x")
    assert str(error.value) == (
        "old_string was not found in a. The nearest lines are:\n     1\tdef alpha():\n     4\tdef beta():"
    )
    with pytest.raises(ToolError) as error:
        call("edit_file", tmp_path, path="a", old_string="def beta():\n  return 2", new_string="x")
    assert str(error.value) == (
        "old_string was not found in a. Only white space differs from line 4 on; the exact text there is:\n"
        "def beta():\n    return 2"
    )
    with pytest.raises(ToolError, match="leave out the number and the tab"):
        call("edit_file", tmp_path, path="a", old_string="     1\tdef alpha():", new_string="x")
    with pytest.raises(ToolError, match="Nothing in the file is similar"):
        call("edit_file", tmp_path, path="a", old_string="@@@@", new_string="x")


def test_edit_refuses_what_it_would_damage(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"a\0b")
    (tmp_path / "cp").write_bytes("grüß".encode("cp1252"))
    with pytest.raises(ToolError, match="bin is a binary file"):
        call("edit_file", tmp_path, path="bin", old_string="a", new_string="b")
    with pytest.raises(ToolError, match="cp is in cp1252, which has no '日'"):
        call("edit_file", tmp_path, path="cp", old_string="gr", new_string="日")
    with pytest.raises(ToolError, match="old_string is empty"):
        call("edit_file", tmp_path, path="cp", old_string="", new_string="x")
    with pytest.raises(ToolError, match="are the same"):
        call("edit_file", tmp_path, path="cp", old_string="x", new_string="x")
    assert (tmp_path / "cp").read_bytes() == "grüß".encode("cp1252")

"""read_document, write_file, edit_file: whole files and exact edits, inside the workspace only."""

from __future__ import annotations

import os
from typing import Any

from geode.tools.handlers.closest import explain_missing
from geode.tools.handlers.images import MAX_IMAGE_BYTES, image_return, image_type
from geode.tools.handlers.text import Decoded, decode, encode, looks_binary, read_up_to
from geode.tools.types import ToolContext, ToolError, ToolReturn
from geode.tools.workspace import Place, Workspace

__all__ = ["edit_file", "read_document", "write_file"]

MAX_READ_BYTES = 32 * 2**20
"""Bytes of a file that are looked at; what lies beyond is for run_bash."""
MAX_EDIT_BYTES = 8 * 2**20
MAX_LINE_CHARS = 2000
MAX_CONTENT_CHARS = 200_000
DEFAULT_LINES = 2000


def read_document(
    path: str, context: ToolContext, offset: int = 1, limit: int = DEFAULT_LINES, encoding: str | None = None
) -> dict[str, Any] | ToolReturn:
    """Numbered lines `offset` (1-based) to `offset + limit - 1` of a text file, or an image as an image block."""
    workspace = Workspace(context.workspace)
    with workspace.place(path) as place:
        descriptor = workspace.open_file(place)
        try:
            size = os.fstat(descriptor).st_size
            head = read_up_to(descriptor, 12)
            if kind := image_type(head):
                if size > MAX_IMAGE_BYTES:
                    raise ToolError(
                        f"{place.relative}: the image has {size} bytes, at most {MAX_IMAGE_BYTES} are shown"
                    )
                return image_return(place.relative, kind, head + read_up_to(descriptor, MAX_IMAGE_BYTES))
            data = head + read_up_to(descriptor, MAX_READ_BYTES - len(head))
        finally:
            os.close(descriptor)
    if encoding is None and looks_binary(data):
        raise ToolError(f"{place.relative} is a binary file of {size} bytes: it cannot be read as text")
    decoded = _decoded(place.relative, data, encoding, cut=size > len(data))
    return _page(place.relative, decoded, offset, limit, size, cut=size > len(data))


def write_file(path: str, content: str, context: ToolContext) -> dict[str, Any]:
    """Creates or replaces a file with `content` as UTF-8, atomically; missing folders are made, the mode is kept."""
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(f"content cannot be written as UTF-8: {error.reason} at character {error.start}") from None
    workspace = Workspace(context.workspace)
    with workspace.place(path, create_parents=True) as place:
        created = workspace.write(place, data)
        return {"path": place.relative, "created": created, "bytes": len(data), "lines": _line_count(content)}


def edit_file(
    path: str, old_string: str, new_string: str, context: ToolContext, replace_all: bool = False
) -> dict[str, Any]:
    """Replaces `old_string`, which must occur exactly once unless `replace_all`; line ends and encoding are kept."""
    if not old_string:
        raise ToolError("old_string is empty: give the text to replace, or use write_file to create a file")
    if old_string == new_string:
        raise ToolError("old_string and new_string are the same: nothing to change")
    workspace = Workspace(context.workspace)
    with workspace.place(path) as place:
        decoded = _read_for_edit(workspace, place)
        text = decoded.text
        if "\r\n" in text and old_string not in text:
            old_string, new_string = _crlf(old_string), _crlf(new_string)
        count = text.count(old_string)
        if count == 0:
            raise ToolError(f"old_string was not found in {place.relative}. {explain_missing(text, old_string)}")
        if count > 1 and not replace_all:
            lines = ", ".join(map(str, _lines_of(text, old_string)))
            raise ToolError(
                f"old_string occurs {count} times in {place.relative} (lines {lines}): "
                "add surrounding lines until it is unique, or set replace_all"
            )
        first = text.count("\n", 0, text.index(old_string)) + 1
        edited = text.replace(old_string, new_string)
        try:
            data = encode(edited, decoded.encoding)
        except UnicodeEncodeError as error:
            raise ToolError(
                f"{place.relative} is in {decoded.encoding}, which has no {error.object[error.start]!r}"
            ) from None
        workspace.write(place, data)
    return {
        "path": place.relative,
        "replacements": count,
        "line": first,
        "snippet": _snippet(edited, first, new_string.count("\n") + 1),
    }


def _read_for_edit(workspace: Workspace, place: Place) -> Decoded:
    descriptor = workspace.open_file(place)
    try:
        data = read_up_to(descriptor, MAX_EDIT_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_EDIT_BYTES:
        raise ToolError(f"{place.relative} is over {MAX_EDIT_BYTES} bytes: too big for edit_file")
    if looks_binary(data):
        raise ToolError(f"{place.relative} is a binary file: edit_file works on text")
    decoded = decode(data)
    if encode(decoded.text, decoded.encoding) != data:
        raise ToolError(f"{place.relative} is not valid {decoded.encoding}: editing it would change other bytes too")
    return decoded


def _decoded(path: str, data: bytes, encoding: str | None, *, cut: bool) -> Decoded:
    try:
        return decode(data, encoding, cut=cut)
    except LookupError:
        raise ToolError(f"unknown encoding {encoding!r} (for example utf-8, utf-16, latin-1, shift_jis)") from None
    except UnicodeError as error:
        raise ToolError(f"{path} is not valid {encoding}: {error}") from None


def _page(path: str, decoded: Decoded, offset: int, limit: int, size: int, *, cut: bool) -> dict[str, Any]:
    lines = decoded.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if offset > max(len(lines), 1):
        raise ToolError(f"offset {offset} is past the end: {path} has {len(lines)} lines")
    out: list[str] = []
    room = MAX_CONTENT_CHARS
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], start=offset):
        shown = line.removesuffix("\r")
        if len(shown) > MAX_LINE_CHARS:
            shown = f"{shown[:MAX_LINE_CHARS]}... ({len(shown)} characters)"
        room -= len(shown) + 8
        if room < 0 and out:
            break
        out.append(f"{number:>6}\t{shown}")
    end = offset + len(out) - 1
    page: dict[str, Any] = {
        "path": path,
        "content": "\n".join(out),
        "start_line": offset,
        "end_line": end,
        "total_lines": len(lines),
        "size_bytes": size,
        "encoding": decoded.encoding,
        "truncated": cut or end < len(lines),
    }
    if end < len(lines):
        page["next_offset"] = end + 1
    if cut:
        page["note"] = f"only the first {MAX_READ_BYTES} bytes were looked at"
    return page


def _line_count(text: str) -> int:
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_of(text: str, part: str, most: int = 10) -> list[int]:
    found: list[int] = []
    at = text.find(part)
    while at >= 0 and len(found) < most:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(part, at + len(part))
    return found


def _snippet(text: str, line: int, height: int, around: int = 2, most: int = 20) -> str:
    lines = text.split("\n")
    start = max(0, line - 1 - around)
    end = min(len(lines), line - 1 + height + around, start + most)
    return "\n".join(f"{n + 1:>6}\t{lines[n].removesuffix(chr(13))[:MAX_LINE_CHARS]}" for n in range(start, end))

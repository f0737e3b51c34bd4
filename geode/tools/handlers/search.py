"""glob_files and grep_files: finding files by name and lines by pattern, bounded in time and in results."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from geode.tools.handlers.globs import glob_pattern
from geode.tools.handlers.text import decode, looks_binary, read_up_to
from geode.tools.types import ToolContext, ToolError
from geode.tools.workspace import Entry, Place, Workspace

if TYPE_CHECKING:
    import regex

__all__ = ["glob_files", "grep_files"]

MAX_SEARCH_S = 20.0
"""Seconds of one search; the call's own deadline may be nearer."""
MAX_FILE_BYTES = 16 * 2**20
MAX_LINE_CHARS = 500


def glob_files(
    pattern: str, context: ToolContext, path: str = ".", limit: int = 200, include_ignored: bool = False
) -> dict[str, Any]:
    """Files below `path` whose path relative to it matches `pattern`, sorted."""
    workspace = Workspace(context.workspace)
    clock = _Clock(context)
    match = glob_pattern(pattern)
    found: list[str] = []
    with workspace.folder(path) as place:
        skip = _prefix(place)
        for entry in workspace.walk(place, include_ignored=include_ignored):
            try:
                if match.fullmatch(entry.relative[skip:], timeout=clock.left()):
                    found.append(entry.relative)
            except TimeoutError:
                return {"files": sorted(found)[:limit], "count": len(found), "truncated": True, "timed_out": True}
    found.sort()
    return {"files": found[:limit], "count": len(found), "truncated": len(found) > limit, "timed_out": False}


def grep_files(
    pattern: str,
    context: ToolContext,
    path: str = ".",
    glob: str | None = None,
    ignore_case: bool = False,
    literal: bool = False,
    context_lines: int = 0,
    limit: int = 100,
    include_ignored: bool = False,
) -> dict[str, Any]:
    """Lines that match a regular expression, in files below `path` (or in the one file that it names)."""
    workspace = Workspace(context.workspace)
    clock = _Clock(context)
    search = _Search(_compiled(pattern, ignore_case, literal), context_lines, limit, clock)
    wanted = glob_pattern(glob if "/" in glob else f"**/{glob}") if glob else None
    with workspace.place(path) as place:
        try:
            if place.name and _is_file(place):
                search.file(workspace, Entry(place.folder, place.name, place.relative, False), named=True)
                return search.result()
            with workspace.folder(path) as folder:
                skip = _prefix(folder)
                for entry in workspace.walk(folder, include_ignored=include_ignored):
                    if entry.link or (wanted and not wanted.fullmatch(entry.relative[skip:], timeout=clock.left())):
                        continue
                    search.file(workspace, entry)
                    if search.full:
                        break
        except TimeoutError:
            search.timed_out = True
    return search.result()


class _Clock:
    """Seconds left of a search. `left` raises TimeoutError when there are none."""

    def __init__(self, context: ToolContext) -> None:
        self._end = time.monotonic() + MAX_SEARCH_S
        if context.deadline is not None:
            # the event loop's clock is the monotonic one; a little is kept for handing the result back
            self._end = min(self._end, context.deadline - 0.5)
        self._stopped = context.stopped

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0 or (self._stopped is not None and self._stopped.is_set()):
            raise TimeoutError
        return left


class _Search:
    """Collects matching lines. Each match: file, line (1-based), text, and before/after where context is asked."""

    def __init__(self, pattern: regex.Pattern[str], around: int, limit: int, clock: _Clock) -> None:
        self._pattern = pattern
        self._around = around
        self._limit = limit
        self._clock = clock
        self.matches: list[dict[str, Any]] = []
        self.files: list[str] = []
        self.searched = 0
        self.timed_out = False
        self.full = False

    def file(self, workspace: Workspace, entry: Entry, *, named: bool = False) -> None:
        try:
            descriptor = workspace.open_file(Place(entry.folder, entry.name, entry.relative))
        except ToolError:
            if named:
                raise
            return
        try:
            data = read_up_to(descriptor, MAX_FILE_BYTES)
        finally:
            os.close(descriptor)
        if looks_binary(data):
            if named:
                raise ToolError(f"{entry.relative} is a binary file: grep_files searches text")
            return
        self.searched += 1
        self._lines(entry.relative, decode(data, cut=len(data) == MAX_FILE_BYTES).text)

    def _lines(self, name: str, text: str) -> None:
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        for number, line in self._hits(lines):
            if len(self.matches) >= self._limit:
                self.full = True
                return
            if not self.files or self.files[-1] != name:
                self.files.append(name)
            match: dict[str, Any] = {"file": name, "line": number + 1, "text": _shown(line)}
            if self._around:
                match["before"] = [_shown(item) for item in lines[max(0, number - self._around) : number]]
                match["after"] = [_shown(item) for item in lines[number + 1 : number + 1 + self._around]]
            self.matches.append(match)

    def _hits(self, lines: list[str]) -> Iterator[tuple[int, str]]:
        search, left = self._pattern.search, self._clock.left
        for number, line in enumerate(lines):
            if search(line.removesuffix("\r"), timeout=left(), concurrent=True):
                yield number, line

    def result(self) -> dict[str, Any]:
        return {
            "matches": self.matches,
            "count": len(self.matches),
            "files": self.files,
            "files_searched": self.searched,
            "truncated": self.full or self.timed_out,
            "timed_out": self.timed_out,
        }


_RECURSION = re.compile(r"\(\?(?:R|&|P>|[0-9])")
"""Patterns that call themselves take memory without bound."""


def _compiled(pattern: str, ignore_case: bool, literal: bool) -> regex.Pattern[str]:
    import regex

    if not pattern:
        raise ToolError("pattern is empty")
    if not literal and _RECURSION.search(pattern):
        raise ToolError("pattern calls itself, which is not allowed: use one without (?R), (?1), (?&name)")
    flags = regex.IGNORECASE if ignore_case else 0
    try:
        return regex.compile(regex.escape(pattern) if literal else pattern, flags)
    except regex.error as error:
        raise ToolError(
            f"pattern is no valid regular expression: {error} (set literal to search for plain text)"
        ) from None
    except (RecursionError, OverflowError, MemoryError):
        raise ToolError("pattern is too complex") from None


def _is_file(place: Place) -> bool:
    try:
        os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        raise ToolError(f"{place.relative} does not exist") from None
    try:
        os.close(os.open(place.name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder))
    except OSError:
        return True
    return False


def _prefix(place: Place) -> int:
    return 0 if place.relative == "." else len(place.relative) + 1


def _shown(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}... ({len(line)} characters)"

"""The offload store of a run, the token guard in front of it, and the tool that reads from it."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from geode.contract import ImageBlock, Notice, NoticeSink, TextBlock
from geode.tokens import clip_end, clip_start, estimate_tokens
from geode.tools import texts
from geode.tools.pattern_search import PatternError, find_lines, wrapped
from geode.tools.types import OFFLOAD_STORE, ToolContext, ToolError

__all__ = ["OffloadStore", "Offloaded", "StoreFull", "TokenGuard", "recall_tool_result"]

_REF = re.compile(r"r[0-9]{4,9}\Z")


class StoreFull(Exception):
    """The store may not grow by as much as was asked."""


class OffloadStore:
    """Texts kept outside the context, by a name that geode gives (`r0001`, `r0002`, ...).

    folder: made at the first `put`. A store over a folder that has files goes on after the highest number (resume).
    max_bytes: UTF-8 bytes that all texts together may take. read_tokens: bound of what one `read` gives back.
    pattern_s: seconds a search may take. mask: takes secrets out of what is kept.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = 268_435_456,
        read_tokens: int = 5000,
        pattern_s: float = 2.0,
        mask: Callable[[str], str] | None = None,
    ) -> None:
        self.folder = folder
        self._mask = mask
        self._max_bytes = max_bytes
        self._read_tokens = read_tokens
        self._pattern_s = pattern_s
        self._last = -1
        self._bytes = 0

    def put(self, text: str) -> str:
        """Keeps a text; gives its ref. Raises `StoreFull`, OSError."""
        data = (text if self._mask is None else self._mask(text)).encode("utf-8", "replace")
        self._open()
        if self._bytes + len(data) > self._max_bytes:
            raise StoreFull(f"the offload store is full ({self._max_bytes} bytes)")
        ref = f"r{self._last + 1:04d}"
        path = self._path(ref)
        unfinished = path.with_suffix(".part")
        try:
            unfinished.write_bytes(data)
            os.replace(unfinished, path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        self._last += 1
        self._bytes += len(data)
        return ref

    def text(self, ref: str) -> str:
        """The whole text, as it was kept. Raises `ToolError` for an unknown ref."""
        return self._known(ref).read_bytes().decode("utf-8")

    def read(self, ref: str, offset: int = 0, limit: int = 200, pattern: str | None = None) -> str:
        """A part of a text: `limit` numbered lines from line `offset` (from 1) on, those that match where a pattern
        is given. Bounded in size; says where to go on. Raises `ToolError` with a text for the model.
        """
        path = self._known(ref)
        first, most = max(1, offset), max(1, limit)
        if pattern:
            return self._matching(path, ref, pattern, first, most)
        with path.open(encoding="utf-8", newline="\n") as lines:
            every = enumerate(wrapped(lines), 1)
            shown, following = self._fill(itertools.islice(every, first - 1, None), most)
            total = following or (shown[-1][0] if shown else 0)
            for total, _ in every:  # noqa: B007  (only the last number counts)
                pass
        if not shown:
            return f"[{ref} has no line {first}]"
        more = f"; go on with offset={following}" if following is not None else ""
        return f"[{ref}: lines {shown[0][0]} to {shown[-1][0]} of {total}{more}]\n" + _numbered(shown)

    def _matching(self, path: Path, ref: str, pattern: str, first: int, most: int) -> str:
        try:
            numbers = find_lines(path, pattern, first, most + 1, self._pattern_s)
        except PatternError as error:
            raise ToolError(str(error)) from None
        if not numbers:
            return f"[{ref}: no line from {first} on matches]"
        wanted = set(numbers)
        with path.open(encoding="utf-8", newline="\n") as lines:
            matching = (item for item in enumerate(wrapped(lines), 1) if item[0] in wanted)
            shown, following = self._fill(matching, most)
        more = f"; there are more: go on with offset={following}" if following is not None else ""
        return f"[{ref}: {len(shown)} matching {'line' if len(shown) == 1 else 'lines'}{more}]\n" + _numbered(shown)

    def _fill(self, lines: Iterator[tuple[int, str]], most: int) -> tuple[list[tuple[int, str]], int | None]:
        """As many lines as the bounds allow (one at least), and the number of the line to go on with."""
        shown: list[tuple[int, str]] = []
        tokens = 0
        for number, line in lines:
            tokens += estimate_tokens(line) + 3
            if shown and (len(shown) == most or tokens > self._read_tokens):
                return shown, number
            shown.append((number, line))
        return shown, None

    def _known(self, ref: str) -> Path:
        if _REF.match(ref):
            path = self._path(ref)
            if path.is_file():
                return path
        raise ToolError(f"There is no offloaded result {ref[:40]!r}: use a ref_id that an earlier result names.")

    def _path(self, ref: str) -> Path:
        return self.folder / f"{ref}.txt"

    def _open(self) -> None:
        if self._last >= 0:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._last = 0
        for path in self.folder.glob("r*.txt"):
            if _REF.match(path.stem):
                self._last = max(self._last, int(path.stem[1:]))
                self._bytes += path.stat().st_size


def _numbered(lines: list[tuple[int, str]]) -> str:
    return "\n".join(f"{number}: {line}" for number, line in lines)


@dataclass(frozen=True, slots=True)
class Offloaded:
    """What the guard put away. Bytes of UTF-8, estimated tokens."""

    ref_id: str
    size_bytes: int
    tokens: int


class TokenGuard:
    """Puts results over `limit` tokens into the store and leaves a summary of about a quarter of that in the context.

    limit: estimated tokens, 0 lets everything through. Of the summary, the beginning takes four fifths.
    """

    def __init__(self, store: OffloadStore | None, limit: int, notify: NoticeSink) -> None:
        self._store = store
        self._limit = limit
        self._notify = notify

    def apply(
        self, content: str | tuple[TextBlock | ImageBlock, ...], shape: str = ""
    ) -> tuple[str | tuple[TextBlock | ImageBlock, ...], Offloaded | None]:
        """The content to show, and what was put away. Images stay: only text is counted and kept."""
        if self._limit <= 0 or self._store is None:
            return content, None
        if isinstance(content, str):
            if len(content) * 2 <= self._limit:  # no text takes more than two tokens a character
                return content, None
            return self._guard(self._store, content, shape)
        text = "\n".join(block.text for block in content if isinstance(block, TextBlock))
        shown, offloaded = self._guard(self._store, text, shape)
        if shown == text:
            return content, None
        return (TextBlock(shown), *(block for block in content if isinstance(block, ImageBlock))), offloaded

    def _guard(self, store: OffloadStore, text: str, shape: str) -> tuple[str, Offloaded | None]:
        tokens = estimate_tokens(text)
        if tokens <= self._limit:
            return text, None
        size = len(text.encode("utf-8", "replace"))
        head, tail = clip_start(text, self._limit // 5), clip_end(text, self._limit // 20)
        try:
            ref = store.put(text)
        except (StoreFull, OSError) as error:
            why = str(error) if isinstance(error, StoreFull) else f"it could not be written ({error.strerror})"
            self._notify(
                Notice("offload", f"a large tool result was cut: {why}", "tools.offload_bytes=BYTES")
                if isinstance(error, StoreFull)
                else Notice("offload", f"a large tool result was cut: {why}")
            )
            return texts.offload_failed(why, size, tokens, head, tail), None
        lines = text.count("\n") + (not text.endswith("\n"))
        return texts.offloaded(ref, size, tokens, lines, shape, head, tail), Offloaded(ref, size, tokens)


def recall_tool_result(
    ref_id: str, offset: int = 0, limit: int = 200, pattern: str | None = None, *, context: ToolContext
) -> str:
    """The handler of the tool of that name."""
    store = context.services.get(OFFLOAD_STORE)
    if not isinstance(store, OffloadStore):
        raise ToolError("No results are offloaded in this run.")
    return store.read(ref_id, offset, limit, pattern)

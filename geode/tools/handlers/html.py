"""HTML as readable Markdown: headings, paragraphs, lists, links, tables, code; no scripts, styles or navigation."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from urllib.parse import urljoin

__all__ = ["Page", "read_html"]

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "nav", "form", "object", "canvas"})
_BLOCKS = frozenset(
    {
        *("p", "div", "section", "article", "main", "header", "footer", "aside", "figure", "figcaption", "address"),
        *("blockquote", "dl", "dt", "dd", "ul", "ol", "table", "thead", "tbody", "hr", "details", "summary", "body"),
    }
)
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`", "kbd": "`"}
_CHUNK = 1 << 16


class Page(HTMLParser):
    """Collects text while it is fed. `title` is the document's title."""

    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._base = base
        self._out: list[str] = []
        self._skip: list[str] = []
        self._lists: list[list[int | None]] = []
        self._links: list[tuple[str, int]] = []
        self._in_title = False
        self._pre = 0
        self._cells = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED:
            self._skip.append(tag)
        if self._skip:
            return
        if tag == "title":
            self._in_title = True
        elif tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self._break(2)
            self._out.append("#" * int(tag[1]) + " ")
        elif tag == "br":
            self._out.append("\n")
        elif tag == "li":
            self._break(1)
            counter = self._lists[-1] if self._lists else [None]
            mark = "- "
            if counter[0] is not None:
                mark = f"{counter[0]}. "
                counter[0] += 1
            self._out.append("  " * (len(self._lists) - 1) + mark)
        elif tag == "pre":
            self._break(2)
            self._out.append("```\n")
            self._pre += 1
        elif tag == "tr":
            self._break(1)
            self._cells = 0
        elif tag in ("td", "th"):
            self._out.append(" | " if self._cells else "")
            self._cells += 1
        elif tag == "a":
            self._links.append((dict(attrs).get("href") or "", len(self._out)))
        elif tag == "img":
            alt = (dict(attrs).get("alt") or "").strip()
            self._out.append(f"[image: {alt}]" if alt else "")
        elif tag in _MARKS and not self._pre:
            self._out.append(_MARKS[tag])
        elif tag in _BLOCKS:
            self._break(1 if tag in ("ul", "ol") and self._lists else 2)
            if tag in ("ul", "ol"):
                self._lists.append([1 if tag == "ol" else None])

    def handle_endtag(self, tag: str) -> None:
        if self._skip:
            if tag in self._skip:
                del self._skip[self._skip.index(tag) :]
            return
        if tag == "title":
            self._in_title = False
        elif tag in ("ul", "ol"):
            if self._lists:
                self._lists.pop()
            self._break(1 if self._lists else 2)
        elif tag == "pre" and self._pre:
            self._pre -= 1
            self._out.append("\n```")
            self._break(2)
        elif tag == "a" and self._links:
            self._link(*self._links.pop())
        elif tag in _MARKS and not self._pre:
            self._out.append(_MARKS[tag])
        elif tag in _BLOCKS or tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self._break(2)

    def handle_data(self, data: str) -> None:
        if self._skip:
            return
        if self._in_title:
            self.title += data
        else:
            self._out.append(data if self._pre else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        """Everything so far, blank lines and spaces tidied outside of code."""
        pieces = re.split(r"(```\n.*?\n```)", "".join(self._out), flags=re.DOTALL)
        for at in range(0, len(pieces), 2):
            lines = [
                re.sub(r" {2,}", " ", line).rstrip() if not line.startswith("  ") else line.rstrip()
                for line in pieces[at].split("\n")
            ]
            lines = [line[1:] if line.startswith(" ") and not line.startswith("  ") else line for line in lines]
            pieces[at] = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
        return "".join(pieces).strip()

    def _link(self, href: str, start: int) -> None:
        label = "".join(self._out[start:]).strip()
        if not label or href.startswith(("#", "javascript:", "data:")) or not href or "\n" in label:
            return
        try:
            target = urljoin(self._base, href)
        except ValueError:
            return
        lead = " " if self._out[start].startswith(" ") else ""
        trail = " " if self._out[-1].endswith(" ") else ""
        self._out[start:] = [f"{lead}[{label}]({target}){trail}"]

    def _break(self, lines: int) -> None:
        """At least this many line ends before what follows; spaces between blocks are dropped."""
        while self._out and not self._out[-1].strip(" "):
            self._out.pop()
        last = self._out[-1] if self._out else "\n\n"
        there = len(last) - len(last.rstrip("\n"))
        if there < lines:
            self._out.append("\n" * (lines - there) if there == 0 or self._pre else "\n" * lines)
            if there and not self._pre:
                self._out[-2] = last.rstrip("\n")


def read_html(text: str, base: str, seconds: float = 5.0) -> Page:
    """Parses in pieces and stops after `seconds`: what was read until then counts (hostile markup can be slow)."""
    page = Page(base)
    end = time.monotonic() + seconds
    for at in range(0, len(text), _CHUNK):
        page.feed(text[at : at + _CHUNK])
        if time.monotonic() > end:
            return page
    page.close()
    return page

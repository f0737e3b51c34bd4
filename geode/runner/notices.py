"""Notices of a run: each told once, to the journal and the console, and listed in the result."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from geode.contract import Notice

__all__ = ["NoticeBoard"]


class NoticeBoard:
    """Collects notices by key. A sink that is added later gets what was there before."""

    def __init__(self) -> None:
        self._notices: dict[str, Notice] = {}
        self._sinks: list[Callable[[Notice], None]] = []

    def post(self, notice: Notice) -> None:
        """Tells a notice, unless one of its key was told already."""
        if notice.key not in self._notices:
            self._notices[notice.key] = notice
            for sink in self._sinks:
                _tell(sink, notice)

    def tell(self, sink: Callable[[Notice], None]) -> None:
        """Adds a sink. One that raises (a console that is gone) holds up nobody."""
        self._sinks.append(sink)
        for notice in self._notices.values():
            _tell(sink, notice)

    def all(self) -> tuple[Notice, ...]:
        """Every notice so far, in order."""
        return tuple(self._notices.values())


def _tell(sink: Callable[[Notice], None], notice: Notice) -> None:
    with contextlib.suppress(Exception):
        sink(notice)

"""Faults of a config: one line each, with what was given, what is allowed and the nearest right name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["ConfigFault", "nearest", "shown"]


class ConfigFault(Exception):
    """The config cannot be run. `lines` holds one fault each; the exit code is 2."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))

    def __reduce__(self) -> tuple[type[ConfigFault], tuple[tuple[str, ...]]]:
        return ConfigFault, (self.lines,)


def nearest(word: str, allowed: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the allowed name nearest to `word`, or nothing."""
    names = list(allowed)
    folded = {name.casefold().replace("-", "_"): name for name in names}
    found = difflib.get_close_matches(str(word).casefold().replace("-", "_"), folded, n=1, cutoff=0.5)
    return f"; did you mean {folded[found[0]]!r}?" if found else ""


def shown(value: object, limit: int = 60) -> str:
    """A value as it is shown in a fault: short, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."

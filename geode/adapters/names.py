"""Tool names on the wire: `^[a-zA-Z0-9_-]{1,64}$` on all three, so others get one reversible alias each.

The rule is the providers' own: Anthropic, OpenAI and Z.ai refuse a request with any other name in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

__all__ = ["NameAliases", "sanitise"]

_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ILLEGAL_CHAR = re.compile(r"[^a-zA-Z0-9_-]")
_MAX = 64


def sanitise(name: str) -> str:
    """A legal form of any name: each other character becomes `_`, cut to 64, never empty. Not reversible."""
    return _ILLEGAL_CHAR.sub("_", name)[:_MAX] or "_"


class NameAliases:
    """The two-way map between the tools' own names and their names on the wire.

    A legal name stays as it is. Another is sanitised, and where that would clash with a tool's name (or is too long)
    it ends in eight hex digits of the name's SHA-256: the alias of a name depends on the set of names, not on order.
    """

    __slots__ = ("_to_own", "_to_wire")

    def __init__(self, names: Iterable[str]) -> None:
        own = sorted(set(names))
        legal = {n for n in own if _LEGAL.match(n)}
        plain = [sanitise(n) for n in own if n not in legal]
        self._to_wire = {n: n for n in legal}
        for name in own:
            if name in legal:
                continue
            alias = sanitise(name)
            if len(name) > _MAX or alias in legal or plain.count(alias) > 1:
                digest = hashlib.sha256(name.encode()).hexdigest()
                alias = f"{alias[: _MAX - 9]}_{digest[:8]}"
            self._to_wire[name] = alias
        self._to_own = {alias: name for name, alias in self._to_wire.items()}

    def to_wire(self, name: str) -> str:
        """The name that is sent. A name that is no tool's (the model made it up) is sanitised."""
        return self._to_wire.get(name) or sanitise(name)

    def to_own(self, name: str) -> str:
        """The tool's own name for a name that came over the wire; an unknown one stays as it came."""
        return self._to_own.get(name, name)

"""The loopback provider: three wires on 127.0.0.1, answered from a script, with strict request checks and faults.

Imported lazily: `geode.provider.params` alone needs no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geode.provider.handler import RecordedRequest
    from geode.provider.server import LoopbackProvider

__all__ = ["LoopbackProvider", "RecordedRequest"]


def __getattr__(name: str) -> Any:
    if name == "LoopbackProvider":
        from geode.provider.server import LoopbackProvider

        return LoopbackProvider
    if name == "RecordedRequest":
        from geode.provider.handler import RecordedRequest

        return RecordedRequest
    raise AttributeError(name)

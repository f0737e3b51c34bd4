"""The requests of a config without a key, a network or a tool run: what `geode wire` and snapshots are made of."""

from geode.wire.collect import Collected, collect, requests_of

__all__ = ["Collected", "collect", "requests_of"]

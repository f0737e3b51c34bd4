"""A pytest plugin: the requests that a config would send, for snapshots in a repository of your own.

It comes with the package (entry point `pytest11`); nothing has to be registered. No key and no network are needed.

    def test_payload(geode_wire, snapshot):
        assert geode_wire("adapter=glm-payg", "tool_choice=required") == snapshot
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Protocol

import pytest

__all__ = ["GeodeWire", "geode_wire"]


class GeodeWire(Protocol):
    """What the fixture `geode_wire` is."""

    def __call__(
        self, *overrides: str, rounds: int = 1, config_dir: str | Path | None = None
    ) -> list[dict[str, Any]]: ...


@pytest.fixture
def geode_wire() -> GeodeWire:
    """`geode_wire(*overrides, rounds=1, config_dir=None)`: the requests as `geode wire` prints them.

    rounds: how many, with the script playing the provider. config_dir: a folder with groups of your own
    (`conf/adapter/mine.yaml` is `adapter=mine`). Each request is `{method, url, headers, body}`. Raises
    `geode.config_errors.ConfigFault`, whose text has one line for each fault.
    """

    def wire(*overrides: str, rounds: int = 1, config_dir: str | Path | None = None) -> list[dict[str, Any]]:
        from geode.wire import requests_of

        words = [*overrides, f"wire.rounds={rounds}"]
        return _apart(lambda: requests_of(words, config_dirs=[str(config_dir)] if config_dir is not None else []))

    return wire


def _apart(work: Any) -> list[dict[str, Any]]:
    """Runs `work` in a thread of its own: an async test has an event loop in this one."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work().requests)
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, name="geode-wire")
    thread.start()
    thread.join()
    (outcome,) = found
    if isinstance(outcome, BaseException):
        raise outcome
    requests: list[dict[str, Any]] = outcome
    return requests

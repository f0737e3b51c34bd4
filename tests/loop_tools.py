"""Tools and hooks that the tests of the loop name by `_target_`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from geode.contract import ImageBlock, TextBlock
from geode.hooks import Block, ContextOverflowAction, ToolExecStarted, UserInputReceived
from geode.tools.types import ToolReturn

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def echo(text: str) -> str:
    return f"echo: {text}"


def fail(n: int = 0) -> str:
    raise ValueError(f"no luck with {n}")


class Flaky:
    """Fails `failures` times, then gives `ok`."""

    def __init__(self, failures: int) -> None:
        self._left = failures

    def __call__(self, n: int = 0) -> str:
        if self._left:
            self._left -= 1
            raise RuntimeError("not yet")
        return "ok"


async def slow(seconds: float = 30) -> str:
    await asyncio.sleep(seconds)
    return "done at last"


def stand_in(n: int = 0) -> str:
    return f"stood in for {n}"


def picture() -> ToolReturn:
    return ToolReturn([TextBlock("a pixel"), ImageBlock("image/png", PIXEL)])


def long(words: int = 1000, mark: str = "x") -> str:
    return " ".join(f"{mark}{i}" for i in range(words))


# ------------------------------------------------------------------------------------------------------------- hooks


class Recorder:
    """An observer that keeps what it saw in a list of its class, by name."""

    seen: dict[str, list[Any]] = {}  # noqa: RUF012

    def __init__(self, name: str) -> None:
        self._list = self.seen.setdefault(name, [])

    async def __call__(self, payload: Any) -> None:
        self._list.append(payload)


def raising(_payload: Any) -> None:
    raise ValueError("this hook is broken")


async def raising_async(_payload: Any) -> None:
    raise ValueError("this hook is broken")


def leaving(_payload: Any) -> None:
    raise SystemExit(3)


def hanging(_payload: Any) -> None:
    time.sleep(3)


async def hanging_async(_payload: Any) -> None:
    await asyncio.sleep(30)


def own_timeout(_payload: Any) -> None:
    raise TimeoutError("my own")


def wrong_type(_payload: Any) -> Any:
    return {"text": "a dict"}


def wrong_field(payload: Any) -> Any:
    return UserInputReceived(5)  # type: ignore[arg-type]


def shout(payload: UserInputReceived) -> UserInputReceived:
    return UserInputReceived(payload.text.upper())


def later(payload: UserInputReceived) -> Any:
    """A plain function that gives an awaitable."""

    async def rewritten() -> UserInputReceived:
        return UserInputReceived(payload.text + ", please")

    return rewritten()


def no_input(_payload: Any) -> Block:
    return Block("not today")


def no_tool(payload: ToolExecStarted) -> Block:
    return Block(f"no {payload.tool} here")


def other_text(payload: ToolExecStarted) -> ToolExecStarted:
    from dataclasses import replace

    return replace(payload, input={"text": "rewritten"})


def prune_instead(payload: ContextOverflowAction) -> ContextOverflowAction:
    from dataclasses import replace

    return replace(payload, strategy="prune")


def no_compaction(_payload: Any) -> Block:
    return Block("leave the history alone")


async def leaves_async(event: object) -> None:
    raise SystemExit(9)

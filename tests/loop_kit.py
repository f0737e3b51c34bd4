"""Runs a script through the public entry, in process or over HTTP, and looks at what it left behind."""

from __future__ import annotations

import asyncio
import functools
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from geode.compose import compose_settings
from geode.contract import Delta, Message
from geode.hooks import Event, Payload, ToolExecStarted
from geode.journal import decode_message, read_journal
from geode.loop.result import AgenticResult
from geode.provider import LoopbackProvider
from geode.runner import run_settings
from geode.runner.resume import read_resume_point
from geode.settings import Settings

ADAPTERS = {"messages": "anthropic-payg", "responses": "openai-payg", "chat": "glm-payg"}
WIRES = tuple(ADAPTERS)
KEYS = {"ANTHROPIC_API_KEY": "key-for-tests", "OPENAI_API_KEY": "key-for-tests", "ZAI_API_KEY": "key-for-tests"}

TOOLS = Path(__file__).with_name("loop_tools.json")
_HANDLERS = ("echo", "fail", "slow", "stand_in", "picture", "long")

PRICE = {"input_mtok": 1.0, "output_mtok": 1_000.0}
"""A millionth of a dollar for an input token, a thousandth for an output token."""


def turn(text: str | None = None, *calls: Any, **more: Any) -> dict[str, Any]:
    """A turn of a script. A call is a name, or (name, input)."""
    listed = [{"name": c} if isinstance(c, str) else {"name": c[0], "input": c[1]} for c in calls]
    return {"text": text, "tool_calls": listed, **more}


def usage(output: int, input: int = 0) -> dict[str, int]:
    return {"input": input, "output": output}


@functools.cache
def _composed(adapter: str) -> Settings:
    return compose_settings(
        [f"adapter={adapter}", "task=question", "task.prompt=any", "display=quiet", "safety=permissive"]
    )


def settings(adapter: str = "scripted", **changes: Any) -> Settings:
    """Settings composed as on the command line, with `changes` by path: `budget__max_rounds=3`."""
    return changed(
        _composed(adapter),
        {
            "task__prompt": "Do the task.",
            "task__system": "You are a test.",
            "llm__base_delay_s": 0.01,
            "recovery__retry_delay_s": 0.0,
            "tools__definitions": [str(TOOLS)],
            "tools__defer_threshold": 0,
            "tools__handlers": {
                **{name: {"_target_": f"loop_tools.{name}"} for name in _HANDLERS},
                "flaky": {"_target_": "loop_tools.Flaky", "failures": 3},
            },
            **changes,
        },
    )


def changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    data = settings.model_dump(by_alias=True)
    for path, value in changes.items():
        node, *rest = path.split("__")
        at = data
        for key in rest:
            at, node = at[node], key
        at[node] = value
    return Settings.model_validate(data)


@dataclass(slots=True)
class Run:
    """A finished run: its result, what it emitted, its folder, and the provider that answered (over HTTP)."""

    result: AgenticResult
    folder: Path
    events: list[Payload] = field(default_factory=list)
    provider: LoopbackProvider | None = None

    @property
    def reason(self) -> str:
        return self.result.termination_reason.value

    @property
    def bodies(self) -> list[Any]:
        """The JSON of the requests, over HTTP."""
        assert self.provider is not None
        return [request.json for request in self.provider.requests]

    def of(self, event: Event) -> list[Any]:
        return [payload for payload in self.events if payload.event is event]

    @property
    def names(self) -> list[str]:
        return [payload.event.value for payload in self.events]

    @property
    def history(self) -> list[Message]:
        """The history that the journal holds."""
        return history_of(self.folder)

    @property
    def hints(self) -> list[tuple[int, str]]:
        return [(hint.round, hint.kind) for hint in self.of(Event.HINT_INSERTED)]


def history_of(folder: Path) -> list[Message]:
    messages: list[Message] = []
    for record in read_journal(folder / "journal.jsonl"):
        if record["event"] == "message":
            messages.append(decode_message(record["message"]))
        elif record["event"] == "history":
            messages = [decode_message(m) for m in record["messages"]]
    return messages


def assert_paired(messages: Sequence[Message]) -> None:
    """Each call has exactly one result right after it, in order; each result has a call."""
    for index, message in enumerate(messages):
        wanted = [use.id for use in message.tool_uses]
        if wanted:
            assert index + 1 < len(messages), f"calls {wanted} at the end have no results"
            assert [r.tool_use_id for r in messages[index + 1].tool_results] == wanted
        if message.tool_results:
            assert index > 0
            assert [u.id for u in messages[index - 1].tool_uses] == [r.tool_use_id for r in message.tool_results]
        assert message.content, "an empty message"


async def play(
    folder: Path,
    script: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    wire: str | None = None,
    *,
    clean: bool = True,
    on_delta: Any = None,
    cancel_at: str | None = None,
    wires: Sequence[str] = (),
    **changes: Any,
) -> Run:
    """Plays a script through `run_settings`. wire: over HTTP; None is the scripted adapter in process.

    clean: the provider must have found nothing wrong. cancel_at: cancels the run when a tool of that name starts.
    wires: further wires that a switch may go to.
    """
    await _warm_up(folder, wire)
    script = dict(script) if isinstance(script, Mapping) else {"turns": list(script)}
    folder = folder / f"run-{len(list(folder.glob('run-*')))}"
    events: list[Payload] = []
    provider: LoopbackProvider | None = None
    if wire is None:
        folder.mkdir(parents=True)
        path = folder / "script.yaml"
        path.write_text(yaml.safe_dump(script), encoding="utf-8")
        chosen = settings(**{"adapter__script": str(path), **changes})
    else:
        provider = LoopbackProvider(script)
        await provider.start()
        chosen = settings(
            ADAPTERS[wire],
            **{
                "adapter__base_url": provider.base_url(wire),  # type: ignore[arg-type]
                "adapters": {ADAPTERS[w]: _at(w, provider) for w in wires},
                **changes,
            },
        )
    try:

        def observe(payload: Payload) -> None:
            events.append(payload)
            if isinstance(payload, ToolExecStarted) and payload.tool == cancel_at:
                run.cancel()

        run = asyncio.ensure_future(run_settings(chosen, folder, observers=(observe,), environ=KEYS, on_delta=on_delta))
        result = await run
    finally:
        if provider is not None:
            await provider.aclose()
    done = Run(result, folder, events, provider)
    assert_paired(done.history)
    if clean and provider is not None:
        assert provider.problems == []
    return done


_warm: set[str | None] = set()


async def _warm_up(folder: Path, wire: str | None) -> None:
    """A first run over a wire imports its SDK, which takes seconds: none of a test's own time budget."""
    if wire not in _warm:
        _warm.add(wire)
        await play(folder / "warm", [turn("x", ("echo", {"text": "a"})), turn("warm")], wire)


def _at(wire: str, provider: LoopbackProvider) -> dict[str, Any]:
    data = _composed(ADAPTERS[wire]).adapter.model_dump()
    return data | {"base_url": provider.base_url(wire)}  # type: ignore[arg-type]


async def continued(run: Run, wire: str = "chat", turns: Sequence[Mapping[str, Any]] = (), **changes: Any) -> Run:
    """The run resumed with a new question: a strict provider takes the history, and it ends naturally. turns: what
    comes before the answer."""
    folder = run.folder.with_name(f"{run.folder.name}-continued-{wire}")
    shutil.copytree(run.folder, folder)
    point = replace(read_resume_point(folder), text="Go on.")
    events: list[Payload] = []
    async with LoopbackProvider({"turns": [*turns, turn("went on")]}) as provider:
        chosen = settings(
            ADAPTERS[wire],
            **{"adapter__base_url": provider.base_url(wire), **changes},  # type: ignore[arg-type]
        )
        result = await run_settings(chosen, folder, observers=(events.append,), environ=KEYS, resume=point)
    assert provider.problems == []
    assert (result.termination_reason.value, result.text) == ("natural", "went on")
    assert_paired(history_of(folder))
    return Run(result, folder, events, provider)


def deltas() -> tuple[list[Delta], Any]:
    seen: list[Delta] = []
    return seen, seen.append

"""Random conversations, played by the run's own loop against a provider that answers what it is told."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from geode.adapters.capture import CaptureTransport
from geode.compose import compose_settings
from geode.contract import History, ImageBlock, StopReason, TextBlock, ToolResultBlock, ToolSpec, ToolUseBlock
from geode.hooks import HookBus
from geode.loop.state import RunState, SessionRecord
from geode.provider.wires import wire_format
from geode.runner.assembly import Budgets, assemble
from geode.runner.backends import Backends
from geode.runner.notices import NoticeBoard
from geode.runner.toolbox import load_registry, open_toolbox
from geode.script import ScriptCall, ScriptReasoning, ScriptTurn
from geode.script.turns import ScriptUsage
from geode.settings import Settings
from geode.tools.approval import ApprovalDesk, find_approver
from geode.tools.texts import input_fault
from geode.tools.types import ToolOutcome

ADAPTERS = {"messages": "anthropic-payg", "responses": "openai-payg", "chat": "glm-payg"}
ARRAY = {"messages": '"messages":[', "responses": '"input":[', "chat": '"messages":['}
EMPTY = {"type": "object", "properties": {}}
TOOLS = tuple(ToolSpec(name, "A tool.", EMPTY) for name in ("grep_files", "look.up", "look_up", "a/b", "n" * 80))

TEXTS = st.one_of(
    st.sampled_from(["", " ", "\n", "done \n", "\x00", "\ud800", "日本語", '{"error": 1}', "x" * 300]),
    st.text(max_size=20),
)
IDS = st.one_of(
    st.none(), st.sampled_from(["", "call_1", "call_1_2", "call_1_0", "call 3/x", "ü", "i" * 90]), st.text(max_size=4)
)
NAMES = st.one_of(st.sampled_from([t.name for t in TOOLS]), st.sampled_from(["", "no.such tool", "ü", "m" * 90]))
ARGUMENTS = st.one_of(
    st.sampled_from(
        ["", "{}", "{", "null", "[1]", '"x"', "3", "NaN", '{"a": 1.50}', '{ "b" : "\\u00e9" }', '{"a":NaN}']
    ),
    st.dictionaries(st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=4)), max_size=2).map(json.dumps),
)
IMAGES = st.builds(ImageBlock, st.sampled_from(["image/png", "image/webp", "image/tiff"]), st.just("AAAA"))
CONTENTS = st.one_of(TEXTS, st.lists(st.one_of(TEXTS.map(TextBlock), IMAGES), max_size=3).map(tuple))


@dataclass(frozen=True)
class Round:
    """What the provider answers, what the calls come to, and where the user cancels ("" nowhere)."""

    turn: ScriptTurn
    contents: tuple[tuple[Any, bool], ...] = ()
    cancel: str = ""


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    kind = draw(st.sampled_from(["calls", "calls", "calls", "text", "cut", "pause", "refusal", "empty", "cancel"]))
    text = draw(TEXTS) if kind != "empty" else ""
    reasoning = draw(st.lists(st.builds(ScriptReasoning, st.text(max_size=8), st.booleans()), max_size=2))
    calls: list[ScriptCall] = []
    if kind in ("calls", "cut", "refusal"):
        made = st.builds(ScriptCall, NAMES, ARGUMENTS, IDS)
        calls = draw(st.lists(made, min_size=kind == "calls", max_size=4))
    stops = {"cut": StopReason.MAX_TOKENS, "pause": StopReason.PAUSE_TURN, "refusal": StopReason.REFUSAL}
    stop = stops.get(kind, StopReason.TOOL_USE if calls else StopReason.END_TURN)
    turn = ScriptTurn(
        "turn",
        text or None,
        tuple(reasoning) if kind != "empty" else (),
        tuple(calls),
        stop,
        usage=ScriptUsage(10, 5),
        refusal=("bio", "No.") if kind == "refusal" else None,
    )
    contents = tuple((draw(CONTENTS), draw(st.booleans())) for _ in calls)
    cancel = "llm" if kind == "cancel" else draw(st.sampled_from(["", "", "", "tools"])) if calls else ""
    return Round(turn, contents, cancel)


CONVERSATIONS = st.lists(rounds(), min_size=1, max_size=8)


@dataclass
class Provider:
    """Answers the requests of one conversation, and keeps each body."""

    wire: str
    plan: Sequence[Round]
    bodies: list[bytes] = field(default_factory=list)
    now: Round | None = None
    played: list[Round] = field(default_factory=list)

    def answer(self, request: Any) -> Any:
        body = request["body"]
        if len(self.played) >= len(self.plan):
            self.now = None
            return None
        self.now = self.plan[len(self.played)]
        self.played.append(self.now)
        if self.now.cancel == "llm":
            raise asyncio.CancelledError
        form = wire_format(self.wire)  # type: ignore[arg-type]
        return form.answer(self.now.turn, body, len(self.played), 100)


@dataclass
class Tools:
    """A processor: results as planned; faulty calls are refused as the real one refuses them."""

    provider: Provider
    calls: list[ToolUseBlock] = field(default_factory=list)

    def batch(self, tool_uses: Sequence[ToolUseBlock], **_more: Any) -> Batch:
        self.calls += tool_uses
        assert self.provider.now is not None
        return Batch(tool_uses, self.provider.now)


@dataclass
class Batch:
    tool_uses: Sequence[ToolUseBlock]
    planned: Round

    async def run(self) -> list[ToolOutcome]:
        if self.planned.cancel == "tools":
            raise asyncio.CancelledError
        return [self._outcome(c, *p) for c, p in zip(self.tool_uses, self.planned.contents, strict=True)]

    def close(self, text: str) -> list[ToolOutcome]:
        return [self._outcome(c, text, True) for c in self.tool_uses]

    def _outcome(self, call: ToolUseBlock, content: Any, is_error: bool) -> ToolOutcome:
        if call.fault is not None:
            content, is_error = input_fault(call.fault, call.arguments), True
        return ToolOutcome(call, ToolResultBlock(call.id, content, is_error), "ok")


@cache
def settings_of(wire: str) -> Settings:
    words = [f"adapter={ADAPTERS[wire]}", "budget.max_rounds=0", "budget.overthinking.responses=0", "llm.attempts=1"]
    words += ["recovery.repeats=0", "recovery.convergence=0", "toolset=none", "pricing=free"]
    if wire == "chat":
        words.append("adapter.capabilities.images=true")
    return compose_settings(words)


async def play(wire: str, plan: Sequence[Round]) -> tuple[Provider, list[bytes], Tools, History]:
    """Plays the rounds, asking on after each end: (provider, bodies as sent, tools, history)."""
    settings = settings_of(wire)
    provider = Provider(wire, plan)
    transport = CaptureTransport(provider.answer)
    notices, bus = NoticeBoard(), HookBus()
    backends = Backends(settings, {}, notices.post, transport)
    backend = await backends.open()
    history = History()
    with tempfile.TemporaryDirectory() as folder:
        toolbox = open_toolbox(
            settings,
            load_registry(settings, need_handlers=False),
            run_dir=Path(folder),
            workspace=Path("/workspace"),
            bus=bus,
            notify=notices.post,
            desk=ApprovalDesk(find_approver(None)),
            terminal=None,
            services={},
            environ={},
        )
        loop = assemble(
            settings,
            backend=backend,
            backends=backends,
            toolbox=toolbox,
            workspace=Path("/workspace"),
            history=history,
            state=RunState(SessionRecord("test")),
            bus=bus,
            notices=notices,
            budgets=Budgets(0, 0, 0, 0, 0),
        )
        tools = Tools(provider)
        loop.processor, loop.tools = tools, lambda: TOOLS
        for number in range(2 * len(plan) + 2):
            await loop.run(f"Question {number}")
            if len(provider.played) == len(plan):
                break
        await loop.run("The last one")
        toolbox.processor.close()
    await backends.aclose()
    return provider, transport.bodies, tools, history


def array(wire: str, body: bytes) -> str:
    """The text of the message array, with its brackets, as it stands in the body."""
    text = body.decode()
    start = text.index(ARRAY[wire]) + len(ARRAY[wire]) - 1
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[start:end]

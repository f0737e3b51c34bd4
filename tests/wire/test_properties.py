"""What holds of every conversation, on each wire: requests grow by a suffix, and nothing in them is ever wrong."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from strict_types import faults
from wire_cases import options_of
from wire_play import ADAPTERS, CONVERSATIONS, TOOLS, Round, array, play

from geode.adapters import make_adapter
from geode.adapters.arguments import replay_input
from geode.adapters.credentials import Secrets
from geode.adapters.history import Transcript, Turn
from geode.adapters.names import NameAliases
from geode.contract import AdapterCallRequest, Block, History, Message, ToolResultBlock, ToolUseBlock
from geode.provider.checks import semantic
from geode.provider.params import problems

WIRES = ("messages", "responses", "chat")
EXAMPLES = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), database=None)


@pytest.mark.parametrize("wire", WIRES)
@EXAMPLES
@given(plan=CONVERSATIONS)
def test_every_conversation(wire: Any, plan: list[Round]) -> None:
    provider, bodies, tools, history = asyncio.run(play(wire, plan))
    assert len(provider.played) == len(plan)
    parsed = [json.loads(body) for body in bodies]
    for body in parsed:
        assert problems(wire, body) == []
        assert semantic(wire, body) == []
    assert faults(wire, parsed[-1]) == []
    arrays = [array(wire, body) for body in bodies]
    for before, after in pairwise(arrays):
        assert after.startswith(before[:-1]), "a request's messages are those of the one before and a suffix"
    sent = calls_in(wire, parsed[-1])
    kept = [block for message in history for block in message.tool_uses]
    assert kept == tools.calls
    assert [(name, arguments) for _, name, arguments in sent] == [expected(call) for call in kept]
    given = [call.id for call in kept]
    assert [i for (i, _, _), own in zip(sent, given, strict=True) if legal(wire, own) and i != own] == []


ALIASES = NameAliases(tool.name for tool in TOOLS)


def expected(call: ToolUseBlock) -> tuple[str, Any]:
    return ALIASES.to_wire(call.name), dict(replay_input(call))


def legal(wire: str, identifier: str) -> bool:
    if wire == "messages":
        return identifier.isascii() and identifier.replace("_", "").replace("-", "").isalnum()
    return len(identifier) <= 64 and "\ud800" not in identifier


def calls_in(wire: str, body: Any) -> list[tuple[str, str, Any]]:
    """(id, name, arguments) of the calls in a request."""
    if wire == "messages":
        blocks = [b for m in body["messages"] for b in m["content"] if b["type"] == "tool_use"]
        return [(b["id"], b["name"], b["input"]) for b in blocks]
    if wire == "responses":
        items = [i for i in body["input"] if i["type"] == "function_call"]
        return [(i["call_id"], i["name"], json.loads(i["arguments"])) for i in items]
    calls = [c for m in body["messages"] for c in m.get("tool_calls", ())]
    return [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]


# ------------------------------------------------------------------------------------ each message is rendered once


class Counted:
    """A rendering that counts, handed to the transcript in the adapter's place."""

    def __init__(self) -> None:
        self.rendered: list[Turn] = []
        self.normalised: list[Message] = []

    def render(self, turn: Turn) -> list[bytes]:
        self.rendered.append(turn)
        return [json.dumps([turn.role, len(turn.blocks)]).encode()]

    def normalise(self, message: Message) -> tuple[Block, ...]:
        self.normalised.append(message)
        return message.content


@pytest.mark.parametrize("merge", [True, False])
def test_a_message_is_rendered_once_in_a_run(merge: bool) -> None:
    """Rounds as the loop makes them: of what was sent before, only the newest turn is looked at again."""
    counted, history = Counted(), History([Message.user("go")])
    transcript = Transcript(counted.render, counted.normalise, merge=merge)
    for number in range(1, 51):
        before = len(counted.rendered), len(counted.normalised)
        transcript.items(history)
        assert len(counted.rendered) - before[0] <= 2, "the new assistant turn and its results"
        assert len(counted.normalised) - before[1] <= 4
        uses = [ToolUseBlock(f"call_{number}_{i}", "grep_files", {}, "{}") for i in range(2)]
        history.append(Message.assistant("look", *uses))
        history.append(Message("user", tuple(ToolResultBlock(use.id, "x") for use in uses)))
    turns = [(turn.start, turn.role) for turn in counted.rendered]
    assert sorted(turns) == sorted(set(turns))


@pytest.mark.parametrize("wire", WIRES)
def test_grown_or_rendered_anew_the_bytes_are_the_same(wire: Any) -> None:
    backend = make_adapter(options_of(ADAPTERS[wire]), secrets=Secrets("placeholder"), notify=lambda _notice: None)
    history, bodies = History([Message.user("go")]), []
    for number in range(6):
        call = ToolUseBlock(f"call_{number}", "grep_files", {"n": number}, f'{{"n": {number}.0}}')
        history.append(Message.assistant(call))
        history.append(Message("user", (ToolResultBlock(call.id, "x"),)))
        bodies.append(array(wire, backend.build(AdapterCallRequest(history, "S", TOOLS))))
    assert all(after.startswith(before[:-1]) for before, after in pairwise(bodies))
    assert array(wire, backend.build(AdapterCallRequest(tuple(history), "S", TOOLS))) == bodies[-1]
    assert [
        arguments for _, _, arguments in calls_in(wire, json.loads(backend.build(AdapterCallRequest(history))))
    ] == [{"n": float(number)} for number in range(6)]


class Watched(History):
    """Notes which of its messages are looked at."""

    looked: list[int]

    def __getitem__(self, index: Any) -> Any:
        self.looked.append(index)
        return super().__getitem__(index)


@pytest.mark.parametrize("wire", WIRES)
def test_old_messages_are_not_looked_at_again_even_where_two_histories_take_turns(wire: Any) -> None:
    """A run and its sub-agent share an adapter."""
    backend = make_adapter(options_of(ADAPTERS[wire]), secrets=Secrets("placeholder"), notify=lambda _notice: None)
    histories = [Watched([Message.user(name)]) for name in ("parent", "child")]
    sent = ["[]", "[]"]
    for number in range(30):
        for index, history in enumerate(histories):
            history.looked = []
            now = array(wire, backend.build(AdapterCallRequest(history, "S", TOOLS)))
            assert now.startswith(sent[index][:-1])
            assert min(history.looked) >= len(history) - 4
            sent[index] = now
            call = ToolUseBlock(f"call_{number}", "grep_files", {}, "{}")
            history.append(Message.assistant(f"answer {number}", call))
            history.append(Message("user", (ToolResultBlock(call.id, "x"),)))

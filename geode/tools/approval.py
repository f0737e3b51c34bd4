"""Asking a person whether a call may run, and remembering what they said for always."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from geode.contract import Tier
from geode.tools.terminal import Terminal, TerminalDialogue, visible

__all__ = ["Answer", "ApprovalDesk", "ApprovalRequest", "Approver", "NoTerminal", "TerminalApprover", "find_approver"]

_TRIES = 5


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One call that needs approval. `origin`: the sub-agent that wants it, empty for the run itself."""

    tool_use_id: str
    tool: str
    tier: Tier
    arguments: Mapping[str, Any]
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said. always: it holds for later calls too. by: who said it. reason: a person's words, if any."""

    allowed: bool
    by: Literal["user", "always", "no_terminal"] = "user"
    always: bool = False
    reason: str = ""


class Approver(Protocol):
    """Something that can ask. `calls` holds one call, or all expensive calls of a response: one answer for all."""

    async def ask(self, calls: Sequence[ApprovalRequest]) -> Answer: ...


class NoTerminal:
    """Denies: there is nobody to ask."""

    async def ask(self, calls: Sequence[ApprovalRequest]) -> Answer:
        return Answer(False, "no_terminal")


class TerminalApprover:
    """Asks at a terminal: yes, no (with a reason, if one is typed after it), or always.

    Arguments are shown in full, with control characters escaped, so that no model can forge what the person reads.
    An empty line and end of input mean no.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    async def ask(self, calls: Sequence[ApprovalRequest]) -> Answer:
        try:
            async with self._terminal.dialogue() as dialogue:
                return await self._ask(dialogue, calls)
        except OSError:
            return Answer(False, "no_terminal")

    async def _ask(self, dialogue: TerminalDialogue, calls: Sequence[ApprovalRequest]) -> Answer:
        await dialogue.write(_question(calls))
        prompt = f"Allow? [y]es / [n]o / [a]lways ({_always(calls)}): "
        for _ in range(_TRIES):
            line = await dialogue.ask(prompt)
            if line is None:
                await dialogue.write("\n")
                break
            answer = _read(line)
            if answer is not None:
                return answer
            await dialogue.write("Please answer y, n or a.\n")
        return Answer(False)


def find_approver(terminal: Terminal | None) -> Approver:
    """An approver for the terminal, or one that denies where there is none."""
    return NoTerminal() if terminal is None else TerminalApprover(terminal)


class ApprovalDesk:
    """Where the calls of a run, and of its sub-agents, wait for approval: one question at a time.

    `always` holds for the tool for the rest of the run; for a dangerous tool, only with identical arguments.
    """

    def __init__(self, approver: Approver) -> None:
        self._approver = approver
        self._lock = asyncio.Lock()
        self._tools: set[str] = set()
        self._calls: set[tuple[str, str]] = set()

    def remembered(self, call: ApprovalRequest) -> bool:
        """Whether an earlier `always` covers this call."""
        if call.tier is Tier.DANGEROUS:
            return (call.tool, _canonical(call.arguments)) in self._calls
        return call.tool in self._tools

    async def ask(self, calls: Sequence[ApprovalRequest]) -> Answer:
        """One answer for all of `calls`."""
        async with self._lock:
            if all(self.remembered(call) for call in calls):  # answered while this one waited
                return Answer(True, "always")
            try:
                answer = await self._approver.ask(calls)
            except Exception:  # whoever should ask cannot: as good as nobody
                answer = Answer(False, "no_terminal")
        if answer.allowed and answer.always:
            for call in calls:
                if call.tier is Tier.DANGEROUS:
                    self._calls.add((call.tool, _canonical(call.arguments)))
                else:
                    self._tools.add(call.tool)
        return answer


def _canonical(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True, ensure_ascii=True, default=repr)


def _read(line: str) -> Answer | None:
    word, _, rest = line.strip().partition(" ")
    word = word.rstrip(",:;.").casefold()
    if word in ("", "n", "no"):
        return Answer(False, reason=rest.strip())
    if rest.strip():
        return None
    if word in ("y", "yes"):
        return Answer(True)
    if word in ("a", "always"):
        return Answer(True, always=True)
    return None


def _always(calls: Sequence[ApprovalRequest]) -> str:
    if any(call.tier is Tier.DANGEROUS for call in calls):
        return "only with exactly these arguments"
    return "this tool, for this run" if len({call.tool for call in calls}) == 1 else "these tools, for this run"


def _question(calls: Sequence[ApprovalRequest]) -> str:
    first = calls[0]
    who = f"Sub-agent {visible(first.origin)}" if first.origin else "The model"
    if len(calls) == 1:
        lines = ["", f"{who} wants to run {visible(first.tool)} ({first.tier}):", *_arguments(first, "  ")]
    else:
        lines = ["", f"{who} wants to run {len(calls)} {first.tier} calls:"]
        for number, call in enumerate(calls, 1):
            lines += [f"  {number}. {visible(call.tool)}", *_arguments(call, "     ")]
    return "\n".join(lines) + "\n"


def _arguments(call: ApprovalRequest, indent: str) -> list[str]:
    if not call.arguments:
        return [f"{indent}(no arguments)"]
    return [
        f"{indent}{visible(str(name))}: {visible(json.dumps(value, ensure_ascii=False, default=str))}"
        for name, value in call.arguments.items()
    ]

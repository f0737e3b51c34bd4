"""The scripted adapter: answers from a script, in process, with no model, no key and no network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from geode.adapters.arguments import parse_arguments, unique_ids
from geode.adapters.scripted_faults import error_of
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    Block,
    Capabilities,
    Delta,
    ErrorKind,
    History,
    ImageBlock,
    InputFault,
    Message,
    ReasoningBlock,
    Source,
    StopReason,
    TextBlock,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
    Usage,
)
from geode.script import Fault, Script, ScriptPlayer, ScriptResult, ScriptTurn, ScriptView

__all__ = ["ScriptedAdapter"]

_KEPT_TRAILS = 32


@dataclass(slots=True)
class _Trail:
    """What was gathered from one history so far: only messages after `seen` are looked at in the next call."""

    messages: Sequence[Message]
    generation: int = 0
    seen: int = 0
    names: dict[str, str] = field(default_factory=dict)
    results: list[ScriptResult] = field(default_factory=list)
    first_user: str = ""
    user: str = ""
    chars: int = 0

    def follow(self) -> None:
        for index in range(self.seen, len(self.messages)):
            message = self.messages[index]
            texts: list[str] = []
            for block in message.content:
                if isinstance(block, ToolUseBlock):
                    self.names[block.id] = block.name
                    self.chars += len(block.name) + len(block.arguments or "")
                elif isinstance(block, ToolResultBlock):
                    text = block.text
                    name = self.names.get(block.tool_use_id, "")
                    self.results.append(ScriptResult(block.tool_use_id, name, text, block.is_error))
                    self.chars += len(text)
                elif isinstance(block, TextBlock):
                    texts.append(block.text)
            if texts:
                text = "\n".join(texts)
                self.chars += len(text)
                if message.role == "user":
                    self.first_user = self.first_user or text
                    self.user = text
        self.seen = len(self.messages)


class ScriptedAdapter:
    """Plays a script. Nothing in a call grows with the length of the history.

    Several nested runs may share one adapter: each history is followed by itself. `player` may be given to share one
    script between adapters (a switch of models).
    """

    def __init__(
        self,
        script: Script,
        *,
        name: str = "scripted",
        model: str = "scripted",
        max_tokens: int = 4096,
        capabilities: Capabilities | None = None,
        player: ScriptPlayer | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.max_tokens = max_tokens
        self.capabilities = capabilities or Capabilities()
        self.player = player or ScriptPlayer(script)
        self.requests = 0
        """Calls made so far."""
        self._source = Source("scripted", name, model)
        self._trails: dict[int, _Trail] = {}
        self._tools: tuple[tuple[ToolSpec, ...], tuple[str, ...]] = ((), ())

    # ------------------------------------------------------------------------------------------------ the contract

    def build(self, request: AdapterCallRequest) -> bytes:
        """The request as neutral JSON. `call` does not use it."""
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.max_tokens or self.max_tokens,
            "system": request.system,
            "messages": [{"role": m.role, "content": [_shown(b) for b in m.content]} for m in request.messages],
            "tools": [
                {"name": t.name, "description": t.description, "input_schema": dict(t.input_schema)}
                for t in request.tools
            ],
        }
        if request.tools:
            choice = request.tool_choice
            body["tool_choice"] = {"type": choice.type, **({"name": choice.name} if choice.name else {})}
        if request.response_schema is not None:
            body["response_schema"] = request.response_schema
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=str).encode(
            "utf-8", "backslashreplace"
        )

    def parse(self, payload: Mapping[str, Any], round: int = 1) -> AdapterCallResult:
        """Reads `{text, reasoning, tool_calls, stop, ...}`, a turn of a script, as an answer."""
        from geode.script import ScriptFormatError

        try:
            script = Script.load({"turns": [dict(payload)]})
        except ScriptFormatError as error:
            raise AdapterError(ErrorKind.BAD_RESPONSE, str(error), provider=self.name) from None
        return self._result(ScriptPlayer(script).next(ScriptView()), round, 0)

    async def call(self, request: AdapterCallRequest) -> AdapterCallResult:
        """The script's next turn. Raises AdapterError: the turn's fault, or kind SCRIPT where the script is over."""
        self.requests += 1
        trail = self._trail(request.messages)
        turn = self.player.next(self._view(request, trail))
        if turn.delay_s or turn.fault:
            try:
                async with asyncio.timeout(request.timeout_s):
                    await asyncio.sleep(turn.delay_s)
                    if turn.fault:
                        await self._misbehave(turn, turn.fault, request)
            except TimeoutError:
                seconds = request.timeout_s or 0
                message = f"no answer within {seconds:g} s"
                raise AdapterError(ErrorKind.TIMEOUT, message, provider=self.name) from None
        else:
            await asyncio.sleep(0)  # as any other adapter, let the rest of the program have its turn
        result = self._result(turn, request.round, trail.chars + len(request.system))
        if request.on_delta is not None:
            interval = turn.fault.interval_s if turn.fault and turn.fault.kind == "slow" else 0.0
            for delta in _deltas(turn):
                request.on_delta(delta)
                await asyncio.sleep(interval)
        return result

    async def aclose(self) -> None:
        """Forgets the histories it followed."""
        self._trails.clear()

    # ------------------------------------------------------------------------------------------------------- parts

    def _trail(self, messages: Sequence[Message]) -> _Trail:
        if not isinstance(messages, History):
            trail = _Trail(messages)
            trail.follow()
            return trail
        found = self._trails.get(id(messages))
        if found is None or found.generation != messages.generation:
            first = found.first_user if found else ""  # a compaction does not move a run to another conversation
            found = _Trail(messages, messages.generation, first_user=first)
            self._trails.pop(id(messages), None)
            if len(self._trails) >= _KEPT_TRAILS:
                del self._trails[next(iter(self._trails))]
            self._trails[id(messages)] = found
        found.follow()
        return found

    def _view(self, request: AdapterCallRequest, trail: _Trail) -> ScriptView:
        if self._tools[0] is not request.tools:
            self._tools = (request.tools, tuple(tool.name for tool in request.tools))
        return ScriptView(
            system=request.system,
            user=trail.user,
            first_user=trail.first_user,
            tools=self._tools[1],
            tool_choice=request.tool_choice if request.tools else None,
            results=trail.results,
            request=self.requests,
            max_tokens=request.max_tokens or self.max_tokens,
            thinking=request.thinking,
            wants_json=request.response_schema is not None,
        )

    def _result(self, turn: ScriptTurn, round: int, input_chars: int) -> AdapterCallResult:
        content: list[Block] = [
            ReasoningBlock(part.text, self._source, {"type": "redacted" if part.redacted else "reasoning"})
            for part in turn.reasoning
        ]
        if turn.text:
            content.append(TextBlock(turn.text, turn.phase))
        ids = unique_ids((call.id for call in turn.tool_calls), round)
        last = len(turn.tool_calls) - 1
        for index, (call, call_id) in enumerate(zip(turn.tool_calls, ids, strict=True)):
            cut = turn.stop is StopReason.MAX_TOKENS and index == last
            value, arguments, fault = parse_arguments(call.arguments, cut=cut)
            content.append(ToolUseBlock(call_id, call.name, value, arguments, fault))
        usage = turn.estimated_usage(input_chars)
        details: dict[str, Any] | None = None
        if turn.refusal:
            details = {"type": "refusal", "category": turn.refusal[0], "explanation": turn.refusal[1]}
        return AdapterCallResult(
            tuple(content),
            turn.stop,
            Usage(
                usage.input,
                usage.output,
                usage.cache_read,
                usage.cache_write,
                usage.cache_write_1h,
                usage.reasoning,
                known=not usage.missing,
            ),
            model=self.model,
            raw_stop=turn.stop.value,
            stop_details=details,
            request_id=f"scripted_{self.requests}",
        )

    async def _misbehave(self, turn: ScriptTurn, fault: Fault, request: AdapterCallRequest) -> None:
        """Raises what the fault is to a caller; returns where the answer still comes."""
        kind, message, status = error_of(fault)
        partial: AdapterCallResult | None = None
        if fault.kind in ("hang", "cut", "stream_error") and fault.after:
            pieces = list(_deltas(turn))[: fault.after]
            for piece in pieces:
                if request.on_delta is not None:
                    request.on_delta(piece)
            partial = self._partial(pieces, turn)
        if fault.kind == "hang":
            await asyncio.get_running_loop().create_future()
        if kind is None:
            return
        raise AdapterError(
            kind,
            message,
            provider=self.name,
            status=status,
            code=fault.code,
            request_id=f"scripted_{self.requests}",
            retry_after_s=fault.retry_after if fault.retry_after is not None else fault.retry_after_date,
            partial=partial,
        )

    def _partial(self, pieces: Sequence[Delta], turn: ScriptTurn) -> AdapterCallResult | None:
        content: list[Block] = []
        if reasoning := "".join(p.text for p in pieces if p.kind == "reasoning"):
            content.append(ReasoningBlock(reasoning, self._source))
        if text := "".join(p.text for p in pieces if p.kind == "text"):
            content.append(TextBlock(text))
        if any(p.kind == "tool" for p in pieces):
            ids = unique_ids((call.id for call in turn.tool_calls), 1)
            content += [
                ToolUseBlock(i, c.name, {}, None, InputFault.CUT) for i, c in zip(ids, turn.tool_calls, strict=True)
            ]
        return AdapterCallResult(tuple(content), StopReason.ERROR, model=self.model) if content else None


def _deltas(turn: ScriptTurn) -> Iterator[Delta]:
    for part in turn.reasoning:
        yield from (Delta("reasoning", piece) for piece in _pieces("" if part.redacted else part.text))
    yield from (Delta("text", piece) for piece in _pieces(turn.text or ""))
    for call in turn.tool_calls:
        yield Delta("tool", call.name)
        yield from (Delta("tool", piece) for piece in _pieces(call.arguments))


def _pieces(text: str) -> Iterator[str]:
    size = max(12, len(text) // 8)
    return (text[i : i + size] for i in range(0, len(text), size))


def _shown(block: Block) -> dict[str, Any]:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ImageBlock():
            return {"type": "image", "media_type": block.media_type, "data": block.data}
        case ReasoningBlock():
            return {"type": "reasoning", "text": block.text}
        case ToolUseBlock():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": dict(block.input)}
        case ToolResultBlock():
            content = block.content if isinstance(block.content, str) else [_shown(b) for b in block.content]
            return {"type": "tool_result", "id": block.tool_use_id, "content": content, "is_error": block.is_error}

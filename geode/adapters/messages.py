"""The Messages API: anthropic-payg, anthropic-oauth and every server that speaks it.

A request is joined from bytes that are made once: the history's by the transcript, the tools' and the system prompt's
as long as they stay the same.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from geode.adapters import messages_body as body
from geode.adapters import schemas
from geode.adapters.credentials import Secrets
from geode.adapters.messages_parse import MessageReader
from geode.adapters.messages_render import Normaliser, Renderer, dumps
from geode.adapters.messages_stream import MessageAssembler
from geode.adapters.messages_tools import Toolbox, ToolOptions, make_toolbox
from geode.adapters.options import AdapterOptions
from geode.adapters.sdk import ApiClient
from geode.adapters.tool_choice import OnUnsupported, ToolChoiceError, resolve, to_wire
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    ErrorKind,
    History,
    Notice,
    NoticeSink,
    Source,
    ToolChoice,
    ToolSpec,
)

if TYPE_CHECKING:
    import httpx2

__all__ = ["MessagesAdapter"]

PATH = "/v1/messages"

_BOUND = re.compile(r"thinking.{0,40} block.*bound to a different", re.IGNORECASE | re.DOTALL)
"""The API's refusal of a thinking block whose conversation, or model, is not the one that it was made in."""

_RECENT = 8
"""How many toolboxes, and histories, are remembered: a run needs one or two, its sub-agents some more."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A request ready to go, and how its answer is read."""

    body: bytes
    stream: bool
    reader: MessageReader


@dataclass(frozen=True, slots=True)
class _ToolboxKey:
    tools: tuple[ToolSpec, ...]
    deferred: frozenset[str]
    allowed: frozenset[str] | None


class MessagesAdapter:
    """An adapter (see `contract.Adapter`) of the Messages API.

    secrets: the key or token. notify: told once of each thing that is dropped or degraded. on_unsupported,
    unsendable: what becomes of a tool choice, or a tool, that the backend does not take. transport: takes the place of
    the network.
    """

    def __init__(
        self,
        options: AdapterOptions,
        *,
        secrets: Secrets,
        notify: NoticeSink,
        on_unsupported: OnUnsupported = "send",
        unsendable: Literal["drop", "error"] = "drop",
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.name = options.name
        self.model = options.model
        self.max_tokens = options.max_tokens
        self.capabilities = options.capabilities
        self._options = options
        self._sink = notify
        self._told: set[str] = set()
        self._on_unsupported: OnUnsupported = on_unsupported
        self._client = ApiClient("anthropic", options, secrets, transport)
        self._source = Source("messages", options.name, options.model)
        self._normalise = Normaliser(options.name, options.model, options.capabilities.images)
        self._tool_options = ToolOptions(
            options.name,
            body.cache_control(options) if options.cache.prefix else None,
            options.strict,
            options.capabilities.max_tools,
            unsendable,
        )
        self._toolboxes: list[tuple[_ToolboxKey, Toolbox]] = []
        self._transcripts: OrderedDict[int, tuple[History, Renderer]] = OrderedDict()
        self._system: tuple[str, bytes] = ("", b"")
        self._output: tuple[Mapping[str, Any] | None, schemas.Sendable | None] = (None, None)
        self._reader = MessageReader(self._source, self._toolbox((), frozenset(), None))
        if "messages" in options.extra_body:
            self._notify(
                Notice("extra_body.messages", "messages in extra_body is ignored", "~adapter.extra_body.messages")
            )

    def build(self, request: AdapterCallRequest) -> bytes:
        """The request's body, byte for byte as it is sent. Raises AdapterError for a tool that cannot be sent, or a
        choice that the backend does not take, where the config makes those errors."""
        plan = self._plan(request)
        self._reader = plan.reader
        return plan.body

    def parse(self, payload: Mapping[str, Any], round: int = 1) -> AdapterCallResult:
        """Reads an answer to the last request built. Raises AdapterError(BAD_RESPONSE) where it is none."""
        return self._reader.read(payload, round)

    async def call(self, request: AdapterCallRequest) -> AdapterCallResult:
        """Sends a request and reads its answer. Raises AdapterError; `partial` holds what a cut stream delivered.

        A request that is refused for its earlier thinking is sent once more without it.
        """
        try:
            return await self._send(self._plan(request), request)
        except AdapterError as error:
            if not self._forget_thinking(error, request):
                raise
        return await self._send(self._plan(request), request)

    async def aclose(self) -> None:
        """Closes the connections. Safe to call twice."""
        await self._client.aclose()

    async def _send(self, plan: _Plan, request: AdapterCallRequest) -> AdapterCallResult:
        self._reader = plan.reader
        if plan.stream:
            return await self._stream(plan, request)
        return plan.reader.read(await self._client.post(PATH, plan.body, request.timeout_s), request.round)

    def _forget_thinking(self, error: AdapterError, request: AdapterCallRequest) -> bool:
        """Whether the call can be made again without its earlier thinking.

        Newer models check that nothing before a thinking block has changed since it was made (Anthropic's preserved
        thinking), which a compaction or another set of tools does.
        """
        if error.kind is not ErrorKind.INVALID_REQUEST or not _BOUND.search(error.message):
            return False
        if not self._normalise.forget_thinking(request.messages):
            return False
        self._transcripts.clear()
        text = "thinking from before a change of the conversation is left out: the model refuses it"
        self._notify(Notice("thinking.bound", text))
        return True

    async def _stream(self, plan: _Plan, request: AdapterCallRequest) -> AdapterCallResult:
        assembler = MessageAssembler()
        async with self._client.stream(PATH, plan.body, request.timeout_s) as events:
            try:
                async for event in events:
                    delta = assembler.feed(event)
                    if delta is not None and request.on_delta is not None:
                        request.on_delta(delta)
                if not assembler.complete:
                    raise AdapterError(
                        ErrorKind.CONNECTION,
                        "the stream ended before the answer did",
                        provider=self.name,
                        request_id=events.request_id,
                    )
            except AdapterError as error:
                if assembler.started and error.partial is None:
                    error.partial = plan.reader.read(assembler.payload(), request.round, cut=True)
                raise
            return plan.reader.read(assembler.payload(events.request_id), request.round)

    # ------------------------------------------------------------------------------------------------ building a body

    def _plan(self, request: AdapterCallRequest) -> _Plan:
        options = self._options
        try:
            choice, narrowed = resolve(
                request.tool_choice, self.capabilities, self._on_unsupported, self._notify, self.name
            )
        except ToolChoiceError as error:
            raise AdapterError(ErrorKind.TOOL_CHOICE, str(error), provider=self.name) from None
        allowed = request.allowed
        if narrowed is not None:
            allowed = narrowed if allowed is None else narrowed & allowed
        deferred = request.deferred if self.capabilities.tool_search and choice.type != "tool" else frozenset()
        toolbox = self._toolbox(request.tools, deferred, allowed)
        for notice in toolbox.notices:
            self._notify(notice)
        if choice.type == "tool" and choice.name not in toolbox.names:
            raise AdapterError(
                ErrorKind.INVALID_REQUEST,
                f"tool_choice names {choice.name}, which is not among the tools that are sent",
                provider=self.name,
            )
        max_tokens = request.max_tokens or options.max_tokens
        if options.capabilities.max_output_tokens:
            max_tokens = min(max_tokens, options.capabilities.max_output_tokens)
        sent_choice = choice if toolbox.array else ToolChoice()
        thinking, effort = body.thinking(options, request, sent_choice, max_tokens, self._notify)
        output = self._output_schema(request.response_schema)
        asked = request.response_schema if output is None else None
        stream = self.capabilities.streaming and (
            options.stream or request.on_delta is not None or body.long_call(max_tokens)
        )

        parts: dict[str, bytes] = {"model": dumps(options.model), "max_tokens": dumps(max_tokens)}
        if system := body.system_text(request.system, asked):
            parts["system"] = self._system_bytes(system)
        if toolbox.array:
            parts["tools"] = toolbox.array
        parts["messages"] = b""  # in its place; the pieces come with the join
        if toolbox.array:
            parts["tool_choice"] = dumps(to_wire(choice, "messages", toolbox.aliases.to_wire))
        if thinking is not None:
            parts["thinking"] = dumps(thinking)
        output_config: dict[str, Any] = {}
        if effort is not None:
            output_config["effort"] = effort
        if output is not None:
            output_config["format"] = {"type": "json_schema", "schema": output.schema}
        if output_config:
            parts["output_config"] = dumps(output_config)
        for key, value in body.sampling(options, thinking is not None, self._notify).items():
            parts[key] = dumps(value)
        if options.cache.moving:
            parts["cache_control"] = dumps(body.cache_control(options))
        if stream:
            parts["stream"] = b"true"
        parts.update((key, dumps(value)) for key, value in options.extra_body.items() if key != "messages")
        return _Plan(
            body.join(parts, self._items(request, toolbox)), stream, MessageReader(self._source, toolbox, output)
        )

    def _items(self, request: AdapterCallRequest, toolbox: Toolbox) -> list[bytes | bytearray]:
        history = request.messages
        if not isinstance(history, History):
            return Renderer(self._normalise).pieces(history, toolbox)
        known = self._transcripts.get(id(history))
        if known is None:
            known = self._transcripts[id(history)] = (history, Renderer(self._normalise))
            if len(self._transcripts) > _RECENT:
                self._transcripts.popitem(last=False)
        self._transcripts.move_to_end(id(history))
        return known[1].pieces(history, toolbox)

    def _toolbox(
        self, tools: tuple[ToolSpec, ...], deferred: frozenset[str], allowed: frozenset[str] | None
    ) -> Toolbox:
        key = _ToolboxKey(tools, deferred, allowed)
        for known, toolbox in self._toolboxes:
            if known == key:
                return toolbox
        toolbox = make_toolbox(tools, deferred, allowed, self._tool_options)
        self._toolboxes = [(key, toolbox), *self._toolboxes[: _RECENT - 1]]
        return toolbox

    def _system_bytes(self, text: str) -> bytes:
        if self._system[0] != text:
            value: Any = text
            if self._options.cache.prefix:
                value = [{"type": "text", "text": text, "cache_control": body.cache_control(self._options)}]
            self._system = (text, dumps(value))
        return self._system[1]

    def _output_schema(self, schema: Mapping[str, Any] | None) -> schemas.Sendable | None:
        if schema is not self._output[0]:
            self._output = (schema, body.output_schema(self._options, schema, self._notify))
        return self._output[1]

    def _notify(self, notice: Notice) -> None:
        if notice.key not in self._told:
            self._told.add(notice.key)
            self._sink(notice)

"""Chat Completions: glm-payg, glm-coding-plan, and every server that speaks this wire.

A request is joined from bytes that are made once: the history's by the transcript, the tools' and the system
message's as long as they stay the same. See OpenAI's API reference ("Create chat completion") and Z.ai's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from geode.adapters.chat_format import AnswerFormat, make_format
from geode.adapters.chat_parse import ChatReader
from geode.adapters.chat_render import EMPTY_INPUT, MessageRenderer, dump
from geode.adapters.chat_stream import ChatAssembler
from geode.adapters.chat_tools import ToolArray, make_tool_array
from geode.adapters.credentials import Secrets
from geode.adapters.history import Transcript
from geode.adapters.options import AdapterOptions
from geode.adapters.schemas import undo_text
from geode.adapters.sdk import ApiClient
from geode.adapters.tool_choice import OnUnsupported, ToolChoiceError, resolve, to_wire
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    ErrorKind,
    History,
    Message,
    Notice,
    NoticeSink,
    Source,
    TextBlock,
    ToolChoice,
    ToolSpec,
)

if TYPE_CHECKING:
    import httpx2

__all__ = ["ChatAdapter"]

PATH = "/chat/completions"

_RECENT = 8
"""How many toolsets, and histories, are remembered: a run needs one or two, its sub-agents some more."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A request ready to go, and how its answer is read."""

    body: bytes
    stream: bool
    reader: ChatReader
    format: AnswerFormat

    def read(self, payload: Any, round: int, request_id: str | None = None, *, cut: bool = False) -> AdapterCallResult:
        try:
            result = self.reader.read(payload, round, cut=cut)
        except AdapterError as error:
            error.request_id = error.request_id or request_id
            raise
        content = result.content
        if self.format.sent is not None and not result.tool_uses:
            sent = self.format.sent
            content = tuple(
                replace(b, text=undo_text(sent, b.text)) if isinstance(b, TextBlock) else b for b in content
            )
        return replace(result, content=content, request_id=request_id)


class ChatAdapter:
    """An adapter (see `contract.Adapter`) of the Chat Completions API.

    secrets: the key. notify: told once of each thing that is dropped or degraded. on_unsupported, unsendable: what
    becomes of a tool choice, or a tool, that the backend does not take. transport: takes the place of the network.
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
        self._unsendable: Literal["drop", "error"] = unsendable
        self._source = Source("chat", options.name, options.model)
        self._client = ApiClient("openai", options, secrets, transport)
        self._toolsets: list[tuple[tuple[ToolSpec, ...], frozenset[str] | None, ToolArray]] = []
        self._transcripts: OrderedDict[int, tuple[History, MessageRenderer, Transcript]] = OrderedDict()
        self._system: tuple[str, bytes] = ("", b"")
        self._format = AnswerFormat()
        self._fixed = {key: dump(value) for key, value in self._fixed_keys().items()}
        self._built: _Plan | None = None

    def build(self, request: AdapterCallRequest) -> bytes:
        """The request's body, byte for byte as it is sent. Raises AdapterError for a tool that cannot be sent, or a
        choice that the backend does not take, where the config makes those errors."""
        return self._plan(request).body

    def parse(self, payload: Mapping[str, Any], round: int = 1) -> AdapterCallResult:
        """Reads an answer; tool names are those of the request built last. Raises AdapterError(BAD_RESPONSE) where it
        is none."""
        built = self._built or _Plan(b"", False, self._reader(self._tools((), None)), self._format)
        return built.read(payload, round)

    async def call(self, request: AdapterCallRequest) -> AdapterCallResult:
        """Sends a request and reads its answer. Raises AdapterError; `partial` holds what a cut stream delivered."""
        plan = self._plan(request)
        if plan.stream:
            return await self._stream(plan, request)
        payload = await self._client.post(PATH, plan.body, request.timeout_s)
        return plan.read(payload, request.round, payload.request_id)

    async def aclose(self) -> None:
        """Closes the connections. Safe to call twice."""
        await self._client.aclose()

    async def _stream(self, plan: _Plan, request: AdapterCallRequest) -> AdapterCallResult:
        assembler = ChatAssembler(self._options.reasoning_field, request.on_delta)
        async with self._client.stream(PATH, plan.body, request.timeout_s) as events:
            try:
                async for event in events:
                    assembler.add(event)
                if not assembler.finished and not events.done:
                    text = "the stream ended before the answer did"
                    raise AdapterError(ErrorKind.CONNECTION, text, provider=self.name, request_id=events.request_id)
            except AdapterError as error:
                if assembler.anything and error.partial is None:
                    error.partial = plan.read(assembler.payload(), request.round, events.request_id, cut=True)
                raise
            if not assembler.started:
                text = "the stream held no answer"
                raise AdapterError(ErrorKind.BAD_RESPONSE, text, provider=self.name, request_id=events.request_id)
            return plan.read(assembler.payload(), request.round, events.request_id)

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
        tools = self._tools(request.tools, allowed)
        self._check(choice, tools)
        format = self._format_of(request.response_schema)
        stream = self.capabilities.streaming and (options.stream or request.on_delta is not None)

        parts: dict[str, bytes] = {"model": dump(options.model)}
        parts["messages"] = b""  # in its place; the pieces come with the join
        if tools.json:
            parts["tools"] = tools.json
            parts["tool_choice"] = dump(to_wire(choice, "chat", tools.aliases.to_wire))
        if format.json:
            parts["response_format"] = format.json
        if options.max_tokens_field is not None:
            limit = options.max_tokens if request.max_tokens is None else request.max_tokens
            limit = min(limit, self.capabilities.max_output_tokens or limit)
            parts[options.max_tokens_field] = b"%d" % limit
        parts.update(self._fixed)
        for key, value in self._thinking(request.thinking).items():
            parts[key] = dump(value)
        if stream:
            parts["stream"] = b"true"
            parts["stream_options"] = b'{"include_usage":true}'
        for key, value in options.extra_body.items():
            if key not in ("messages", "stream"):
                parts[key] = dump(value)
        chunks: list[bytes | bytearray] = []
        for key, value in parts.items():  # one join: the messages are most of the body, and each copy of them costs
            chunks += (b"," if chunks else b"{", dump(key), b":")
            chunks += self._messages(request, tools, format) if key == "messages" else (value,)
        body = b"".join((*chunks, b"}"))
        self._built = _Plan(body, stream, self._reader(tools), format)
        return self._built

    def _reader(self, tools: ToolArray) -> ChatReader:
        return ChatReader(self._source, self._options.reasoning_field, tools.aliases.to_own)

    def _check(self, choice: ToolChoice, tools: ToolArray) -> None:
        for notice in tools.notices:
            self._notify(notice)
        if choice.type == "tool" and choice.name not in tools.names:
            text = f"tool_choice names {choice.name}, which is not among the tools that are sent"
            raise AdapterError(ErrorKind.INVALID_REQUEST, text, provider=self.name)

    def _messages(
        self, request: AdapterCallRequest, tools: ToolArray, format: AnswerFormat
    ) -> tuple[bytes | bytearray, ...]:
        system = "\n\n".join(filter(None, (request.system, format.prompt)))
        if system != self._system[0]:
            self._system = (system, dump({"role": "system", "content": system}) + b"," if system else b"")
        items = self._items(request.messages, tools) or [EMPTY_INPUT]
        return (b"[", self._system[1], *items, b"]")

    def _items(self, messages: Sequence[Message], tools: ToolArray) -> list[bytes | bytearray]:
        if not isinstance(messages, History):
            renderer, transcript = self._new_transcript()
        else:
            known = self._transcripts.get(id(messages))
            if known is None:
                known = self._transcripts[id(messages)] = (messages, *self._new_transcript())
                if len(self._transcripts) > _RECENT:
                    self._transcripts.popitem(last=False)
            self._transcripts.move_to_end(id(messages))
            _, renderer, transcript = known
        renderer.alias = tools.aliases.to_wire
        return transcript.pieces(messages, tools.key)

    def _new_transcript(self) -> tuple[MessageRenderer, Transcript]:
        options = self._options
        renderer = MessageRenderer(
            self._source,
            images=self.capabilities.images,
            empty_content=options.empty_content,
            always=options.reasoning_field if options.reasoning_always else None,
            placeholder=options.reasoning_placeholder,
        )
        return renderer, Transcript(renderer.render, renderer.normalise)

    def _tools(self, specs: tuple[ToolSpec, ...], allowed: frozenset[str] | None) -> ToolArray:
        for known, narrowed, array in self._toolsets:
            if narrowed == allowed and known == specs:
                return array
        array = make_tool_array(
            specs,
            allowed,
            adapter=self.name,
            strict=self._options.strict,
            max_tools=self.capabilities.max_tools,
            unsendable=self._unsendable,
        )
        self._toolsets = [(specs, allowed, array), *self._toolsets[: _RECENT - 1]]
        return array

    def _fixed_keys(self) -> dict[str, Any]:
        options = self._options
        given = {"temperature": options.temperature, "top_p": options.top_p, "seed": options.seed}
        keys = {name: value for name, value in given.items() if value is not None}
        return {**keys, "stop": list(options.stop)} if options.stop else keys

    def _thinking(self, wanted: bool) -> dict[str, Any]:
        """`thinking` (Z.ai's) and `reasoning_effort`. Without thinking: `disabled`, unless the model refuses that."""
        given = self._options.thinking
        off = not wanted and not given.always
        keys: dict[str, Any] = {}
        if given.type is not None:
            keys["thinking"] = {"type": "disabled" if off else given.type}
            if given.clear is not None:
                keys["thinking"]["clear_thinking"] = given.clear
        if given.effort is not None and not off:
            keys["reasoning_effort"] = given.effort
        return keys

    def _format_of(self, schema: Mapping[str, Any] | None) -> AnswerFormat:
        if self._format.given is not schema:
            self._format = make_format(self._options, schema, self._notify)
        return self._format

    def _notify(self, notice: Notice) -> None:
        if notice.key not in self._told:
            self._told.add(notice.key)
            self._sink(notice)

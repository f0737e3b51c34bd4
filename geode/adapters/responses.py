"""The Responses API: OpenAI's, the Codex backend's, and that of compatible servers.

A request is ready bytes: its items are rendered once each, its other keys only where they change. See OpenAI's API
reference, "Create a model response".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from geode.adapters.credentials import Masker, Secrets
from geode.adapters.history import Transcript
from geode.adapters.options import AdapterOptions
from geode.adapters.responses_items import EMPTY_INPUT, ItemRenderer, dump
from geode.adapters.responses_parse import ResponseReader, refine
from geode.adapters.responses_stream import ResponseAssembler
from geode.adapters.responses_tools import ToolRenderer
from geode.adapters.schemas import Sendable, Unsendable, for_output_responses, qualifies_strict, undo_text
from geode.adapters.sdk import ApiClient
from geode.adapters.tool_choice import OnUnsupported
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    ErrorKind,
    History,
    Json,
    Message,
    Notice,
    NoticeSink,
    Source,
    TextBlock,
)

if TYPE_CHECKING:
    import httpx2

__all__ = ["ResponsesAdapter"]

_PATH = "/responses"
_DRAIN_S = 0.5
"""Seconds that a finished stream gets to end by itself, so that its connection can be used again."""

_RECENT = 8
"""How many histories are remembered: a run needs one, its sub-agents some more."""

_LOW_EFFORTS = ("none", "minimal", "low")
"""Efforts below every model's default: kept where a call is to do without reasoning."""

_SCHEMA_PROMPT = (
    "Your final answer must be one JSON object and nothing else: no prose, no code fence. It must match this JSON "
    "Schema:\n{schema}"
)


@dataclass(frozen=True, slots=True)
class _Format:
    """How a response schema goes: `text.format`, or an item that tells the model; `sent` undoes what was changed."""

    given: Mapping[str, Json] | None = None
    text: bytes = b""
    item: bytes = b""
    sent: Sendable | None = None


@dataclass(frozen=True, slots=True)
class _Built:
    """A request's body and what is needed to read its answer."""

    body: bytes
    reader: ResponseReader
    format: _Format


class ResponsesAdapter:
    """`contract.Adapter` over the Responses API.

    notify: told once of each option or tool that the wire does not take. on_unsupported: what happens to a tool choice
    that the backend does not declare. unsendable: `drop` or `error`, for a tool that cannot be sent. transport: what
    takes the place of the network.
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
        self._notify = notify
        self._source = Source("responses", options.name, options.model)
        self._tools = ToolRenderer(options, notify, on_unsupported, unsendable)
        self._items = ItemRenderer(
            self._source,
            store=options.store,
            encrypted=options.reasoning_model,
            images=options.capabilities.images,
            placeholder=options.reasoning_placeholder,
        )
        self._transcripts: OrderedDict[int, tuple[History, Transcript]] = OrderedDict()
        self._client = ApiClient("openai", options, secrets, transport)
        self._mask = Masker(secrets).text
        self._extra = {key: dump(value) for key, value in options.extra_body.items() if key not in ("input", "stream")}
        self._instructions: tuple[str, bytes] = ("", b'""')
        self._format = _Format()
        self._built: _Built | None = None
        self._told = False

    # ------------------------------------------------------------------------------------------------------ building

    def build(self, request: AdapterCallRequest) -> bytes:
        """The body of `POST /responses`. Raises AdapterError where a tool or a choice cannot be sent."""
        return self._build(request).body

    def _build(self, request: AdapterCallRequest) -> _Built:
        options = self._options
        if not self._told:
            self._told = True
            self._tell_unsupported()
        tools = self._tools.parts(request)
        self._items.alias = self._tools.aliases.to_wire
        format = self._format_of(request.response_schema)
        parts: dict[str, bytes] = {"model": dump(options.model)}
        if request.system or options.instructions_always:
            parts["instructions"] = self._instructions_of(request.system)
        head = len(parts)
        parts.update(tools)
        limit = self._limit(request)
        if limit is not None:
            parts["max_output_tokens"] = b"%d" % limit
        if options.temperature is not None:
            parts["temperature"] = dump(options.temperature)
        if options.top_p is not None:
            parts["top_p"] = dump(options.top_p)
        if reasoning := self._reasoning(request.thinking):
            parts["reasoning"] = dump(reasoning)
        if format.text:
            parts["text"] = format.text
        parts["store"] = b"true" if options.store else b"false"
        if options.reasoning_model and not options.store:
            parts["include"] = b'["reasoning.encrypted_content"]'
        if self._streams(request):
            parts["stream"] = b"true"
        parts.update(self._extra)
        pairs = [b'"%b":%b' % (key.encode(), value) for key, value in parts.items()]
        items = self._transcript(request.messages).pieces(request.messages, self._tools.renamed) or [EMPTY_INPUT]
        opening = (b",".join(pairs[:head]), b',"input":[', format.item, b"," if format.item else b"")
        # One join: the items are most of the body, and each copy of them costs.
        body = b"".join((b"{", *opening, *items, b"],", b",".join(pairs[head:]), b"}"))
        reader = ResponseReader(self._source, options.store, self._tools.aliases.to_own, limit, self._mask)
        self._built = _Built(body, reader, format)
        return self._built

    def _transcript(self, messages: Sequence[Message]) -> Transcript:
        """The transcript of a history: a run and its sub-agents, which share an adapter, have one each."""
        if not isinstance(messages, History):
            return Transcript(self._items.render, self._items.normalise)
        known = self._transcripts.get(id(messages))
        if known is None:
            made = Transcript(self._items.render, self._items.normalise)
            known = self._transcripts[id(messages)] = (messages, made)
            if len(self._transcripts) > _RECENT:
                self._transcripts.popitem(last=False)
        self._transcripts.move_to_end(id(messages))
        return known[1]

    def _streams(self, request: AdapterCallRequest) -> bool:
        return self._options.stream or (request.on_delta is not None and self.capabilities.streaming)

    def _instructions_of(self, system: str) -> bytes:
        if self._instructions[0] != system:
            self._instructions = (system, dump(system))
        return self._instructions[1]

    def _limit(self, request: AdapterCallRequest) -> int | None:
        if self._options.max_tokens_field is None:
            return None
        limit = self._options.max_tokens if request.max_tokens is None else request.max_tokens
        return min(limit, self.capabilities.max_output_tokens or limit)

    def _reasoning(self, thinking: bool) -> dict[str, str]:
        """Without thinking, an effort above the models' default is left out: no value turns reasoning off on all."""
        effort, summary = self._options.thinking.effort, self._options.thinking.summary
        reasoning = {}
        if effort is not None and (thinking or effort in _LOW_EFFORTS):
            reasoning["effort"] = effort
        if summary is not None and thinking:
            reasoning["summary"] = summary
        return reasoning

    def _format_of(self, schema: Mapping[str, Json] | None) -> _Format:
        if self._format.given is not schema:
            self._format = _Format() if schema is None else self._new_format(schema)
        return self._format

    def _new_format(self, schema: Mapping[str, Json]) -> _Format:
        how = self._options.structured
        if how == "json_schema" and not self.capabilities.json_schema:
            how = "json_object"
        if how == "json_schema":
            sent = for_output_responses(schema)
            if not isinstance(sent, Unsendable):
                strict = qualifies_strict(sent.schema)
                kind = {"type": "json_schema", "name": "response", "schema": sent.schema, "strict": strict}
                return _Format(schema, dump({"format": kind}), sent=sent)
            text = f"the response schema cannot be sent: {sent.reason}; the model is told it in words"
            self._notify(Notice("response.schema", text))
        prompt = _SCHEMA_PROMPT.format(schema=dump(schema).decode())
        # An item, not the instructions: the API wants the word JSON in the input for `json_object`.
        item = dump({"type": "message", "role": "developer", "content": prompt})
        return _Format(schema, b'{"format":{"type":"json_object"}}' if how == "json_object" else b"", item)

    def _tell_unsupported(self) -> None:
        options = self._options
        given = {
            "stop": (options.stop, "[]"),
            "seed": (options.seed, "null"),
            "thinking.type": (options.thinking.type, "null"),
            "thinking.budget_tokens": (options.thinking.budget_tokens, "null"),
            "thinking.clear": (options.thinking.clear, "null"),
        }
        for name, (value, unset) in given.items():
            if value is not None and value != ():
                text = f"{self.name}: the Responses API has no {name}: it is left out"
                self._notify(Notice(f"adapter.{name}", text, f"adapter.{name}={unset}"))

    # ------------------------------------------------------------------------------------------------------- reading

    def parse(self, payload: Mapping[str, Json], round: int = 1) -> AdapterCallResult:
        """Reads a response object; tool names and limits are those of the request built last.

        Raises AdapterError: BAD_RESPONSE where it is none, by its code where the response failed.
        """
        built = self._built
        if built is None:
            reader = ResponseReader(self._source, self._options.store, self._tools.aliases.to_own, None, self._mask)
            built = _Built(b"", reader, self._format)
        return _read(built, payload, round)

    # ------------------------------------------------------------------------------------------------------- calling

    async def call(self, request: AdapterCallRequest) -> AdapterCallResult:
        """Sends one request and reads its answer. Raises AdapterError; a cancel closes the connection."""
        built = self._build(request)
        if self._streams(request):
            return await self._stream(built, request)
        try:
            payload = await self._client.post(_PATH, built.body, request.timeout_s)
        except AdapterError as error:
            raise refine(error) from None
        return _identified(built, payload, request.round, payload.request_id)

    async def _stream(self, built: _Built, request: AdapterCallRequest) -> AdapterCallResult:
        assembler = ResponseAssembler()
        async with self._client.stream(_PATH, built.body, request.timeout_s) as events:
            try:
                async for event in events:
                    delta = assembler.feed(event)
                    if delta is not None and request.on_delta is not None:
                        request.on_delta(delta)
                    if assembler.finished:
                        break
                else:
                    text = "the stream ended before the response did"
                    raise AdapterError(ErrorKind.CONNECTION, text, provider=self.name, request_id=events.request_id)
            except AdapterError as error:
                if assembler.started and error.partial is None:
                    error.partial = built.reader.read_cut(assembler.response(), request.round)
                raise refine(error) from None
            with contextlib.suppress(TimeoutError, AdapterError):
                async with asyncio.timeout(_DRAIN_S):
                    async for _ in events:
                        pass
        return _identified(built, assembler.response(), request.round, events.request_id)

    async def aclose(self) -> None:
        """Closes the connections. Safe to call twice."""
        await self._client.aclose()


def _read(built: _Built, payload: Any, round: int) -> AdapterCallResult:
    result = built.reader.read(payload, round)
    sent = built.format.sent
    if sent is None or result.tool_uses or (sent.wrapped is None and not sent.renames):
        return result
    content = tuple(replace(b, text=undo_text(sent, b.text)) if isinstance(b, TextBlock) else b for b in result.content)
    return replace(result, content=content)


def _identified(built: _Built, payload: Any, round: int, request_id: str | None) -> AdapterCallResult:
    """Reads an answer, with the request id that its headers gave."""
    try:
        return replace(_read(built, payload, round), request_id=request_id)
    except AdapterError as error:
        error.request_id = error.request_id or request_id
        raise

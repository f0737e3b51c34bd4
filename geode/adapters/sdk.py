"""Sends ready bytes through the official SDK clients, and reads raw JSON back.

The SDK does what it is good at: authentication, headers, transport, error classes, decoding of server-sent events.
Its typed `create()` is not used: it walks every item of the history on each call. Retries are off: geode retries.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from geode.adapters import errors
from geode.adapters.credentials import Masker, Secrets
from geode.adapters.options import AdapterOptions
from geode.adapters.sdk_clients import open_anthropic, open_openai
from geode.contract import AdapterError, ErrorKind

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

__all__ = ["ApiClient", "EventStream", "Payload"]

Family = Literal["openai", "anthropic"]
T = TypeVar("T")

_DRAIN_S = 0.5
"""Seconds that a finished stream gets to end by itself."""


class Payload(dict[str, Any]):
    """A provider's JSON answer, with the request id that its headers gave."""

    __slots__ = ("request_id",)

    def __init__(self, data: Mapping[str, Any], request_id: str | None = None) -> None:
        super().__init__(data)
        self.request_id = request_id


class ApiClient:
    """One SDK client, opened at its first request (the SDKs are slow to import) and closed by `aclose`.

    family: which SDK. transport: what takes the place of the network (a capture, a test).
    """

    def __init__(
        self,
        family: Family,
        options: AdapterOptions,
        secrets: Secrets,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._family: Family = family
        self._options = options
        self._secrets = secrets
        self._transport = transport
        self._mask = Masker(secrets).text
        self._client: AsyncOpenAI | AsyncAnthropic | None = None

    async def post(self, path: str, body: bytes, timeout_s: float | None = None) -> Payload:
        """POSTs `body` (JSON, without `"stream": true`) to `path` under the base URL and gives the JSON object back.

        timeout_s: seconds for the whole call; None takes the adapter's. Raises AdapterError, BAD_RESPONSE where the
        answer is no JSON object. A cancel closes the connection.
        """
        timeout = self._options.timeout_s if timeout_s is None else timeout_s
        deadline = asyncio.get_running_loop().time() + timeout
        response = await self._within(deadline, timeout, lambda: self._send(path, body, timeout, stream=False))
        request_id = errors.request_id(response.headers)
        try:
            data = json.loads(response.content)
        except (ValueError, RecursionError):
            data = response.text
        if not isinstance(data, dict):
            raise self._bad_response("the answer is no JSON object", data, response.status_code, request_id)
        return Payload(data, request_id)

    def stream(self, path: str, body: bytes, timeout_s: float | None = None) -> EventStream:
        """POSTs `body` (JSON with `"stream": true`) and iterates over the events' JSON objects.

        The request goes out at the first step. Use `async with` (or `aclose`), so that leaving early closes the
        connection. Steps raise AdapterError: also for an error event, and CONNECTION for a cut connection. That a
        stream ended without its own end mark is for the caller to see.
        """
        return EventStream(self, path, body, self._options.timeout_s if timeout_s is None else timeout_s)

    async def aclose(self) -> None:
        """Closes the connections. Safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _send(self, path: str, body: bytes, timeout_s: float, *, stream: bool) -> httpx2.Response:
        import httpx2

        client = self._client or self._open()
        timeout = httpx2.Timeout(timeout_s, connect=min(self._options.connect_timeout_s, timeout_s))
        return await client.post(
            path, content=body, cast_to=httpx2.Response, options={"timeout": timeout}, stream=stream
        )

    def _open(self) -> AsyncOpenAI | AsyncAnthropic:
        client = open_openai if self._family == "openai" else open_anthropic
        self._client = client(self._options, self._secrets, self._transport)
        return self._client

    async def _within(self, deadline: float, timeout_s: float, call: Callable[[], Awaitable[T]]) -> T:
        """Runs one awaitable to the deadline (in loop time), and turns whatever fails into an AdapterError."""
        try:
            async with asyncio.timeout_at(deadline):
                return await call()
        except AdapterError:
            raise
        except TimeoutError:
            raise AdapterError(
                ErrorKind.TIMEOUT, f"no complete answer within {timeout_s:g} s", provider=self._options.name
            ) from None
        except Exception as error:
            convert = errors.from_openai if self._family == "openai" else errors.from_anthropic
            raise convert(error, self._options.name, mask=self._mask) from None

    def _bad_response(self, problem: str, data: object, status: int, request_id: str | None) -> AdapterError:
        shown = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        return AdapterError(
            ErrorKind.BAD_RESPONSE,
            self._mask(f"{problem}: {errors.shorten(shown) or '(empty)'}"),
            provider=self._options.name,
            status=status,
            request_id=request_id,
        )


class EventStream:
    """The events of a streamed answer as JSON objects, in order.

    request_id: known from the first event on. done: the stream said itself that it is complete (`[DONE]`).
    """

    def __init__(self, client: ApiClient, path: str, body: bytes, timeout_s: float) -> None:
        self.request_id: str | None = None
        self.done = False
        self._client = client
        self._path = path
        self._body = body
        self._timeout_s = timeout_s
        self._deadline: float | None = None
        self._response: httpx2.Response | None = None
        self._events: AsyncIterator[Any] | None = None
        self._ended = False

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> dict[str, Any]:
        if self._ended:
            raise StopAsyncIteration
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._timeout_s
        try:
            event = await self._client._within(self._deadline, self._timeout_s, self._next)
        except BaseException:
            await self.aclose()
            raise
        if event is None:
            await self.aclose()
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> EventStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the response (and its connection, unless it was read to the end). Safe to call twice."""
        self._ended = True
        response, self._response = self._response, None
        if response is not None:
            await response.aclose()

    async def _next(self) -> dict[str, Any] | None:
        """The next event that carries a JSON object; None at the end."""
        events = self._events
        if events is None:
            events = self._events = await self._connect()
        response = self._response
        assert response is not None
        async for event in events:
            text = event.data
            if text.startswith("[DONE]"):
                self.done = True
                await self._drain(events)
                return None
            if not text or event.event == "ping":
                continue
            data = _loads(text)
            if not isinstance(data, dict):
                raise self._client._bad_response(
                    "an event of the stream is no JSON object", text, response.status_code, self.request_id
                )
            if event.event == "error" or data.get("type") == "error" or data.get("error"):
                raise errors.from_body(
                    None, response.headers, data, self._client._options.name, mask=self._client._mask
                )
            return data
        return None

    async def _drain(self, events: AsyncIterator[Any]) -> None:
        """Reads to the end, so that the connection can be used again; but waits for no server that leaves it open."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_DRAIN_S):
                async for _ in events:
                    pass

    async def _connect(self) -> AsyncIterator[Any]:
        client = self._client
        response = await client._send(self._path, self._body, self._timeout_s, stream=True)
        self._response = response
        self.request_id = errors.request_id(response.headers)
        if response.headers.get("content-type", "").startswith("application/json"):
            data = _loads((await response.aread()).decode("utf-8", "replace"))
            if isinstance(data, dict) and data.get("error"):
                raise errors.from_body(None, response.headers, data, client._options.name, mask=client._mask)
            raise client._bad_response(
                "a streamed answer was asked for, and plain JSON came", data, response.status_code, self.request_id
            )
        decoder: Any
        if client._family == "openai":
            from openai._streaming import SSEDecoder as OpenAIDecoder

            decoder = OpenAIDecoder()
        else:
            from anthropic._streaming import SSEDecoder as AnthropicDecoder

            decoder = AnthropicDecoder()
        events: AsyncIterator[Any] = decoder.aiter_bytes(response.aiter_bytes())
        return events


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

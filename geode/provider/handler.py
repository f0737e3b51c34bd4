"""From a request to a reply: routes, checks, the script's turn, and its fault."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from time import time
from typing import Any, Literal

from geode.contract import AdapterError
from geode.provider.params import Wire
from geode.provider.reply import Reply, Wrong, json_reply
from geode.provider.wires import WireFormat, wire_format
from geode.script import Fault, Script, ScriptPlayer, ScriptTurn

__all__ = ["Handler", "RecordedRequest", "Strict"]

Strict = bool | Literal["pairing"]

_ENDPOINTS: Mapping[str, Wire] = {"/messages": "messages", "/responses": "responses", "/chat/completions": "chat"}
_MODEL = {
    "id": "scripted",
    "type": "model",
    "object": "model",
    "display_name": "Scripted",
    "owned_by": "loopback",
    "created": 1_700_000_000,
    "created_at": "2023-11-14T22:13:20Z",
}


@dataclass(slots=True)
class RecordedRequest:
    """A request as it came. `headers` have lower-case names; `json` is None where the body is no JSON."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    body: bytes
    wire: Wire | None = None
    json: Any = None
    problems: list[str] = field(default_factory=list)
    status: int = 0
    """Status of the reply; 0 where there was none."""


class Handler:
    """Answers requests from a script, one player for all connections.

    strict: True checks types and everything else, "pairing" leaves out the types, False checks only that the body is a
    JSON object and that there is a key. keep: how many requests are recorded, None for all.
    """

    def __init__(self, script: Script, strict: Strict = True, keep: int | None = None) -> None:
        self.player = ScriptPlayer(script)
        self.strict = strict
        self.requests: list[RecordedRequest] = []
        self.problems: list[str] = []
        self._keep = keep
        self._count = 0
        self._formats: dict[Wire, WireFormat] = {}

    def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The reply to a request; never raises."""
        request = RecordedRequest(method, target, headers, body)
        self.requests.append(request)
        if self._keep is not None and len(self.requests) > self._keep:
            del self.requests[0]
        reply = self._reply(request)
        self.problems += [f"{method} {target}: {problem}" for problem in request.problems]
        request.status = 0 if reply.wrong.cut_after == -1 or reply.wrong.hang_after == -1 else reply.status
        return reply

    # ------------------------------------------------------------------------------------------------------ routing

    def _reply(self, request: RecordedRequest) -> Reply:
        path = request.path.partition("?")[0].rstrip("/")
        counting = path.endswith("/messages/count_tokens")
        endpoint = path.removesuffix("/count_tokens") if counting else path
        wire = next((w for suffix, w in _ENDPOINTS.items() if endpoint.endswith(suffix)), None)
        if wire is not None and request.method == "POST":
            request.wire = wire
            return self._model_call(request, wire, path, counting)
        if request.method in ("GET", "HEAD"):
            if path == "":
                return json_reply(200, {"status": "ok"})
            if path.endswith("/models"):
                return json_reply(
                    200, {"object": "list", "data": [_MODEL], "has_more": False, "first_id": None, "last_id": None}
                )
            if found := re.search(r"/models/([^/]+)$", path):
                return json_reply(200, _MODEL | {"id": found[1]})
        status = 405 if wire is not None else 404
        guess: Wire = wire or ("messages" if "anthropic-version" in request.headers else "chat")
        return self._refuse(guess, status, f"no such endpoint: {request.method} {path or '/'}", path)

    def _model_call(self, request: RecordedRequest, wire: Wire, path: str, counting: bool) -> Reply:
        from geode.provider.checks.headers import auth_problem

        if problem := auth_problem(wire, request.headers):
            request.problems.append(problem)
            return self._refuse(wire, 401, problem, path)
        problem = _read(request)
        if problem is not None:
            request.problems.append(problem)
            return self._refuse(wire, 400, problem, path)
        if counting:
            return json_reply(200, {"input_tokens": len(request.body) // 4 + 1})
        request.problems += self._check(request, wire, path)
        if request.problems:
            return self._refuse(wire, 400, "; ".join(request.problems), path)
        self._count += 1
        wire_form = self._format(wire)
        try:
            view = wire_form.view(request.json, self._count)
        except (AttributeError, TypeError, KeyError) as error:
            request.problems.append(f"the body cannot be read: {type(error).__name__}: {error}")
            return self._refuse(wire, 400, request.problems[0], path)
        try:
            turn = self.player.next(view)
        except AdapterError as error:
            request.problems.append(error.message)
            return self._refuse(wire, 400, error.message, path)
        return self._answer(request, wire_form, turn, path).with_headers(*self._ids(wire))

    def _check(self, request: RecordedRequest, wire: Wire, path: str) -> list[str]:
        if self.strict is False:
            return []
        from geode.provider.checks import check_headers, semantic

        found = check_headers(wire, request.headers, path)
        if self.strict is True:
            from geode.provider import params

            found += params.problems(wire, request.json, beta="beta=true" in request.path)
        told = {problem.partition(": ")[0] for problem in found}
        return found + [p for p in semantic(wire, request.json, path) if p.partition(": ")[0] not in told]

    # ------------------------------------------------------------------------------------------------------- answers

    def _answer(self, request: RecordedRequest, form: WireFormat, turn: ScriptTurn, path: str) -> Reply:
        fault = turn.fault
        if fault is not None and (early := self._early_fault(fault, form, path, turn.delay_s)):
            return early
        body = request.json
        streamed = body.get("stream") is True
        whole = form.answer(turn, body, self._count, len(request.body))
        if fault is not None and fault.kind == "failed" and request.wire != "responses":
            return self._error(form, 500, fault, path, turn.delay_s)
        if fault is not None and fault.kind == "stream_error" and not streamed:
            status = 529 if (fault.type or "overloaded_error") == "overloaded_error" else 500
            return self._error(form, status, fault, path, turn.delay_s)
        if not streamed:
            return replace(json_reply(200, whole), delay_s=turn.delay_s, wrong=_wrong(fault, 2))
        frames = list(form.events(whole, turn, body))
        if fault is not None and fault.kind == "stream_error":
            frames = frames[: _after(fault, len(frames))]
            frames.append(form.stream_error(fault, len(frames)))
        content_type = "text/event-stream; charset=utf-8"
        return Reply(
            200,
            tuple(frames),
            (("content-type", content_type), ("cache-control", "no-cache")),
            streamed=True,
            delay_s=turn.delay_s,
            wrong=_wrong(fault, len(frames)),
        )

    def _early_fault(self, fault: Fault, form: WireFormat, path: str, delay_s: float) -> Reply | None:
        """The reply of a fault that has no answer at all."""
        json_type = (("content-type", "application/json"),)
        match fault.kind:
            case "http":
                return self._error(form, fault.status, fault, path, delay_s)
            case "overflow":
                status, body = form.overflow(fault, path)
                return replace(json_reply(status, body), delay_s=delay_s)
            case "broken_json":
                return Reply(
                    200, ((fault.body or '{"id": "broken", "content": [').encode(),), json_type, delay_s=delay_s
                )
            case "not_object":
                return Reply(200, ((fault.body or '["not", "an", "object"]').encode(),), json_type, delay_s=delay_s)
            case "close":
                return Reply(200, (), wrong=Wrong(cut_after=-1), delay_s=delay_s)
            case "hang" if fault.after is None:
                return Reply(200, (), wrong=Wrong(hang_after=-1), delay_s=delay_s)
            case _:
                return None

    def _error(self, form: WireFormat, status: int, fault: Fault, path: str, delay_s: float) -> Reply:
        if fault.body is not None:
            kind = "application/json" if fault.body.lstrip().startswith(("{", "[")) else "text/plain"
            reply = Reply(status, (fault.body.encode(),), (("content-type", kind),), delay_s=delay_s)
        else:
            message = fault.message or _MESSAGES.get(status, "The server had an error while processing your request.")
            body = form.error(status, message, type=fault.type, code=fault.code, path=path)
            reply = replace(json_reply(status, body), delay_s=delay_s)
        extra = list(fault.headers.items())
        if fault.retry_after is not None:
            extra.append(("retry-after", f"{fault.retry_after:g}"))
        if fault.retry_after_date is not None:
            extra.append(("retry-after", formatdate(time() + fault.retry_after_date, usegmt=True)))
        return reply.with_headers(*extra)

    def _refuse(self, wire: Wire, status: int, message: str, path: str) -> Reply:
        body = self._format(wire).error(status, message, type=None, code=None, path=path)
        return json_reply(status, body, *self._ids(wire))

    def _ids(self, wire: Wire) -> tuple[tuple[str, str]]:
        return (("request-id" if wire == "messages" else "x-request-id", f"req_loopback_{self._count:06d}"),)

    def _format(self, wire: Wire) -> WireFormat:
        if wire not in self._formats:
            self._formats[wire] = wire_format(wire)
        return self._formats[wire]


_MESSAGES = {
    401: "invalid key",
    402: "Your credit balance is too low.",
    403: "You do not have permission.",
    404: "Not found.",
    429: "Rate limit reached.",
    529: "Overloaded",
}


def _after(fault: Fault, frames: int) -> int:
    return min(frames, frames // 2 if fault.after is None else fault.after)


def _wrong(fault: Fault | None, frames: int) -> Wrong:
    match fault.kind if fault else None:
        case "hang":
            assert fault is not None
            return Wrong(hang_after=_after(fault, frames))
        case "cut":
            assert fault is not None
            return Wrong(cut_after=_after(fault, frames))
        case "close_after":
            return Wrong(close_after=True)
        case "slow":
            assert fault is not None
            return Wrong(interval_s=fault.interval_s)
        case _:
            return Wrong()


def _read(request: RecordedRequest) -> str | None:
    """Parses the body into `json`; the problem where it is no JSON object."""
    encoding = request.headers.get("content-encoding", "identity")
    try:
        if encoding in ("gzip", "x-gzip"):
            request.body = gzip.decompress(request.body)
        elif encoding == "deflate":
            request.body = zlib.decompress(request.body)
        elif encoding != "identity":
            return f"headers.content-encoding: {encoding!r} is not supported"
        request.json = json.loads(request.body)
    except (OSError, zlib.error) as error:
        return f"the body is no {encoding}: {error}"
    except (ValueError, RecursionError) as error:
        return f"the body is no JSON: {error}"
    if not isinstance(request.json, dict):
        return "the body must be a JSON object"
    return None

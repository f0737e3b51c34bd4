"""From a Responses API answer to neutral blocks.

The shape is that of OpenAI's API reference (the response object), read with tolerance for servers that leave parts of
it out. Content decides what an answer is; `status` only says how it ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geode.adapters.arguments import MAX_ARGUMENT_CHARS, parse_arguments, unique_ids
from geode.adapters.credentials import mask as mask_text
from geode.adapters.errors import from_body
from geode.contract import (
    AdapterCallResult,
    AdapterError,
    Block,
    ErrorKind,
    InputFault,
    ReasoningBlock,
    Source,
    StopReason,
    TextBlock,
    ToolUseBlock,
    Usage,
)

__all__ = ["ResponseReader", "parse_usage", "refine"]

_BY_CODE = {
    "vector_store_timeout": ErrorKind.SERVER,
    "bio_policy": ErrorKind.REFUSAL,
    "cyber_policy": ErrorKind.REFUSAL,
    "misalignment_policy_violation": ErrorKind.REFUSAL,
    "image_content_policy_violation": ErrorKind.REFUSAL,
}
"""Codes of a failed response (the SDK's `ResponseError.code`, and one of the Codex backend's) that this wire alone
has."""

_SERVER_CODES = frozenset({"server_error", "internal_server_error", "api_error", "vector_store_timeout"})


@dataclass(frozen=True, slots=True)
class ResponseReader:
    """Reads one backend's answers.

    source: stamped on what only this backend understands. store: it keeps items, so their ids are kept too. to_own: a
    name on the wire to the tool's own. limit: output tokens that the call was given, None if no limit was sent. mask:
    put over the texts of errors.
    """

    source: Source
    store: bool
    to_own: Callable[[str], str]
    limit: int | None = None
    mask: Callable[[str], str] = mask_text

    def read(self, payload: Any, round: int) -> AdapterCallResult:
        """The result of a finished response object. `round` is 1-based: ids that are missing are made from it.

        Raises AdapterError: BAD_RESPONSE where it is none, by the error's code where the response failed.
        """
        if not isinstance(payload, Mapping):
            raise AdapterError(ErrorKind.BAD_RESPONSE, "the answer is no JSON object", provider=self.source.adapter)
        status, error, output = payload.get("status"), payload.get("error"), payload.get("output")
        if status == "failed" or (isinstance(error, Mapping) and not output):
            partial = self._result(payload, output, round, StopReason.ERROR) if output else None
            raise self._failure(error, partial)
        if not isinstance(output, list) and not (output is None and status in ("completed", "incomplete")):
            raise AdapterError(
                ErrorKind.BAD_RESPONSE,
                f"the answer has no output (status {status!r})",
                provider=self.source.adapter,
                details=payload,
            )
        if not output and status not in ("completed", "incomplete", None):
            raise AdapterError(
                ErrorKind.BAD_RESPONSE,
                f"the response ended {status!r} without output",
                provider=self.source.adapter,
                details=payload,
            )
        return self._result(payload, output or [], round, None)

    def read_cut(self, payload: Mapping[str, Any], round: int) -> AdapterCallResult:
        """What a cut stream had delivered: stop reason ERROR, the call that it ended in marked as cut."""
        return self._result(payload, payload.get("output") or [], round, StopReason.ERROR)

    def _failure(self, error: Any, partial: AdapterCallResult | None) -> AdapterError:
        """The error of a failed response. Its codes are few: one that is not known is about the request."""
        given = error if isinstance(error, Mapping) else {}
        failed = refine(
            from_body(None, {}, {"error": given or "the response failed"}, self.source.adapter, mask=self.mask)
        )
        if failed.kind is ErrorKind.SERVER and failed.code and failed.code not in _SERVER_CODES:
            failed.kind = ErrorKind.INVALID_REQUEST
        failed.partial = partial
        failed.details = dict(given) or None
        return failed

    def _result(
        self, payload: Mapping[str, Any], output: Sequence[Any], round: int, stop: StopReason | None
    ) -> AdapterCallResult:
        usage = parse_usage(payload.get("usage"))
        details = payload.get("incomplete_details")
        details = dict(details) if isinstance(details, Mapping) else None
        incomplete = payload.get("status") == "incomplete" or stop is StopReason.ERROR
        # Some servers say "completed" of an answer that their limit cut: the token count tells.
        limit = payload.get("max_output_tokens")
        limit = limit if isinstance(limit, int) else self.limit
        if not incomplete and limit and usage.known and usage.output_tokens == limit:
            incomplete = not _ends_in_sound_call(output)
        items = [item for item in output if isinstance(item, Mapping)]
        content, refused = self._blocks(items, round, incomplete)
        calls = any(isinstance(b, ToolUseBlock) for b in content)
        raw_stop = payload.get("status")
        if incomplete and details and isinstance(details.get("reason"), str):
            raw_stop = details["reason"]
        if stop is None:
            if refused:
                stop = StopReason.REFUSAL
            elif incomplete:
                stop = StopReason.CONTENT_FILTER if raw_stop == "content_filter" else StopReason.MAX_TOKENS
            else:
                stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
        model = payload.get("model")
        return AdapterCallResult(
            content,
            stop,
            usage,
            model if isinstance(model, str) else "",
            raw_stop if isinstance(raw_stop, str) else None,
            details if incomplete else None,
        )

    def _blocks(
        self, items: Sequence[Mapping[str, Any]], round: int, incomplete: bool
    ) -> tuple[tuple[Block, ...], bool]:
        given = [item.get("call_id") for item in items if item.get("type") == "function_call"]
        ids = unique_ids((i if isinstance(i, str) else None for i in given), round)
        blocks: list[Block] = []
        refused = False
        for index, item in enumerate(items):
            kind = item.get("type")
            if kind == "function_call":
                blocks.append(self._call(item, next(ids), incomplete, incomplete and index == len(items) - 1))
            elif kind == "message":
                text, refusal = _message_text(item.get("content"))
                refused = refused or refusal
                phase = item.get("phase")
                if text:
                    blocks.append(TextBlock(text, phase if isinstance(phase, str) else None))
            elif kind == "reasoning":
                blocks.append(ReasoningBlock(_reasoning_text(item), self.source, dict(item)))
            else:
                blocks.append(ReasoningBlock("", self.source, dict(item)))
        return tuple(blocks), refused

    def _call(self, item: Mapping[str, Any], identifier: str, incomplete: bool, last: bool) -> ToolUseBlock:
        raw = item.get("arguments")
        if raw is not None and not isinstance(raw, str | Mapping):
            raw = json.dumps(raw)
        status = item.get("status")
        cut = status == "incomplete" or (incomplete and status == "in_progress")
        value, text, fault = parse_arguments(raw, cut=cut, limit=MAX_ARGUMENT_CHARS)
        if last and not cut and (fault is InputFault.INVALID_JSON or not raw):
            value, text, fault = parse_arguments(raw, cut=True)
        name, wire_id, namespace = item.get("name"), item.get("id"), item.get("namespace")
        wire_id = wire_id if self.store and isinstance(wire_id, str) and wire_id else None
        namespace = namespace if isinstance(namespace, str) and namespace else None
        return ToolUseBlock(
            identifier,
            self.to_own(name) if isinstance(name, str) else "",
            value,
            text,
            fault,
            wire_id,
            namespace,
            self.source if wire_id or namespace else None,
        )


def _ends_in_sound_call(output: Sequence[Any]) -> bool:
    last = output[-1] if output else None
    if not isinstance(last, Mapping) or last.get("type") != "function_call":
        return False
    raw = last.get("arguments")
    return isinstance(raw, Mapping) or (isinstance(raw, str) and parse_arguments(raw)[2] is None and bool(raw))


def refine(error: AdapterError) -> AdapterError:
    """Gives an error the kind that its code has on this wire."""
    error.kind = _BY_CODE.get(error.code or "", error.kind)
    return error


def parse_usage(usage: Any) -> Usage:
    """Token counts. The API's `input_tokens` includes cached and cache-written ones, which are counted apart here."""
    if not isinstance(usage, Mapping):
        return Usage(known=False)
    inputs, outputs = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    read, written = _count(inputs, "cached_tokens"), _count(inputs, "cache_write_tokens")
    return Usage(
        input_tokens=max(0, _count(usage, "input_tokens") - read - written),
        output_tokens=_count(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_count(outputs, "reasoning_tokens"),
        known="input_tokens" in usage and "output_tokens" in usage,
    )


def _count(counts: Any, key: str) -> int:
    value = counts.get(key) if isinstance(counts, Mapping) else None
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def _message_text(content: Any) -> tuple[str, bool]:
    """The text of a message item, and whether it holds a refusal (whose text is kept)."""
    if isinstance(content, str):
        return content, False
    texts: list[str] = []
    refused = False
    for part in content if isinstance(content, list) else []:
        if not isinstance(part, Mapping):
            continue
        refused = refused or part.get("type") == "refusal"
        text = part.get("refusal") if part.get("type") == "refusal" else part.get("text")
        if isinstance(text, str):
            texts.append(text)
    return "".join(texts), refused


def _reasoning_text(item: Mapping[str, Any]) -> str:
    """The summary of a reasoning item, else its open text, for display and for other wires."""
    for key in ("summary", "content"):
        parts = item.get(key)
        if isinstance(parts, list):
            texts = [p["text"] for p in parts if isinstance(p, Mapping) and isinstance(p.get("text"), str)]
            if text := "\n\n".join(texts):
                return text
    return ""

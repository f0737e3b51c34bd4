"""The replay adapter: gives the answers of a recorded run again, in their order. No model, no key, no network."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    Capabilities,
    Delta,
    ErrorKind,
    StopReason,
)
from geode.journal import JOURNAL_FILE, JournalError, decode_message, encode_message, read_run
from geode.recorded import RecordedCall, recorded_calls

__all__ = ["ReplayAdapter"]


class ReplayAdapter:
    """Plays the LLM calls of a run's journal: answers, and failures as the failures that they were.

    path: the run's folder, or its journal. Raises JournalError where it cannot be read.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str = "replay",
        model: str = "replay",
        max_tokens: int = 8192,
        capabilities: Capabilities | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.max_tokens = max_tokens
        self.capabilities = capabilities or Capabilities()
        self._path = path / JOURNAL_FILE if path.is_dir() else path
        calls = [call for call in recorded_calls(read_run(self._path)) if not call.lost]
        self._rounds = deque(call for call in calls if call.purpose != "summary")
        self._summaries = deque(call for call in calls if call.purpose == "summary")
        self._total = len(calls)

    @property
    def remaining(self) -> int:
        """Recorded calls that were not asked for yet."""
        return len(self._rounds) + len(self._summaries)

    def build(self, request: AdapterCallRequest) -> bytes:
        """The request as neutral JSON. `call` does not use it."""
        body: dict[str, Any] = {
            "system": request.system,
            "messages": [encode_message(message) for message in request.messages],
            "tools": [tool.name for tool in request.tools],
            "tool_choice": {"type": request.tool_choice.type, "name": request.tool_choice.name},
            "max_tokens": request.max_tokens or self.max_tokens,
        }
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")

    def parse(self, payload: Mapping[str, Any], round: int = 1) -> AdapterCallResult:
        """Reads `{content: [...], stop_reason}` with blocks as the journal has them."""
        try:
            message = decode_message({"role": "assistant", "content": payload["content"]})
            return AdapterCallResult(message.content, StopReason(payload.get("stop_reason", "end_turn")))
        except (JournalError, KeyError, ValueError) as error:
            raise AdapterError(ErrorKind.BAD_RESPONSE, f"no recorded answer: {error}", provider=self.name) from None

    async def call(self, request: AdapterCallRequest) -> AdapterCallResult:
        """The next recorded answer. Raises AdapterError: what failed then, or SCRIPT where the record is over."""
        await asyncio.sleep(0)
        summary = request.tool_choice.type == "none" and not request.thinking and self._asks_for_summary(request)
        queue = self._summaries if summary else self._rounds
        if not queue:
            message = f"the record is over: it holds {self._total} calls ({self._path})"
            raise AdapterError(ErrorKind.SCRIPT, message, provider=self.name)
        recorded = queue.popleft()
        if recorded.response is None:
            raise self._error(recorded)
        if request.on_delta is not None and recorded.response.text:
            request.on_delta(Delta("text", recorded.response.text))
        return recorded.response

    async def aclose(self) -> None:
        """Nothing to close."""

    def _asks_for_summary(self, request: AdapterCallRequest) -> bool:
        """Whether the recorded run made its summary call here: the next one belongs to this round or an earlier one."""
        following = self._rounds[0].round if self._rounds else request.round + 1
        return bool(self._summaries) and self._summaries[0].round <= following and len(request.messages) > 0

    def _error(self, recorded: RecordedCall) -> AdapterError:
        kind = recorded.kind or ErrorKind.SERVER
        text = recorded.text.partition(": ")[2] or recorded.text
        return AdapterError(
            kind, text, provider=self.name, status=recorded.status, code=recorded.code, retry_after_s=0.0
        )

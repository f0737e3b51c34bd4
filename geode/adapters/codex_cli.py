"""The Codex CLI as a text-only backend: `codex exec --json`, prompt on standard input, JSON lines back.

The CLI is an agent of its own: its shell, its other tools, the user's config and project files are switched off, so
that what comes back is the model's text; its login works, since HOME and CODEX_HOME are kept. The system prompt
takes the place of the CLI's instructions, by file. OPENAI_BASE_URL is ignored by it: another endpoint is a model
provider given by `-c` (seen with codex-cli 0.171).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from geode.adapters.cli_adapter import CliAdapter
from geode.adapters.cli_process import Command, events, failure_text
from geode.adapters.cli_prompt import flatten
from geode.adapters.errors import from_body
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    ErrorKind,
    StopReason,
    TextBlock,
    Usage,
)

__all__ = ["CodexCliAdapter"]

_NO_SYSTEM = "Answer with text."
"""Stands for an empty system prompt: the CLI refuses an empty file, and without one it takes its own."""

_OFF = (
    "shell_tool", "unified_exec", "view_image", "image_generation", "multi_agent", "goals", "apps", "plugins", "hooks",
    # else it waits without end for a server that is down, whatever its timeouts say
    "unbounded_connection_retries",
)  # fmt: skip
_PLAIN = (
    'web_search="disabled"', "project_doc_max_bytes=0", "include_permissions_instructions=false",
    "include_environment_context=false", "include_apps_instructions=false", "skills.include_instructions=false",
)  # fmt: skip

_STATUS = re.compile(r"status:? (\d{3})\b")
_INCOMPLETE = re.compile(r"Incomplete response returned, reason: (\w+)")


class CodexCliAdapter(CliAdapter):
    """One `codex exec` process per call."""

    INSTALL = "npm install -g @openai/codex"

    def command(self, request: AdapterCallRequest) -> Command:
        options = self.options
        argv = [options.command or "codex", "exec", "--json", "--skip-git-repo-check", "--ephemeral", "-s", "read-only"]
        if options.model:
            argv += ["-m", options.model]
        argv += ["--ignore-user-config", "--ignore-rules"]
        env: dict[str, str] = {}
        key_name = options.credential.env[0] if options.credential.env else "CODEX_API_KEY"
        if self._secrets.value is not None:
            env[key_name] = self._secrets.value
        settings = ['model_instructions_file="{system-prompt.txt}"', *_PLAIN, *(f"features.{f}=false" for f in _OFF)]
        if options.base_url:
            provider = {"name": options.name, "base_url": options.base_url, "env_key": key_name}
            fields = [f"{k}={json.dumps(v)}" for k, v in provider.items()]
            fields += ['wire_api="responses"', "request_max_retries=0", "stream_max_retries=0"]
            settings += ['model_provider="geode"', f"model_providers.geode={{{','.join(fields)}}}"]
        for setting in settings:
            argv += ["-c", setting]
        files = {"system-prompt.txt": request.system.strip() or _NO_SYSTEM}
        return Command((*argv, *options.args, "-"), flatten(request), env, options.env, files)

    def parse(self, payload: Mapping[str, Any], round: int = 1) -> AdapterCallResult:
        text, failed, last_error, broken = "", None, "", None
        usage, completed = Usage(known=False), False
        for event in events(str(payload.get("stdout", ""))):
            if isinstance(event, str):
                broken = broken or event
                continue
            kind = event.get("type")
            if message := self.said(event):
                text = message  # the last message is the answer; earlier ones are remarks on the way
            elif kind == "turn.completed":
                completed, usage = True, _usage(event.get("usage"))
            elif kind == "turn.failed":
                failed = _error_text(event.get("error")) or "the turn failed"
            elif kind == "error":
                last_error = _error_text(event) or last_error  # final only when turn.failed or the end follows
        status = payload.get("exit_status", 0)
        answer = AdapterCallResult(
            content=(TextBlock(text),) if text else (),
            stop_reason=StopReason.END_TURN,
            usage=usage,
            model=self.model,
        )
        if failed is not None:
            cut = _INCOMPLETE.search(failed)
            if cut is None:
                raise self._fault(failed)
            stop = StopReason.CONTENT_FILTER if cut[1] == "content_filter" else StopReason.MAX_TOKENS
            return replace(answer, stop_reason=stop, raw_stop=cut[1], stop_details={"reason": cut[1]})
        if status != 0:
            if status > 0 and last_error:
                raise self._fault(last_error)
            error = self._fault(failure_text(self.name, payload), process=True)
            error.partial = answer if text else None
            raise error
        if broken is not None:
            raise self.bad_line(broken)
        if not completed:
            raise self.error(ErrorKind.BAD_RESPONSE, failure_text(self.name, payload))
        return answer

    def said(self, event: Mapping[str, Any]) -> str:
        item = event.get("item")
        if event.get("type") != "item.completed" or not isinstance(item, dict) or item.get("type") != "agent_message":
            return ""
        return str(item.get("text") or "")

    def _fault(self, text: str, process: bool = False) -> AdapterError:
        """An error by the HTTP status that its text names, else by what the text says."""
        found = _STATUS.search(text)
        status = int(found[1]) if found and not process else None
        error = from_body(status, {}, {"error": {"message": text}}, self.name, mask=self._mask)
        low = text.lower()
        if status is None and error.kind is ErrorKind.SERVER:
            if "usage limit" in low or "quota exceeded" in low:
                error.kind = ErrorKind.BILLING
            elif "missing environment variable" in low or "not logged in" in low or "codex login" in low:
                error.kind = ErrorKind.AUTH
            elif "connection failed" in low or "stream disconnected" in low:
                error.kind = ErrorKind.CONNECTION
            elif "timeout" in low or "timed out" in low:
                error.kind = ErrorKind.TIMEOUT
            elif process:
                error.kind = ErrorKind.PROCESS
        return error


def _error_text(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or "")


def _usage(raw: Any) -> Usage:
    """Codex counts cached tokens among the input tokens."""
    if not isinstance(raw, dict):
        return Usage(known=False)
    counts = {k: v for k, v in raw.items() if isinstance(v, int)}
    read, write = counts.get("cached_input_tokens", 0), counts.get("cache_write_input_tokens", 0)
    return Usage(
        input_tokens=max(counts.get("input_tokens", 0) - read - write, 0),
        output_tokens=counts.get("output_tokens", 0),
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=counts.get("reasoning_output_tokens", 0),
    )

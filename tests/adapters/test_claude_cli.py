"""The claude-cli adapter: what it runs, how it reads the answer, every way to fail; and the real CLI over loopback."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_binaries import binary, running_at

from geode.adapters.claude_cli import ClaudeCliAdapter
from geode.adapters.credentials import Secrets
from geode.adapters.options import AdapterOptions
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    Delta,
    ErrorKind,
    ImageBlock,
    Message,
    Notice,
    ReasoningBlock,
    Source,
    StopReason,
    TextBlock,
    ToolChoice,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
    Usage,
)

ASK = AdapterCallRequest(messages=[Message.user("What is up? 日本")], system="You are terse.")
TOOL = ToolSpec("grep", "Search", {"type": "object"})


def adapter(
    notices: list[Notice] | None = None, environ: dict[str, str] | None = None, **options: Any
) -> ClaudeCliAdapter:
    given = {"name": "claude-cli", "wire": "claude-cli", "model": "claude-x", "timeout_s": 60.0, **options}
    sink = [] if notices is None else notices
    path = {"PATH": os.environ["PATH"]}
    return ClaudeCliAdapter(AdapterOptions(**given), notify=sink.append, environ={**path, **(environ or {})})


def assistant(text: str, model: str = "claude-x-1", **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"model": model, "content": [{"type": "text", "text": text}]}, **more}


def result(text: Any = "hello", **more: Any) -> dict[str, Any]:
    base = {"type": "result", "subtype": "success", "is_error": False, "api_error_status": None, "result": text}
    usage = {
        "input_tokens": 11,
        "output_tokens": 7,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 2,
        "cache_creation": {"ephemeral_1h_input_tokens": 1, "ephemeral_5m_input_tokens": 1},
    }
    return {**base, "stop_reason": "end_turn", "total_cost_usd": 0.25, "usage": usage, **more}


def output(*events: Any, status: int = 0, stderr: str = "") -> dict[str, Any]:
    lines = [e if isinstance(e, str) else json.dumps(e) for e in events]
    return {"stdout": "\n".join(lines) + "\n", "stderr": stderr, "exit_status": status}


def failing(payload: dict[str, Any]) -> AdapterError:
    with pytest.raises(AdapterError) as caught:
        adapter().parse(payload)
    return caught.value


# ------------------------------------------------------------------------------------------------------ what is run


def test_describe() -> None:
    own = adapter(env=("ANTHROPIC_API_KEY",), args=("--effort", "low"), base_url="http://127.0.0.1:9")
    described = own.describe(ASK)
    assert described["argv"] == [
        "claude", "-p", "--output-format", "stream-json", "--verbose", "--tools", "", "--model", "claude-x",
        "--no-session-persistence", "--setting-sources", "", "--strict-mcp-config",
        "--system-prompt-file", "{system-prompt.txt}", "--effort", "low",
    ]  # fmt: skip
    assert described["stdin"] == "What is up? 日本"
    assert described["files"] == {"system-prompt.txt": "You are terse."}
    names = {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "API_TIMEOUT_MS", "CLAUDE_CODE_MAX_RETRIES", "HOME", "PATH"}
    assert names <= set(described["env"])
    assert described["env"] == sorted(described["env"])
    assert own.build(ASK) == "What is up? 日本".encode()


def test_environment_values() -> None:
    options = AdapterOptions(name="c", wire="claude-cli", max_tokens=900, timeout_s=30)
    own = ClaudeCliAdapter(options, notify=print, secrets=Secrets("sk-secret-value"), environ={})
    env = own.command(AdapterCallRequest([Message.user("x")], timeout_s=2.5)).env
    assert env["ANTHROPIC_API_KEY"] == "sk-secret-value"
    assert (env["API_TIMEOUT_MS"], env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"]) == ("2500", "900")
    assert env["CLAUDE_CODE_MAX_RETRIES"] == "0"
    assert "sk-secret-value" not in repr(own.command(ASK))
    assert "sk-secret-value" not in json.dumps(own.describe(ASK))
    assert own.command(AdapterCallRequest([Message.user("x")])).argv[-2:] == ("--system-prompt", "")


def test_history_is_told_in_words() -> None:
    source = Source("chat", "glm-payg", "glm-5")
    messages = [
        Message.user("Count the files."),
        Message.assistant(
            ReasoningBlock("I should look.", source),
            TextBlock("Let me see."),
            ToolUseBlock("t1", "list_files", {"path": "."}),
            ToolUseBlock("t2", "read", {}, arguments='{"p": 1}'),
        ),
        Message.user(
            ToolResultBlock("t1", (TextBlock("a b"), ImageBlock("image/png", "AAAA"))),
            ToolResultBlock("t2", "no such file", is_error=True),
            TextBlock("Go on."),
        ),
    ]
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    text = adapter().build(AdapterCallRequest(messages, response_schema=schema)).decode()
    assert text == (
        "The conversation so far:\n\n"
        "User:\nCount the files.\n\n"
        'Assistant:\n[reasoning] I should look.\nLet me see.\n[tool call] list_files {"path": "."}\n'
        '[tool call] read {"p": 1}\n\n'
        "User:\n[tool result] list_files: a b\n[an image, image/png, that cannot be shown here]\n"
        "[tool error] read: no such file\nGo on.\n\n"
        "Write the assistant's next message. Give its text only.\n\n"
        "Answer with one JSON value and nothing else, no code fence. It must match this JSON Schema:\n"
        '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    )


@pytest.mark.parametrize(
    ("tools", "choice", "what"),
    [
        ((TOOL,), ToolChoice(), "1 tools"),
        ((TOOL,), ToolChoice("tool", "grep"), "1 tools and tool_choice tool"),
        ((), ToolChoice("required"), "tool_choice required"),
    ],
)
async def test_tools_are_left_out_and_said(tmp_path: Path, tools: Any, choice: ToolChoice, what: str) -> None:
    fake = fake_claude(tmp_path, output(result()))
    request = AdapterCallRequest([Message.user("hi")], tools=tools, tool_choice=choice)
    notices: list[Notice] = []
    assert (await adapter(notices, command=fake).call(request)).text == "hello"
    message = f"claude-cli is text only: {what} cannot be passed on; the run goes on without"
    assert notices == [Notice("adapter.on_tools", message, "adapter.on_tools=error")]
    started = tmp_path / "started"
    started.unlink()
    with pytest.raises(AdapterError) as caught:
        await adapter(notices, command=fake, on_tools="error").call(request)
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    assert not started.exists()


# ------------------------------------------------------------------------------------------------- reading an answer


def test_answer() -> None:
    read = adapter().parse(
        output({"type": "system", "subtype": "ui_invalidate"}, "node: a warning", assistant("hello"), result())
    )
    assert read == AdapterCallResult(
        content=(TextBlock("hello"),),
        stop_reason=StopReason.END_TURN,
        usage=Usage(11, 7, 3, 2, 1),
        model="claude-x-1",
        raw_stop="end_turn",
        cost_usd=0.25,
    )


def test_refusal_is_an_answer() -> None:
    banner = "API Error: Claude Code is unable to respond to this request"
    refused = {"type": "system", "subtype": "model_refusal_no_fallback", "api_refusal_category": "cyber"}
    read = adapter().parse(
        output(
            assistant("part"),
            refused,
            assistant(banner, "<synthetic>", error="invalid_request"),
            result(banner, is_error=True, stop_reason="refusal"),
            status=1,
        )
    )
    assert (read.stop_reason, read.text, read.model) == (StopReason.REFUSAL, "part", "claude-x-1")
    assert read.stop_details == {"type": "refusal", "category": "cyber", "explanation": banner}


def test_output_limit_is_an_answer() -> None:
    banner = "API Error: Claude's response exceeded the 32000 output token maximum."
    read = adapter().parse(
        output(
            assistant("one "),
            assistant("two"),
            assistant(banner, "<synthetic>", error="max_output_tokens"),
            result(banner, is_error=True, stop_reason="stop_sequence"),
            status=1,
        )
    )
    assert (read.stop_reason, read.text) == (StopReason.MAX_TOKENS, "one two")


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (401, "Failed to authenticate. API Error: 401 bad key", ErrorKind.AUTH),
        (403, "API Error: 403 forbidden", ErrorKind.PERMISSION),
        (404, "API Error: 404 no such model", ErrorKind.NOT_FOUND),
        (400, "API Error: 400 something", ErrorKind.INVALID_REQUEST),
        (400, "Prompt is too long", ErrorKind.CONTEXT_OVERFLOW),
        (402, "API Error: 402", ErrorKind.BILLING),
        (429, "API Error: Request rejected (429) · slow down", ErrorKind.RATE_LIMIT),
        (500, "API Error: 500 oops", ErrorKind.SERVER),
        (529, "API Error: 529 busy", ErrorKind.OVERLOADED),
        (None, "Not logged in · Please run /login", ErrorKind.AUTH),
        (None, "Invalid API key · Fix external API key", ErrorKind.AUTH),
        (None, "Credit balance is too low", ErrorKind.BILLING),
        (None, "API Error: Connection error.", ErrorKind.CONNECTION),
        (None, "API Error: Request timed out.", ErrorKind.TIMEOUT),
        (None, "Something else entirely", ErrorKind.PROCESS),
    ],
)
def test_error_banner(status: int | None, text: str, kind: ErrorKind) -> None:
    """The subtype says success all the same."""
    error = failing(
        output(
            assistant(text, "<synthetic>", error="unknown"),
            result(text, is_error=True, api_error_status=status),
            status=1,
        )
    )
    assert (error.kind, error.status, error.message) == (kind, status, text)


def test_banner_without_the_flag() -> None:
    error = failing(output(assistant("API Error: 1", "<synthetic>", error="rate_limit"), result("API Error: 1")))
    assert (error.kind, error.code) == (ErrorKind.RATE_LIMIT, "rate_limit")


def test_exit_status_after_an_answer() -> None:
    error = failing(output(assistant("hello"), result(), status=2, stderr="late crash"))
    assert (error.kind, error.message) == (ErrorKind.PROCESS, "claude-cli ended with exit status 2: late crash")
    assert error.partial is not None
    assert error.partial.text == "hello"


@pytest.mark.parametrize(
    ("payload", "kind", "message"),
    [
        (output(), ErrorKind.BAD_RESPONSE, "claude-cli ended with exit status 0 and no answer"),
        (output('{"type": "res'), ErrorKind.BAD_RESPONSE, 'a line of its output is no JSON: {"type": "res'),
        (output('{"type": "res', result()), ErrorKind.BAD_RESPONSE, 'a line of its output is no JSON: {"type": "res'),
        (output("Hello!"), ErrorKind.BAD_RESPONSE, "claude-cli ended with exit status 0 and no answer: Hello!"),
        (
            output(status=1, stderr="unknown option"),
            ErrorKind.PROCESS,
            "claude-cli ended with exit status 1: unknown option",
        ),
        (output("Invalid API key", status=1), ErrorKind.AUTH, "claude-cli ended with exit status 1: Invalid API key"),
        (output(assistant("half"), status=-9), ErrorKind.PROCESS, "claude-cli was ended by SIGKILL"),
        (output(assistant("half"), status=-15), ErrorKind.PROCESS, "claude-cli was ended by SIGTERM"),
    ],
)
def test_no_answer(payload: dict[str, Any], kind: ErrorKind, message: str) -> None:
    error = failing(payload)
    assert (error.kind, error.message) == (kind, message)


@pytest.mark.parametrize("odd", [None, 3, [], {}, "text"])
def test_odd_values_do_not_crash(odd: Any) -> None:
    events = [
        {"type": odd},
        {"type": "assistant", "message": odd},
        {"type": "result", "result": odd, "usage": odd, "total_cost_usd": odd},
    ]
    read = adapter().parse(output(*events))
    assert read.text == ("text" if odd == "text" else "")
    assert read.usage.known is isinstance(odd, dict)


# ------------------------------------------------------------------------------------------------------ a fake CLI


def fake_claude(folder: Path, payload: dict[str, Any], before: str = "") -> str:
    path = folder / "claude"
    path.write_text(
        f"#!{sys.executable}\nimport os, signal, sys, time\n"
        f"open({str(folder / 'started')!r}, 'w').close()\nsys.stdin.read()\n{before}\n"
        f"sys.stdout.write({payload['stdout']!r})\nsys.stderr.write({payload['stderr']!r})\nsys.stdout.flush()\n"
        + (f"os.kill(os.getpid(), {-payload['exit_status']})\n" if payload["exit_status"] < 0 else "")
        + f"sys.exit({payload['exit_status']})\n"
    )
    path.chmod(0o755)
    return str(path)


async def test_call_streams_text(tmp_path: Path) -> None:
    fake = fake_claude(
        tmp_path, output(assistant("hel"), assistant("lo"), assistant("no", "<synthetic>"), result(is_error=False))
    )
    deltas: list[Delta] = []
    with pytest.raises(AdapterError):
        await adapter(command=fake).call(AdapterCallRequest([Message.user("x")], on_delta=deltas.append))
    assert deltas == [Delta("text", "hel"), Delta("text", "lo")]


async def test_call_killed_by_a_signal(tmp_path: Path) -> None:
    own = adapter(command=fake_claude(tmp_path, output(status=-11)))
    with pytest.raises(AdapterError) as caught:
        await own.call(ASK)
    assert str(caught.value) == "claude-cli: claude-cli was ended by SIGSEGV"
    await own.aclose()


async def test_call_timeout(tmp_path: Path) -> None:
    own = adapter(command=fake_claude(tmp_path, output(), before="time.sleep(600)"))
    with pytest.raises(AdapterError) as caught:
        await own.call(AdapterCallRequest([Message.user("x")], timeout_s=0.5))
    assert caught.value.kind is ErrorKind.TIMEOUT
    assert caught.value.retryable


async def test_keys_are_masked_in_errors(tmp_path: Path) -> None:
    key = "plain-looking-value-1234567"
    fake = fake_claude(tmp_path, output(status=1, stderr=f"refused key {key}"))
    own = adapter(command=fake, env=("ANTHROPIC_API_KEY",), environ={"ANTHROPIC_API_KEY": key})
    with pytest.raises(AdapterError) as caught:
        await own.call(ASK)
    assert caught.value.message == "claude-cli ended with exit status 1: refused key ***"


# ------------------------------------------------------------------------------------------------------ the real CLI


@pytest.mark.clis
async def test_real_answer_and_errors(tmp_path: Path) -> None:
    from geode.provider import LoopbackProvider
    from geode.script import Script

    command = binary("claude")
    script = Script.load(
        {
            "turns": [
                {"text": "Fine, thanks.", "usage": {"input": 11, "output": 7}},
                {"fault": {"kind": "http", "status": 429}},
                {"fault": {"kind": "http", "status": 401}},
            ]
        }
    )
    environ = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "sk-test"}
    async with LoopbackProvider(script, strict=False) as provider:
        own = adapter(
            command=command, environ=environ, env=("ANTHROPIC_API_KEY",), base_url=provider.base_url("messages")
        )
        read = await own.call(ASK)
        assert (read.text, read.stop_reason) == ("Fine, thanks.", StopReason.END_TURN)
        assert (read.usage.input_tokens, read.usage.output_tokens) == (11, 7)
        body = next(r.json for r in provider.requests if r.path.startswith("/v1/messages") and r.json)
        assert body["system"][-1]["text"] == "You are terse."
        assert not body.get("tools")
        assert body["max_tokens"] == 8192
        assert any("What is up? 日本" in str(part) for part in body["messages"][0]["content"])
        for kind in (ErrorKind.RATE_LIMIT, ErrorKind.AUTH):
            with pytest.raises(AdapterError) as caught:
                await own.call(ASK)
            assert caught.value.kind is kind
    assert running_at(tmp_path) == []


@pytest.mark.clis
async def test_real_server_that_hangs(tmp_path: Path) -> None:
    command = binary("claude")

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    own = adapter(
        command=command,
        environ={"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k"},
        env=("ANTHROPIC_API_KEY",),
        base_url=f"http://127.0.0.1:{port}",
    )
    with pytest.raises(AdapterError) as caught:
        await own.call(AdapterCallRequest([Message.user("x")], timeout_s=3))
    assert caught.value.kind in (ErrorKind.TIMEOUT, ErrorKind.CONNECTION)
    server.close()
    assert running_at(tmp_path) == []

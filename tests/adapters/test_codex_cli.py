"""The codex-cli adapter: what it runs, how it reads the answer, every way to fail; and the real CLI over loopback."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cli_binaries import binary, running_at

from geode.adapters.codex_cli import CodexCliAdapter
from geode.adapters.credentials import Secrets
from geode.adapters.options import AdapterOptions, CredentialOptions
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    Delta,
    ErrorKind,
    Message,
    Notice,
    StopReason,
    TextBlock,
    ToolSpec,
    Usage,
)

ASK = AdapterCallRequest(messages=[Message.user("What is up?")], system="You are terse.")
WARNING = {"type": "item.completed", "item": {"type": "error", "message": "Model metadata for `gpt-x` not found."}}
RECONNECTING = {"type": "error", "message": "Reconnecting... 1/5 (stream disconnected)"}
START = ({"type": "thread.started", "thread_id": "t"}, WARNING, {"type": "turn.started"})
DONE = {
    "type": "turn.completed",
    "usage": {"input_tokens": 11, "cached_input_tokens": 3, "output_tokens": 7, "reasoning_output_tokens": 2},
}


def adapter(
    notices: list[Notice] | None = None,
    environ: dict[str, str] | None = None,
    secrets: Secrets | None = None,
    **options: Any,
) -> CodexCliAdapter:
    given = {"name": "codex-cli", "wire": "codex-cli", "model": "gpt-x", "timeout_s": 60.0, **options}
    sink = [] if notices is None else notices
    environ = {"PATH": os.environ["PATH"], **(environ or {})}
    return CodexCliAdapter(AdapterOptions(**given), notify=sink.append, secrets=secrets, environ=environ)


def message(text: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}}


def failed(text: str) -> tuple[dict[str, Any], ...]:
    return {"type": "error", "message": text}, {"type": "turn.failed", "error": {"message": text}}


def output(*events: Any, status: int = 0, stderr: str = "") -> dict[str, Any]:
    lines = [e if isinstance(e, str) else json.dumps(e) for e in events]
    return {"stdout": "\n".join(lines) + "\n", "stderr": stderr, "exit_status": status}


def failing(payload: dict[str, Any]) -> AdapterError:
    with pytest.raises(AdapterError) as caught:
        adapter().parse(payload)
    return caught.value


# ------------------------------------------------------------------------------------------------------ what is run


def test_describe() -> None:
    described = adapter(env=("OPENAI_API_KEY",), args=("--color", "never")).describe(ASK)
    argv = described["argv"]
    assert argv[:10] == [
        "codex", "exec", "--json", "--skip-git-repo-check", "--ephemeral", "-s", "read-only", "-m", "gpt-x",
        "--ignore-user-config",
    ]  # fmt: skip
    assert argv[-3:] == ["--color", "never", "-"]
    settings = [b for a, b in pairwise(argv) if a == "-c"]
    assert settings[0] == 'model_instructions_file="{system-prompt.txt}"'
    assert {"features.shell_tool=false", "features.unbounded_connection_retries=false"} <= set(settings)
    assert not any("model_provider" in s for s in settings)
    assert described["stdin"] == "What is up?"
    assert described["files"] == {"system-prompt.txt": "You are terse."}
    assert {"OPENAI_API_KEY", "HOME", "PATH"} <= set(described["env"])


def test_another_endpoint_is_a_model_provider() -> None:
    own = adapter(
        secrets=Secrets("sk-secret-value"),
        base_url="http://127.0.0.1:9/v1",
        credential=CredentialOptions(kind="env", env=("MY_KEY",)),
    )
    command = own.command(ASK)
    assert 'model_provider="geode"' in command.argv
    assert (
        'model_providers.geode={name="codex-cli",base_url="http://127.0.0.1:9/v1",env_key="MY_KEY",'
        'wire_api="responses",request_max_retries=0,stream_max_retries=0}'
    ) in command.argv
    assert command.env == {"MY_KEY": "sk-secret-value"}
    assert "sk-secret-value" not in json.dumps(own.describe(ASK))


def test_an_empty_system_prompt_takes_no_instructions_of_the_cli() -> None:
    files = adapter().describe(AdapterCallRequest([Message.user("x")]))["files"]
    assert files == {"system-prompt.txt": "Answer with text."}


# ------------------------------------------------------------------------------------------------- reading an answer


def test_answer_is_the_last_message() -> None:
    read = adapter().parse(output(*START, "a warning", RECONNECTING, message("I will look."), message("Fine."), DONE))
    assert read == AdapterCallResult(
        content=(TextBlock("Fine."),), stop_reason=StopReason.END_TURN, usage=Usage(8, 7, 3, 0, 0, 2), model="gpt-x"
    )


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("max_output_tokens", StopReason.MAX_TOKENS), ("content_filter", StopReason.CONTENT_FILTER)],
)
def test_incomplete_is_an_answer(reason: str, stop: StopReason) -> None:
    text = f"Incomplete response returned, reason: {reason}"
    read = adapter().parse(output(*START, message("half"), *failed(text), status=1))
    assert (read.text, read.stop_reason, read.stop_details) == ("half", stop, {"reason": reason})
    assert not read.usage.known


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("unexpected status 401 Unauthorized: bad key, url: http://x/v1/responses", ErrorKind.AUTH, 401),
        ("unexpected status 403 Forbidden: no", ErrorKind.PERMISSION, 403),
        ("unexpected status 404 Not Found: no model", ErrorKind.NOT_FOUND, 404),
        ("unexpected status 400 Bad Request: no", ErrorKind.INVALID_REQUEST, 400),
        ("exceeded retry limit, last status: 429 Too Many Requests", ErrorKind.RATE_LIMIT, 429),
        ("exceeded retry limit, last status: 503 Service Unavailable", ErrorKind.SERVER, 503),
        ("You've hit your usage limit. Try again at 3 PM.", ErrorKind.BILLING, None),
        ("Quota exceeded. Check your plan and billing details.", ErrorKind.BILLING, None),
        ("Connection failed: error sending request", ErrorKind.CONNECTION, None),
        ("stream disconnected before completion: boom", ErrorKind.CONNECTION, None),
        ("Missing environment variable: `MY_KEY`.", ErrorKind.AUTH, None),
    ],
)
def test_failed_turn(text: str, kind: ErrorKind, status: int | None) -> None:
    error = failing(output(*START, *failed(text), status=1))
    assert (error.kind, error.status, error.message) == (kind, status, text)


@pytest.mark.parametrize(
    ("payload", "kind", "message_"),
    [
        (output(), ErrorKind.BAD_RESPONSE, "codex-cli ended with exit status 0 and no answer"),
        (output(*START), ErrorKind.BAD_RESPONSE, "codex-cli ended with exit status 0 and no answer"),
        (output('{"type": "it', DONE), ErrorKind.BAD_RESPONSE, 'a line of its output is no JSON: {"type": "it'),
        (output(status=2, stderr="bad flag"), ErrorKind.PROCESS, "codex-cli ended with exit status 2: bad flag"),
        (output(status=-9), ErrorKind.PROCESS, "codex-cli was ended by SIGKILL"),
        (output(RECONNECTING, status=-15), ErrorKind.PROCESS, "codex-cli was ended by SIGTERM"),
        (output(*START, {"type": "turn.failed"}, status=1), ErrorKind.SERVER, "the turn failed"),
    ],
)
def test_no_answer(payload: dict[str, Any], kind: ErrorKind, message_: str) -> None:
    error = failing(payload)
    assert (error.kind, error.message) == (kind, message_)


def test_exit_status_after_an_answer() -> None:
    error = failing(output(message("hello"), DONE, status=3))
    assert error.kind is ErrorKind.PROCESS
    assert error.partial is not None
    assert error.partial.text == "hello"


@pytest.mark.parametrize("odd", [None, 3, [], {}, "text"])
def test_odd_values_do_not_crash(odd: Any) -> None:
    events = [{"type": odd}, {"type": "item.completed", "item": odd}, {"type": "error", "message": odd}]
    assert adapter().parse(output(*events, {"type": "turn.completed", "usage": odd})).content == ()


# ------------------------------------------------------------------------------------------------------ a fake CLI


def fake_codex(folder: Path, payload: dict[str, Any], before: str = "") -> str:
    path = folder / "codex"
    path.write_text(
        f"#!{sys.executable}\nimport sys, time\nopen({str(folder / 'started')!r}, 'w').close()\nsys.stdin.read()\n"
        f"{before}\nsys.stdout.write({payload['stdout']!r})\nsys.exit({payload['exit_status']})\n"
    )
    path.chmod(0o755)
    return str(path)


async def test_call(tmp_path: Path) -> None:
    own = adapter(command=fake_codex(tmp_path, output(*START, message("Fine."), DONE)))
    deltas: list[Delta] = []
    read = await own.call(AdapterCallRequest([Message.user("x")], on_delta=deltas.append))
    assert (read.text, deltas) == ("Fine.", [Delta("text", "Fine.")])
    await own.aclose()


async def test_tools_are_an_error_before_anything_starts(tmp_path: Path) -> None:
    own = adapter(command=fake_codex(tmp_path, output()), on_tools="error")
    with pytest.raises(AdapterError) as caught:
        await own.call(AdapterCallRequest([Message.user("x")], tools=(ToolSpec("a", "", {}),)))
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    assert not (tmp_path / "started").exists()


async def test_timeout(tmp_path: Path) -> None:
    own = adapter(command=fake_codex(tmp_path, output(), before="time.sleep(600)"), timeout_s=0.5)
    with pytest.raises(AdapterError) as caught:
        await own.call(ASK)
    assert caught.value.kind is ErrorKind.TIMEOUT


async def test_missing_binary() -> None:
    with pytest.raises(AdapterError) as caught:
        await adapter(command="codex-that-is-not-there").call(ASK)
    assert "npm install -g @openai/codex" in caught.value.message


# ------------------------------------------------------------------------------------------------------ the real CLI


@pytest.mark.clis
async def test_real_answer_and_errors(tmp_path: Path) -> None:
    from geode.provider import LoopbackProvider
    from geode.script import Script

    command = binary("codex")
    turns = [
        {"text": "Fine, thanks.", "usage": {"input": 11, "output": 7}},
        {"fault": {"kind": "http", "status": 429}},
        {"fault": {"kind": "http", "status": 401}},
    ]
    async with LoopbackProvider(Script.load({"turns": turns}), strict=False) as provider:
        own = adapter(
            command=command,
            environ={"HOME": str(tmp_path)},
            secrets=Secrets("sk-test"),
            base_url=provider.base_url("responses"),
        )
        read = await own.call(ASK)
        assert (read.text, read.stop_reason) == ("Fine, thanks.", StopReason.END_TURN)
        assert (read.usage.input_tokens, read.usage.output_tokens) == (11, 7)
        body = next(r.json for r in provider.requests if r.path.endswith("/responses") and r.json)
        said = [(i["role"], i["content"][0]["text"]) for i in body["input"]]
        assert said == [("developer", "You are terse."), ("user", "What is up?")]
        assert "exec_command" not in str(body.get("tools"))
        for kind in (ErrorKind.RATE_LIMIT, ErrorKind.AUTH):
            with pytest.raises(AdapterError) as caught:
                await own.call(ASK)
            assert caught.value.kind is kind
    assert running_at(tmp_path) == []


@pytest.mark.clis
async def test_real_server_that_is_down(tmp_path: Path) -> None:
    """Left alone, the CLI waits for the network without end."""
    command = binary("codex")
    own = adapter(
        command=command,
        environ={"HOME": str(tmp_path)},
        secrets=Secrets("k"),
        base_url="http://127.0.0.1:1/v1",
    )
    with pytest.raises(AdapterError) as caught:
        await own.call(AdapterCallRequest([Message.user("x")], timeout_s=30))
    assert caught.value.kind is ErrorKind.CONNECTION
    assert running_at(tmp_path) == []


@pytest.mark.clis
async def test_real_cancel_leaves_nothing(tmp_path: Path) -> None:
    command = binary("codex")
    reached = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    own = adapter(
        command=command,
        environ={"HOME": str(tmp_path)},
        secrets=Secrets("k"),
        base_url=f"http://127.0.0.1:{port}/v1",
    )
    task = asyncio.create_task(own.call(ASK))
    await asyncio.wait_for(reached.wait(), 60)
    assert running_at(tmp_path) != []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.close()
    assert running_at(tmp_path) == []

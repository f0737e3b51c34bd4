"""What one LLM call costs the client, beside the raw connection and the SDKs.

    python benchmarks/wire.py [--rounds 50,200,800] [--wires messages,responses,chat] [--calls 15]

A conversation of N rounds (each one call and its result) is sent to the loopback provider, which runs in a process of
its own and checks the pairing. Four ways:

  geode     the adapter's `call`, its history one round longer each time, as the loop makes it
  raw       http.client with json.dumps and json.loads of the whole body
  post      the SDK client's own `post` with ready bytes, answer read as JSON: the floor for anything over the SDK
  create    the SDK's typed `create()` with the same body as Python objects

Figures are CPU milliseconds of the client process for one call, the median of `--calls`. The ratio is to `post`.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geode.adapters import make_adapter
from geode.adapters.credentials import Secrets
from geode.adapters.options import AdapterOptions, CacheOptions
from geode.contract import AdapterCallRequest, History, Message, ToolResultBlock, ToolSpec, ToolUseBlock

SCRIPT = "turns:\n  - {text: done, repeat: forever, usage: {input: 10, output: 2}}\n"
PATHS = {"messages": "/v1/messages", "responses": "/responses", "chat": "/chat/completions"}
GREP = ToolSpec(
    "grep_files",
    "Searches files.",
    {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]},
)
RESULT = json.dumps({"matches": [{"file": f"src/m{i}.py", "line": i, "text": "def f(): ..."} for i in range(6)]})
_WARM_UP = 2
WAYS = ("geode", "raw", "post", "create")


def one_round(number: int) -> tuple[Message, Message]:
    call = ToolUseBlock(f"call_{number}", "grep_files", {"pattern": f"f{number}"}, f'{{"pattern":"f{number}"}}')
    return Message.assistant(f"I look for f{number}.", call), Message("user", (ToolResultBlock(call.id, RESULT),))


def history_of(rounds: int) -> History:
    history = History([Message.user("Find the functions.")])
    for number in range(rounds):
        for message in one_round(number):
            history.append(message)
    return history


@contextmanager
def provider() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.yaml")
        script.write_text(SCRIPT, encoding="utf-8")
        words = [sys.executable, "-m", "geode.provider", "--script", str(script), "--strict", "pairing", "--keep", "1"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            if process.wait() != 0:
                raise SystemExit("the provider found problems in the requests")


def options_of(wire: Any, base_url: str) -> AdapterOptions:
    return AdapterOptions(
        name="bench",
        wire=wire,
        model="bench",
        base_url=base_url,
        max_tokens=4096,
        max_tokens_field="max_output_tokens" if wire == "responses" else "max_tokens",
        cache=CacheOptions(prefix=False, moving=False),
    )


@dataclass
class Way:
    """One way of making the call. between: the caller's own work before it, not counted."""

    call: Callable[[], Awaitable[Any]]
    close: Callable[[], Awaitable[None]]
    calls: int
    between: Callable[[], None] = lambda: None
    times: list[float] = field(default_factory=list)

    async def run(self, warm_up: bool) -> None:
        self.between()
        started = time.process_time()
        await self.call()
        if not warm_up:
            self.times.append(time.process_time() - started)


async def measure(ways: Mapping[str, Way]) -> dict[str, float]:
    """Median CPU milliseconds of this process for one call; the ways take turns, so that noise meets all alike."""
    for turn in range(_WARM_UP + max(way.calls for way in ways.values())):
        for way in ways.values():
            if turn < _WARM_UP + way.calls:
                await way.run(turn < _WARM_UP)
    for way in ways.values():
        await way.close()
    return {name: 1000 * statistics.median(way.times) for name, way in ways.items()}


def geode_way(wire: str, base_url: str, rounds: int, calls: int) -> Way:
    adapter = make_adapter(options_of(wire, base_url), secrets=Secrets("key"), notify=lambda _notice: None)
    history = history_of(rounds)

    def grow() -> None:
        for message in one_round(len(history)):
            history.append(message)

    def call() -> Awaitable[Any]:
        return adapter.call(AdapterCallRequest(history, "Be careful.", (GREP,)))

    return Way(call, adapter.aclose, calls, grow)


def raw_way(wire: str, base_url: str, body: dict[str, Any], calls: int) -> Way:
    host, _, prefix = base_url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host)
    headers = {"content-type": "application/json", "authorization": "Bearer key", "anthropic-version": "2023-06-01"}
    path = (f"/{prefix}" if prefix else "") + PATHS[wire]

    async def call() -> None:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert response.status == 200, answer

    async def close() -> None:
        connection.close()

    return Way(call, close, calls)


def client_of(wire: str, base_url: str) -> Any:
    if wire == "messages":
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(base_url=base_url, api_key="key", max_retries=0)
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=base_url, api_key="key", max_retries=0)


def post_way(wire: str, base_url: str, body: bytes, calls: int) -> Way:
    import httpx2

    client = client_of(wire, base_url)

    async def call() -> None:
        options = {"timeout": httpx2.Timeout(600.0)}
        response = await client.post(PATHS[wire], content=body, cast_to=httpx2.Response, options=options)
        json.loads(response.content)

    return Way(call, client.close, calls)


def create_way(wire: str, base_url: str, body: dict[str, Any], calls: int) -> Way:
    client = client_of(wire, base_url)
    creates = {
        "messages": lambda: client.messages.create,
        "responses": lambda: client.responses.create,
        "chat": lambda: client.chat.completions.create,
    }
    create = creates[wire]()
    return Way(lambda: create(**body), client.close, calls)


async def compare(wire: str, base_url: str, rounds: int, calls: int) -> tuple[float, dict[str, float]]:
    """(kilobytes of the body, milliseconds by way)."""
    adapter = make_adapter(options_of(wire, base_url), secrets=Secrets("key"), notify=lambda _notice: None)
    content = adapter.build(AdapterCallRequest(history_of(rounds), "Be careful.", (GREP,)))
    body = json.loads(content)
    ways = {
        "geode": geode_way(wire, base_url, rounds, calls),
        "raw": raw_way(wire, base_url, body, calls),
        "post": post_way(wire, base_url, content, calls),
        "create": create_way(wire, base_url, body, max(2, min(calls, 1000 // rounds))),
    }
    return len(content) / 1024, await measure(ways)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", default="50,200,800", help="lengths of the conversation, comma-separated")
    parser.add_argument("--wires", default=",".join(PATHS))
    parser.add_argument("--calls", type=int, default=15, help="measured calls of each kind")
    given = parser.parse_args()
    for name in [n for n in os.environ if n.startswith(("OPENAI_", "ANTHROPIC_"))]:
        del os.environ[name]
    print(f"{'wire':<10} {'rounds':>6} {'body':>8}  " + "".join(f"{way:>16}" for way in WAYS))
    with provider() as urls:
        for wire in given.wires.split(","):
            for rounds in map(int, given.rounds.split(",")):
                size, found = asyncio.run(compare(wire, urls[wire], rounds, given.calls))
                cells = "".join(f"{found[w]:>9.2f} ({found[w] / found['post']:>3.1f}x)" for w in WAYS)
                print(f"{wire:<10} {rounds:>6} {size:>5.0f} kB  {cells}", flush=True)


if __name__ == "__main__":
    main()

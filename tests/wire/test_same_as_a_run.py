"""What `geode wire` prints is what a run sends, to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from geode.compose import compose_settings
from geode.provider import LoopbackProvider
from geode.runner import run_settings
from geode.wire import collect

SCRIPT = """\
turns:
  - text: I will calculate.
    reasoning: Twice is enough.
    tool_calls:
      - name: calculate
        input: {expression: 24 * 50}
        result: {expression: 24 * 50, result: 1200, text: "1200", exact: true}
      - {name: calculate, arguments: '{"expression": ', result: never looked at}
  - text: It is 1200.
"""
KEYS = {"ANTHROPIC_API_KEY": "key", "OPENAI_API_KEY": "key", "ZAI_API_KEY": "key"}


@pytest.mark.parametrize(
    ("adapter", "wire"), [("anthropic-payg", "messages"), ("openai-payg", "responses"), ("glm-payg", "chat")]
)
async def test_a_run_sends_the_same_bytes(adapter: str, wire: Any, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    words = [
        f"adapter={adapter}",
        f"provider.script={script}",
        "task=question",
        "task.prompt=What is 24 times 50?",
        "budget.max_rounds=2",
        "wire.rounds=2",
        "adapter.stream=true",
    ]
    async with LoopbackProvider(script) as provider:
        settings = compose_settings([*words, f"adapter.base_url={provider.base_url(wire)}"])
        result = await run_settings(settings, tmp_path / "run", environ=KEYS)
        assert (result.text, result.rounds) == ("It is 1200.", 2)
        shown = await collect(settings)
    assert [request.body for request in provider.requests] == shown.bodies
    for request, printed in zip(provider.requests, shown.requests, strict=True):
        assert printed["url"] == provider.origin + request.path
        assert printed["body"] == json.loads(request.body)
        quiet = {"authorization", "x-api-key", "user-agent"}
        assert {k: v for k, v in printed["headers"].items() if k not in quiet}.items() <= request.headers.items()

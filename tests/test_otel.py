"""The OpenTelemetry exporter: spans by the conventions for generative AI, content only where it is asked for."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import otel_kit
import pytest
import yaml

from geode.compose import compose_settings
from geode.config_errors import ConfigFault
from geode.loop.result import AgenticResult
from geode.runner import run_settings

pytestmark = pytest.mark.otel
pytest.importorskip("opentelemetry.sdk")


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "input": arguments}


TURNS: list[dict[str, Any]] = [
    {
        "text": "Let me see.",
        "tool_calls": [call("calculate", expression="6 * 7"), call("read_document", path="none.txt")],
        "usage": {"input": 100, "cache_read": 50, "output": 10},
    },
    {"fault": {"kind": "http", "status": 529}},
    {"text": "It is 42.", "usage": {"input": 30, "output": 7}},
]


def run(folder: Path, turns: Sequence[Mapping[str, Any]], *overrides: str, content: bool = False) -> AgenticResult:
    otel_kit.exported.clear()
    (folder / "script.yaml").write_text(yaml.safe_dump({"name": "traced", "turns": list(turns)}))
    words = [
        "adapter=scripted", f"adapter.script={folder / 'script.yaml'}", f"provider.script={folder / 'script.yaml'}",
        "task=chat", "task.prompt=What is six times seven?", "task.system=Be brief.", "display=quiet",
        "llm.base_delay_s=0", f"hooks.observers=[{{_target_: otel_kit.hook, content: {content}}}]", *overrides,
    ]  # fmt: skip
    return asyncio.run(run_settings(compose_settings(words), folder / "run", environ={}))


def spans() -> list[tuple[str, dict[str, Any]]]:
    return [(span.name, dict(span.attributes or {})) for span in otel_kit.exported]


def test_a_run_is_a_trace(tmp_path: Path) -> None:
    result = run(tmp_path, TURNS, "adapter=anthropic-payg", "provider=scripted", "adapter.model=claude-test")
    assert result.termination_reason == "natural"
    found = otel_kit.exported
    assert sorted(span.name for span in found) == [
        "chat claude-test", "chat claude-test", "chat claude-test",
        "execute_tool calculate", "execute_tool read_document", "invoke_agent geode",
    ]  # fmt: skip
    root = found[-1]
    assert root.name == "invoke_agent geode"
    assert root.parent is None
    assert all(s.parent is not None and s.parent.span_id == root.context.span_id for s in found[:-1])
    assert all(s.start_time <= s.end_time <= root.end_time for s in found[:-1])
    assert {s.kind.name for s in found if s.name.startswith("chat")} == {"CLIENT"}
    assert {s.kind.name for s in found if not s.name.startswith("chat")} == {"INTERNAL"}
    attributes = dict(root.attributes)
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.provider.name"] == "anthropic"
    assert attributes["geode.termination_reason"] == "natural"
    assert attributes["gen_ai.usage.input_tokens"] == 180
    assert attributes["gen_ai.usage.output_tokens"] == 17
    assert attributes["geode.rounds"] == 2
    assert root.status.status_code.name == "UNSET"
    assert [e.name for e in root.events] == ["geode.round_started", "geode.round_started"]


def test_a_chat_span_says_what_a_call_used(tmp_path: Path) -> None:
    run(tmp_path, TURNS)
    first, failed, last = [attributes for name, attributes in spans() if name == "chat scripted"]
    assert first == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.model": "scripted",
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.usage.input_tokens": 150,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 50,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 0,
        "geode.round": 1,
        "geode.attempt": 1,
        "geode.purpose": "round",
        "geode.stop_reason": "tool_use",
        "geode.request_id": "scripted_1",
        "geode.cost_usd": 0.0,
    }
    assert failed["error.type"] == "overloaded"
    assert failed["http.response.status_code"] == 529
    assert (last["geode.round"], last["geode.attempt"]) == (2, 2)
    assert "error.type" not in last


def test_a_tool_span_says_how_a_call_ended(tmp_path: Path) -> None:
    run(tmp_path, TURNS)
    tools = {attributes["gen_ai.tool.name"]: attributes for name, attributes in spans() if "execute" in name}
    assert set(tools["calculate"]) == {
        "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type", "geode.round",
        "geode.tier",
    }  # fmt: skip
    assert tools["read_document"]["error.type"] == "ToolError"
    status = {s.name: s.status.status_code.name for s in otel_kit.exported}
    assert (status["execute_tool calculate"], status["execute_tool read_document"]) == ("UNSET", "ERROR")


def test_content_stays_at_home_unless_it_is_asked_for(tmp_path: Path) -> None:
    run(tmp_path, TURNS)
    everything = repr([(s.name, dict(s.attributes), [dict(e.attributes) for e in s.events]) for s in otel_kit.exported])
    for text in ("six times", "Be brief", "Let me see", "6 * 7", "none.txt", "It is 42"):
        assert text not in everything
    run(tmp_path, TURNS, content=True)
    found = dict(reversed(spans()))  # the first of each name
    root = found["invoke_agent geode"]
    assert json.loads(root["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "What is six times seven?"}]}
    ]
    assert "It is 42." in root["gen_ai.output.messages"]
    assert "Be brief." in root["gen_ai.system_instructions"]
    assert json.loads(found["execute_tool calculate"]["gen_ai.tool.call.arguments"]) == {"expression": "6 * 7"}
    assert "42" in found["execute_tool calculate"]["gen_ai.tool.call.result"]


def test_a_failed_run_is_an_error(tmp_path: Path) -> None:
    run(tmp_path, [{"fault": {"kind": "http", "status": 401}}])
    root = otel_kit.exported[-1]
    assert root.status.status_code.name == "ERROR"
    assert dict(root.attributes)["error.type"] == "llm_error"


def test_a_call_that_the_time_budget_cut_is_a_span(tmp_path: Path) -> None:
    result = run(tmp_path, [{"fault": {"kind": "hang"}}], "budget.time_budget_s=0.2")
    assert result.termination_reason == "time_budget_expired"
    chat = next(attributes for name, attributes in spans() if name == "chat scripted")
    assert chat["error.type"] == "time_budget_expired"


def test_a_collector_that_is_not_there_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    result = run(
        tmp_path, TURNS, "hooks=otel",
        "hooks.observers=[{_target_: geode.otel.OpenTelemetry, endpoint: 'http://127.0.0.1:9/x', timeout_s: 0.3}]",
    )  # fmt: skip
    assert result.termination_reason == "natural"
    assert otel_kit.exported == []


def test_without_the_extra_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    settings = compose_settings(["hooks=otel", "display=quiet"])
    assert settings.hooks.observers[0].target == "geode.otel.OpenTelemetry"
    with pytest.raises(ConfigFault) as caught:
        asyncio.run(run_settings(settings, tmp_path / "run", environ={}))
    assert caught.value.lines == (
        "hooks.observers.0: geode.otel.OpenTelemetry could not be made: ImportError: it needs the extra otel: "
        "pip install 'geode[otel]' (opentelemetry.sdk.trace is missing)",
    )

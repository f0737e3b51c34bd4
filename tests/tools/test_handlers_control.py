"""ask_user, request_action, and the map of handlers against the definitions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from geode.contract import TerminationReason
from geode.tools.handlers import BUILTIN_HANDLERS
from geode.tools.registry import ToolRegistry
from geode.tools.types import EndRequest, ToolContext, ToolReturn

DEFINITIONS = Path(__file__).parents[2] / "tools" / "definitions.json"


class Asker:
    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def ask(self, question: str) -> str | None:
        self.asked.append(question)
        return self.answer


async def test_ask_user_with_a_person(tmp_path: Path) -> None:
    asker = Asker(" 2 ")
    context = ToolContext(tmp_path, services={"asker": asker})
    answer = await BUILTIN_HANDLERS["ask_user"](question="Which?", options=["red", "blue"], context=context)
    assert answer == {"question": "Which?", "answer": "blue"}
    assert asker.asked == ["Which?\n1. red\n2. blue"]


@pytest.mark.parametrize("services", [{}, {"asker": Asker(None)}])
async def test_ask_user_with_nobody(tmp_path: Path, services: dict[str, Asker]) -> None:
    context = ToolContext(tmp_path, services=services)
    assert await BUILTIN_HANDLERS["ask_user"](question="Which?", context=context) == ToolReturn(
        "There is nobody to answer now. The run ends here with your question.",
        end=EndRequest(TerminationReason.USER_CLARIFICATION_NEEDED, "Which?", {"question": "Which?", "options": []}),
    )


def test_request_action(tmp_path: Path) -> None:
    result = BUILTIN_HANDLERS["request_action"](action="Log in", reason="No token", context=ToolContext(tmp_path))
    assert result.end == EndRequest(
        TerminationReason.MODEL_ACTION_REQUIRED,
        "Log in\n\nReason: No token",
        {"action": "Log in", "reason": "No token"},
    )


def test_definitions_and_handlers_fit() -> None:
    names = [entry["name"] for entry in json.loads(DEFINITIONS.read_text())]
    elsewhere = {"recall_tool_result", "tool_search", "delegate_task"}
    assert set(names) - elsewhere == set(BUILTIN_HANDLERS)
    stand_ins = {name: lambda **_: None for name in elsewhere}
    registry = ToolRegistry.load([DEFINITIONS], builtin={**BUILTIN_HANDLERS, **stand_ins}, entry_points=False)
    assert {tool.name: str(tool.tier) for tool in registry.tools()} == {
        "glob_files": "safe",
        "grep_files": "safe",
        "read_document": "safe",
        "write_file": "write",
        "edit_file": "write",
        "calculate": "safe",
        "run_bash": "dangerous",
        "web_fetch": "expensive",
        "ask_user": "safe",
        "request_action": "safe",
        "recall_tool_result": "safe",
        "tool_search": "safe",
        "delegate_task": "expensive",
    }
    for tool in registry.tools():
        assert tool.spec.input_schema["type"] == "object"
        assert tool.spec.input_schema["additionalProperties"] is False


def test_looking_handlers_up_imports_nothing_heavy() -> None:
    code = (
        "import sys; from geode.tools.handlers import BUILTIN_HANDLERS as h; [h[n] for n in h];"
        "print([m for m in ('httpx2', 'regex', 'pydantic', 'jsonschema', 'anthropic', 'openai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

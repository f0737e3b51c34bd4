"""A tool whose schema's root is no object, over each wire: sent as `{"value": ...}`, checked and served as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools_kit import run_config

SCRIPT = """
turns:
  - tool_calls:
      - {name: total, input: {value: [{"a b": 1}, {"a b": 2}]}}
      - {name: total, input: {value: [{"a b": "x"}]}}
      - {name: total, input: {numbers: []}}
  - text: "{% for r in results %}{{ r.text }}{% if not loop.last %}|{% endif %}{% endfor %}"
"""
HANDLER = """
def total(numbers):
    return sum(number["a b"] for number in numbers)
"""
SCHEMA = {"$ref": "#/$defs/l", "$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/n"}}, "n": {
    "type": "object", "properties": {"a b": {"type": "integer"}}, "required": ["a b"], "additionalProperties": False,
}}}  # fmt: skip


@pytest.mark.parametrize("adapter", ["scripted", "anthropic-payg", "openai-payg", "glm-payg"])
async def test_over_the_wire(adapter: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "total.py").write_text(HANDLER)
    entry = {"name": "total", "description": "Adds.", "safety": "safe", "input_schema": SCHEMA}
    (folder / "definitions.json").write_text(json.dumps([entry]))
    script = tmp_path / "total.yaml"
    script.write_text(SCRIPT)
    if adapter == "anthropic-payg":  # this wire takes no such property names: there they are `a_b`
        script.write_text(SCRIPT.replace("a b", "a_b"))
    where = "adapter" if adapter == "scripted" else "provider=scripted provider"
    words = f"adapter={adapter} {where}.script=total.yaml".split()
    words += ["task=question", "task.prompt=Add", "tools.folders=[mine]", "toolset.include=[total]"]
    run_dir = await run_config(tmp_path, *words)
    parts = json.loads((run_dir / "result.json").read_text())["text"].split("|")
    texts = [json.loads(part)["error"] if part.startswith("{") else part for part in parts]
    assert [text.splitlines()[-1] for text in texts] == [
        "3",
        "- $.value[0][\"a b\"]: 'x' is not of type 'integer'",
        "- $: must be an object with the one property 'value', which holds the value",
    ]

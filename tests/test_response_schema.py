"""Answers that must fit a schema, on every wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from loop_kit import WIRES, play, settings, turn, usage

from geode.config_errors import ConfigFault
from geode.runner import run_settings

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer", "minimum": 1}, "unit": {"enum": ["s", "ms"]}},
    "required": ["total", "unit"],
    "additionalProperties": False,
}
GOOD = '{"total": 3, "unit": "s"}'


@pytest.mark.parametrize("wire", [*WIRES, None])
async def test_a_fitting_answer_is_parsed(tmp_path: Path, wire: str | None) -> None:
    run = await play(tmp_path, [turn("first", ("echo", {"text": "a"})), turn(GOOD)], wire, response__schema=SCHEMA)
    assert (run.reason, run.result.parsed, run.result.error) == ("natural", {"total": 3, "unit": "s"}, None)
    assert run.result.text == GOOD
    data = json.loads((run.folder / "result.json").read_text(encoding="utf-8"))
    assert data["parsed"] == {"total": 3, "unit": "s"}


@pytest.mark.parametrize("wire", WIRES)
async def test_one_repair_is_asked_for(tmp_path: Path, wire: str) -> None:
    run = await play(tmp_path, [turn('{"total": 0}'), turn(GOOD)], wire, response__schema=SCHEMA)
    assert (run.reason, run.result.parsed, run.result.rounds) == ("natural", {"total": 3, "unit": "s"}, 2)
    assert run.hints == [(1, "repair")]
    asked = run.history[2].text
    assert "$: 'unit' is a required property" in asked
    assert "$.total: 0 is less than the minimum of 1" in asked


@pytest.mark.parametrize("wire", WIRES)
async def test_a_second_failure_is_in_the_error(tmp_path: Path, wire: str) -> None:
    run = await play(tmp_path, [turn("no json"), turn('{"total": "x", "unit": "s"}')], wire, response__schema=SCHEMA)
    assert (run.reason, run.result.parsed, run.result.rounds) == ("natural", None, 2)
    assert run.result.error == {
        "kind": "response_schema",
        "message": "$.total: 'x' is not of type 'integer'",
    }
    assert run.result.text == '{"total": "x", "unit": "s"}'


@pytest.mark.parametrize(("repair", "rounds"), [(0, 1), (2, 3)])
async def test_the_number_of_repairs_is_config(tmp_path: Path, repair: int, rounds: int) -> None:
    run = await play(tmp_path, [turn("no", repeat="forever")], response__schema=SCHEMA, response__repair=repair)
    assert (run.reason, run.result.rounds) == ("natural", rounds)
    assert run.result.error is not None
    assert run.result.error["message"].startswith("the answer is not JSON")


@pytest.mark.parametrize("text", [f"```json\n{GOOD}\n```", f"```\n{GOOD}\n```\n", f"  {GOOD}\n"])
async def test_a_fence_around_the_json_is_taken_off(tmp_path: Path, text: str) -> None:
    run = await play(tmp_path, [turn(text)], response__schema=SCHEMA)
    assert run.result.parsed == {"total": 3, "unit": "s"}


async def test_all_keywords_hold_not_only_those_a_provider_knows(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    run = await play(tmp_path, [turn('{"a": 1, "b": 2}'), turn('{"a": 1}')], "messages", response__schema=schema)
    assert (run.result.parsed, run.hints) == ({"a": 1}, [(1, "repair")])


async def test_a_cut_answer_is_joined_before_it_is_checked(tmp_path: Path) -> None:
    script = [turn('{"total": 3, ', stop="max_tokens", usage=usage(5)), turn('"unit": "s"}')]
    run = await play(tmp_path, script, "responses", response__schema=SCHEMA)
    assert (run.result.parsed, run.hints) == ({"total": 3, "unit": "s"}, [(1, "continue")])


async def test_the_schema_may_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    run = await play(tmp_path, [turn(GOOD)], response__schema=str(path))
    assert run.result.parsed == {"total": 3, "unit": "s"}


@pytest.mark.parametrize("given", [{"type": "objekt"}, "no-such-file.json"])
async def test_a_bad_schema_is_a_config_error(tmp_path: Path, given: Any) -> None:
    with pytest.raises(ConfigFault) as caught:
        await run_settings(settings(response__schema=given), tmp_path, environ={})
    assert caught.value.lines[0].startswith("response.schema: ")

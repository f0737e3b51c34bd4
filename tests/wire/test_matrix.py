"""The snapshot matrix: each adapter of conf/, in each kind of conversation, byte for byte.

After a change that is meant: `pytest tests/wire --snapshot-update`, and read the difference.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from strict_types import faults
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension
from wire_cases import CASES, HTTP, MATRIX, captured, options_of

from geode.provider.checks import semantic
from geode.provider.params import problems

FOLDER = Path(__file__).parent / "__snapshots__" / "test_matrix"


class Readable(JSONSnapshotExtension):
    """One JSON file for each case, keys in the order in which they are sent."""

    def serialize(self, data: Any, **_kwargs: Any) -> str:
        return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


@pytest.mark.parametrize(("name", "case"), MATRIX, ids=[f"{a}-{c}" for a, c in MATRIX])
async def test_what_is_sent(name: str, case: str, snapshot: SnapshotAssertion) -> None:
    found = await captured(options_of(name), case)
    if "request" in found:
        wire: Any = options_of(name).wire
        body = found["request"]["body"]
        assert problems(wire, body) == []
        assert semantic(wire, body, found["request"]["url"]) == []
        assert faults(wire, body) == []
    assert found == snapshot(extension_class=Readable)


def saved(name: str, case: str) -> Any:
    return json.loads((FOLDER / f"test_what_is_sent[{name}-{case}].json").read_text(encoding="utf-8"))


CALLS_ALONE = {"error_result", "empty_result", "image_result", "odd_tool_names", "repaired_history", "wrap_up"}
"""Cases with an assistant turn that has calls and no text."""
CALLS = CALLS_ALONE | {"parallel_results"}

CHANGES: list[tuple[str, dict[str, Any], set[str]]] = [
    ("anthropic-payg", {"max_tokens": 8191}, set(CASES) - {"wrap_up"}),
    ("openai-payg", {"strict": True}, {"schema_dialects"}),  # the one that qualifies: {}
    ("openai-payg", {"structured": "json_object"}, {"structured_output"}),
    ("glm-payg", {"empty_content": "(no content)"}, CALLS_ALONE),
    ("glm-payg", {"reasoning_always": True}, CALLS),
    ("glm-payg", {"timeout_s": 5.0}, set()),
]


@pytest.mark.parametrize(("name", "changed", "red"), CHANGES, ids=[f"{n}-{next(iter(c))}" for n, c, _ in CHANGES])
async def test_a_change_turns_exactly_the_right_snapshots_red(
    name: str, changed: dict[str, Any], red: set[str]
) -> None:
    options = replace(options_of(name), **changed)
    found = {case for case in CASES if await captured(options, case) != saved(name, case)}
    assert found == red


def test_no_snapshot_is_left_over() -> None:
    files = {path.name for path in FOLDER.iterdir()}
    assert files == {f"test_what_is_sent[{name}-{case}].json" for name, case in MATRIX}


@pytest.mark.parametrize("case", CASES)
def test_two_credentials_of_one_wire_send_one_body(case: str) -> None:
    """The two adapters of a provider differ in how they sign and where they send, not in what."""
    for payg, plan in (("anthropic-payg", "anthropic-oauth"), ("glm-payg", "glm-coding-plan")):
        ours, theirs = saved(payg, case)["request"], saved(plan, case)["request"]
        assert {**ours["body"], "model": ""} == {**theirs["body"], "model": ""}
    assert set(HTTP) >= {"anthropic-payg", "glm-payg"}

"""Loading tools on demand: hosted tool search where the backend has one, geode's own where it has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from loop_kit import continued, play, settings, turn

from geode.contract import ToolSpec
from geode.tools.tool_search import ToolIndex
from geode.wire import collect

CORE = ["echo", "long"]
CLIENT_SIDE = {"tools__core": CORE, "tools__defer_threshold": 5}
TOOLSET = {"include": ["echo", "long", "fail", "slow", "picture", "stand_in", "flaky"], "exclude": []}


def names(body: Any) -> list[str]:
    """What a request offers, over any wire."""
    tools = body.get("tools", [])
    return [tool.get("name") or tool.get("function", {}).get("name") or tool["type"] for tool in tools]


async def first_body(adapter: str, **changes: Any) -> Any:
    collected = await collect(settings(adapter, **{**CLIENT_SIDE, "toolset": TOOLSET, **changes}))
    return collected.requests[0]["body"]


async def test_messages_gets_all_tools_those_outside_the_core_deferred() -> None:
    body = await first_body("anthropic-payg")
    assert [(tool["name"], tool.get("defer_loading", False)) for tool in body["tools"]] == [
        *((name, False) for name in ("recall_tool_result", "echo", "long", "tool_search_tool_bm25")),
        *((name, True) for name in ("fail", "flaky", "slow", "stand_in", "picture")),
    ]


async def test_responses_gets_all_tools_those_outside_the_core_deferred() -> None:
    body = await first_body("openai-payg")
    deferred = [tool["name"] for tool in body["tools"] if tool.get("defer_loading")]
    assert sorted(deferred) == ["fail", "flaky", "picture", "slow", "stand_in"]
    assert body["tools"][-1] == {"type": "tool_search"}
    assert sorted(names(body)) == sorted([*deferred, *CORE, "recall_tool_result", "tool_search"])


async def test_a_backend_without_tool_search_gets_the_core_and_geodes_own() -> None:
    body = await first_body("glm-payg")
    assert names(body) == ["recall_tool_result", "echo", "long", "tool_search"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tools__defer_threshold": 8}, "no more tools than the threshold"),
        ({"tools__defer_threshold": 0}, "off"),
        ({"tool_choice": {"type": "tool", "name": "slow"}}, "a named tool choice"),
        ({"toolset": {**TOOLSET, "exclude": ["tool_search"]}}, "the search tool is excluded"),
        ({"tools__core": ["*"]}, "everything is core"),
    ],
)
@pytest.mark.parametrize("adapter", ["glm-payg", "anthropic-payg"])
async def test_all_tools_are_sent_in_full_where_nothing_is_deferred(
    adapter: str, changes: dict[str, Any], why: str
) -> None:
    body = await first_body(adapter, **changes)
    sent = names(body)
    assert len(sent) == 8, why
    assert not any(tool.get("defer_loading") for tool in body["tools"])
    assert not any("tool_search" in name for name in sent)


async def test_found_tools_come_at_the_end_and_stay(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [
            turn(None, ("tool_search", {"query": "take a picture"})),
            turn(None, "picture"),
            turn(None, ("tool_search", {"query": "fails", "limit": 1})),
            turn("done"),
        ],
        "chat",
        toolset=TOOLSET,
        **CLIENT_SIDE,
    )
    core = ["recall_tool_result", "echo", "long", "tool_search"]
    offered = [names(body) for body in run.bodies]
    assert offered[0] == core
    assert offered[1][:5] == [*core, "picture"]
    assert offered[2] == offered[1]
    assert offered[3][: len(offered[2])] == offered[2]
    assert "fail" in offered[3]
    found = json.loads(next(r.text for m in run.history for r in m.tool_results))
    assert found["tools"][0]["name"] == "picture"
    assert found["count"] == len(found["tools"])
    notices = [(n.message, n.override) for n in run.result.notices if n.key == "tools.deferred"]
    assert notices == [("5 of 8 tools are loaded on demand (more than 5)", "tools.defer_threshold=0")]
    assert run.reason == "natural"
    on = await continued(run, toolset=TOOLSET, **CLIENT_SIDE)
    assert sorted(names(on.bodies[0])) == sorted(offered[3])


async def test_a_tool_that_is_not_loaded_may_be_called_by_its_name(tmp_path: Path) -> None:
    script = [turn(None, "picture"), turn(None, ("tool_search", {"query": "xyzzy"})), turn("done")]
    run = await play(tmp_path, script, "chat", toolset=TOOLSET, **CLIENT_SIDE)
    results = [r for m in run.history for r in m.tool_results]
    assert [r.is_error for r in results] == [False, False]
    assert names(run.bodies[1]) == ["recall_tool_result", "echo", "long", "tool_search", "picture"]
    nothing = {"tools": [], "count": 0, "all_names": ["fail", "flaky", "picture", "slow", "stand_in"]}
    assert json.loads(results[1].text) == nothing


async def test_the_search_tool_counts_where_a_backend_limits_their_number(tmp_path: Path) -> None:
    searches = [turn(None, (name, {})) for name in ("picture", "stand_in", "fail")]
    run = await play(
        tmp_path,
        [*searches, turn("done")],
        "chat",
        toolset=TOOLSET,
        adapter__capabilities={**settings("glm-payg").adapter.capabilities.model_dump(), "max_tools": 6},
        **CLIENT_SIDE,
    )
    assert [len(names(body)) for body in run.bodies] == [4, 5, 6, 6]
    assert names(run.bodies[3])[-2:] == ["stand_in", "fail"]  # the newest stay
    assert [n.key for n in run.result.notices if "unsendable" in n.key] == []


async def test_after_a_change_of_the_model_the_new_backend_is_served_in_its_own_way(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [turn(None, "picture"), turn("done")],
        "messages",
        wires=["chat"],
        toolset=TOOLSET,
        switch={"rules": [{"adapter": "glm-payg", "after_rounds": 1}]},
        **CLIENT_SIDE,
    )
    assert "tool_search_tool_bm25" in names(run.bodies[0])
    assert names(run.bodies[1]) == ["recall_tool_result", "echo", "long", "tool_search", "picture"]


@pytest.mark.parametrize("wire", ["messages", "responses"])
async def test_a_deferred_tool_is_called_like_any_other(tmp_path: Path, wire: str) -> None:
    run = await play(tmp_path, [turn(None, "picture"), turn("done")], wire, toolset=TOOLSET, **CLIENT_SIDE)
    assert (run.reason, [r.is_error for m in run.history for r in m.tool_results]) == ("natural", [False])
    assert run.bodies[0]["tools"] == run.bodies[1]["tools"]
    assert len(names(run.bodies[0])) == 9


def spec(name: str, description: str = "", **properties: str) -> ToolSpec:
    schema = {"type": "object", "properties": {key: {"description": text} for key, text in properties.items()}}
    return ToolSpec(name, description, schema)


SPECS = [
    spec("calendar__create_event", "Adds an entry to the calendar.", title="What it is called", start="When it begins"),
    spec("calendar__list_events", "Lists the entries of a day."),
    spec("mail__send", "Sends a message to somebody.", recipient="Who gets it"),
    spec("mail__search", "Finds messages by words."),
    spec("getWeather", "Tells the forecast for a place.", city="Name of the city"),
    spec("übersetze", "Übersetzt einen Text."),
]


@pytest.mark.parametrize(
    ("query", "limit", "expected"),
    [
        ("create calendar event", 2, ["calendar__create_event", "calendar__list_events"]),
        ("sending messages", 5, ["mail__send", "mail__search"]),
        ("weather", 5, ["getWeather"]),
        ("city forecasts", 1, ["getWeather"]),
        ("MAIL__SEARCH", 1, ["mail__search"]),
        ("recipients", 5, ["mail__send"]),
        ("ÜBERSETZE text", 5, ["übersetze"]),
        ("quantum", 5, []),
        ("  ", 5, []),
    ],
)
def test_ranking(query: str, limit: int, expected: list[str]) -> None:
    assert [found.name for found in ToolIndex(SPECS).search(query, limit)] == expected


def test_ranking_is_the_same_each_time_and_keeps_the_order_of_equals() -> None:
    equals = [spec(f"tool_{n}", "The same words.") for n in range(50)]
    index = ToolIndex(equals)
    assert [s.name for s in index.search("same words", 3)] == ["tool_0", "tool_1", "tool_2"]
    assert index.search("same words", 20) == ToolIndex(equals).search("words same", 20)

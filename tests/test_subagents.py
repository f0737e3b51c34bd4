"""Sub-agents: nested runs with a toolset and budgets of their own, counted as their parent's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_kit import RunGeode
from loop_kit import PRICE, Run, assert_paired, history_of, play, settings, turn, usage

from geode.hooks import Block, Event, ToolExecStarted
from geode.wire import collect

WIRES = pytest.mark.parametrize("wire", [None, "messages", "responses", "chat"])
TOOLSETS = {"read_only": {"include": ["echo", "long"], "exclude": []}, "wide": {"include": ["*"], "exclude": []}}


def nested(**more: Any) -> dict[str, Any]:
    """Changes of the settings that turn sub-agents on."""
    return {"subagents": {"enabled": True, **more}, "toolsets": TOOLSETS}


def script(parent: list[dict[str, Any]], **agents: list[dict[str, Any]]) -> dict[str, Any]:
    """A script: the parent's turns, and those of the agents whose task begins with the name."""
    conversations = [{"match": f"^{name}", "turns": turns} for name, turns in agents.items()]
    return {"conversations": [*conversations, {"match": "^Do the task", "turns": parent}]}


def delegate(task: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return ("delegate_task", {"task": task, **more})


def results(run: Run) -> list[Any]:
    return [r for message in run.history for r in message.tool_results]


def agent(run: Run, name: str = "agent-1") -> dict[str, Any]:
    return json.loads((run.folder / "agents" / name / "result.json").read_text())  # type: ignore[no-any-return]


@WIRES
async def test_an_agent_works_with_its_own_tools_and_counts_in_its_parents_usage(
    tmp_path: Path, wire: str | None
) -> None:
    parent = [turn(None, delegate("Look"), usage=usage(10, 100)), turn("done", usage=usage(10, 100))]
    look = [turn(None, ("echo", {"text": "seen"}), usage=usage(1, 20)), turn("found it", usage=usage(2, 30))]
    run = await play(tmp_path, script(parent, Look=look), wire, **nested())
    (result,) = results(run)
    assert json.loads(result.text) == {
        "agent": "agent-1",
        "termination_reason": "natural",
        "rounds": 2,
        "answer": "found it",
    }
    assert (run.result.usage.input_tokens, run.result.usage.output_tokens) == (250, 23)
    assert (run.result.rounds, run.result.tool_calls) == (2, 1)
    assert (agent(run)["usage"]["input_tokens"], agent(run)["text"]) == (50, "found it")
    started, completed = run.of(Event.SUBAGENT_STARTED)[0], run.of(Event.SUBAGENT_COMPLETED)[0]
    assert (started.agent_id, started.task, started.toolset, started.background) == (
        *("agent-1", "Look", "read_only"),
        False,
    )
    assert started.run_dir == "agents/agent-1"
    assert (completed.rounds, completed.usage.total_tokens) == (2, 53)
    messages = history_of(run.folder / "agents" / "agent-1")
    assert_paired(messages)
    assert [m.text for m in messages if m.text] == ["Look", "found it"]
    if wire is not None:
        tools = [len(body["tools"]) for body in run.bodies]
        assert tools[1:3] == [3, 3]  # echo, long and the tool that reads what was offloaded
        assert run.result.cost == pytest.approx(
            sum(r.cost for r in run.of(Event.LLM_CALL_ENDED)) + agent(run)["cost"], rel=1e-9
        )


async def test_off_by_default(tmp_path: Path) -> None:
    body = (await collect(settings("glm-payg"))).requests[0]["body"]
    assert "delegate_task" not in [tool["function"]["name"] for tool in body["tools"]]
    body = (await collect(settings("glm-payg", **nested()))).requests[0]["body"]
    assert "delegate_task" in [tool["function"]["name"] for tool in body["tools"]]


@WIRES
async def test_the_end_of_a_background_agent_is_announced_in_the_next_round(tmp_path: Path, wire: str | None) -> None:
    parent = [
        turn(None, delegate("Look", background=True)),
        turn(None, ("slow", {"seconds": 0.5})),
        turn("done", expect={"user": "found it"}),
    ]
    run = await play(tmp_path, script(parent, Look=[turn("found it")]), wire, **nested())
    assert json.loads(results(run)[0].text) == {
        "agent": "agent-1",
        "status": "running",
        "note": "Its answer comes in a later turn.",
    }
    texts = [m.text for m in run.history if m.role == "user" and "Sub-agent" in m.text]
    assert texts == [
        "Sub-agent agent-1, which ran in the background, has ended (natural). Its task began: 'Look'. "
        "Its answer:\n\nfound it"
    ]
    assert (run.reason, [n.key for n in run.result.notices if "subagent" in n.key]) == ("natural", [])


@pytest.mark.parametrize(("wrap_up_s", "delay_s", "reason"), [(0.1, 600, "user_cancelled"), (30, 0.3, "natural")])
async def test_a_background_agent_may_finish_within_the_wrap_up_time_and_is_cancelled_then(
    tmp_path: Path, wrap_up_s: float, delay_s: float, reason: str
) -> None:
    parent = [turn(None, delegate("Look", background=True)), turn("done")]
    look = [turn("late", delay_s=delay_s)]
    run = await play(tmp_path, script(parent, Look=look), budget__wrap_up_s=wrap_up_s, **nested())
    assert (run.reason, run.result.text) == ("natural", "done")
    assert agent(run)["termination_reason"] == reason
    what = "ended after the last round" if reason == "natural" else "was cancelled, since the run ended before it"
    assert [n.message for n in run.result.notices if "subagent" in n.key] == [
        f"sub-agent agent-1 {what}: its answer was not used (agents/agent-1/result.json)"
    ]
    assert run.names[-1] == "SESSION_ENDED"


@pytest.mark.parametrize("background", [False, True])
async def test_agents_are_cancelled_with_their_parent(tmp_path: Path, background: bool) -> None:
    parent = [turn(None, delegate("Look", background=background)), turn(None, ("slow", {"seconds": 600}))]
    look = [turn(None, ("slow", {"seconds": 600}))]
    run = await play(
        tmp_path,
        script(parent, Look=look),
        cancel_at="slow" if background else "delegate_task",
        **nested(toolset="wide"),
    )
    assert run.reason == "user_cancelled"
    assert [p.termination_reason for p in run.of(Event.SUBAGENT_FAILED)] == ["user_cancelled"]
    if background:
        assert agent(run)["termination_reason"] == "user_cancelled"
        assert_paired(history_of(run.folder / "agents" / "agent-1"))


async def test_depth_and_number_are_limited(tmp_path: Path) -> None:
    parent = [turn(None, delegate("One")), turn(None, delegate("Three"), delegate("Any", toolset="nothing"))]
    run = await play(
        tmp_path,
        script(
            [*parent, turn("done")],
            One=[turn(None, delegate("Two")), turn("one")],
            Two=[turn(None, delegate("Deeper"), expect={"without_tools": ["delegate_task"]}), turn("two")],
        ),
        **nested(max_depth=2, max_agents=2),
    )
    first, third, unknown = results(run)
    assert json.loads(first.text)["answer"] == "one"
    assert third.text == "This run may have 2 sub-agents in all, and has had them: do the task yourself."
    assert unknown.text == "There is no toolset 'nothing' for sub-agents. There are: read_only, wide."
    inner = json.loads((run.folder / "agents/agent-1/agents/agent-2/result.json").read_text())
    assert (inner["text"], run.reason) == ("two", "natural")


async def test_the_parents_tool_choice_and_answer_schema_are_not_the_agents(tmp_path: Path) -> None:
    parent = [turn(None, delegate("Look")), turn('{"x": 1}')]
    look = [turn("plain text", expect={"tool_choice": "auto"})]
    run = await play(
        tmp_path,
        script(parent, Look=look),
        "chat",
        tool_choice={"type": "required"},
        response={"schema": {"type": "object", "required": ["x"]}},
        **nested(),
    )
    assert (run.reason, run.result.parsed, agent(run)["text"]) == ("natural", {"x": 1}, "plain text")
    assert ["response_format" in body for body in run.bodies] == [True, False, True]


async def test_rounds_are_a_share_and_the_last_one_is_for_the_answer(tmp_path: Path) -> None:
    parent = [turn(None, delegate("Look")), turn("done")]
    look = [turn(None, ("echo", {"text": str(n)})) for n in range(3)]
    look.append(turn("so far", expect={"tool_choice": "none"}))
    run = await play(tmp_path, script(parent, Look=look), budget__max_rounds=9, **nested(max_rounds=10, share=0.5))
    assert (agent(run)["rounds"], agent(run)["termination_reason"]) == (4, "forced_text")
    assert json.loads(results(run)[0].text)["answer"] == "so far"


async def test_money_is_a_share_and_counts_as_the_parents(tmp_path: Path) -> None:
    parent = [turn(None, delegate("Look"), usage=usage(100)), turn("done", usage=usage(100))]
    look = [turn(None, ("echo", {"text": str(n)}), usage=usage(200)) for n in range(3)]
    run = await play(
        tmp_path,
        script(parent, Look=look),
        budget__cost_budget=1.0,
        pricing__overrides={"scripted": PRICE},
        **nested(share=0.4),
    )
    # 0.9 is left, so the agent may use 0.36: it crosses that in its second round
    assert (agent(run)["termination_reason"], agent(run)["cost"]) == ("cost_budget_exceeded", pytest.approx(0.4))
    (result,) = results(run)
    assert (result.is_error, json.loads(result.text)["termination_reason"]) == (True, "cost_budget_exceeded")
    assert (run.reason, run.result.cost) == ("natural", pytest.approx(0.6))
    failed = run.of(Event.SUBAGENT_FAILED)[0]
    assert (failed.agent_id, failed.termination_reason) == ("agent-1", "cost_budget_exceeded")


async def test_a_hard_ceiling_holds_over_all_agents(tmp_path: Path) -> None:
    tasks = [delegate(f"Look {n}", background=n > 1) for n in range(4)]
    played = script([turn(None, *tasks, usage=usage(16)), turn("done", usage=usage(16))])
    spend = turn(None, ("echo", {"text": "again"}), usage=usage(16), repeat="forever")
    played["conversations"].insert(0, {"match": "^Look", "each": True, "turns": [spend]})
    run = await play(
        tmp_path,
        played,
        budget__cost_budget=1.0,
        budget__cost_hard=True,
        budget__wrap_up_s=1,
        adapter__max_tokens=16,
        pricing__overrides={"scripted": {"input_mtok": 0, "output_mtok": 10_000}},  # a call costs 0.16
        **nested(share=0.9, max_agents=4),
    )
    costs = [agent(run, f"agent-{n}")["cost"] for n in (1, 2, 3, 4)]
    own = 0.16 * len(run.of(Event.LLM_CALL_ENDED))
    assert run.result.cost == pytest.approx(own + sum(costs))
    assert 0.6 < run.result.cost <= 1.0


async def test_tokens_are_a_share(tmp_path: Path) -> None:
    parent = [turn(None, delegate("Look"), usage=usage(100)), turn("done", usage=usage(100))]
    look = [turn(None, ("echo", {"text": str(n)}), usage=usage(150)) for n in range(4)]
    run = await play(tmp_path, script(parent, Look=look), budget__token_budget=1000, **nested(share=0.3))
    assert (agent(run)["termination_reason"], agent(run)["usage"]["output_tokens"]) == ("token_budget_exceeded", 300)
    assert run.result.usage.output_tokens == 500


async def test_time_is_a_share_and_the_agents_text_comes_back(tmp_path: Path) -> None:
    parent = [turn(None, delegate("Look")), turn("done")]
    look = [turn("first words", ("slow", {"seconds": 600}))]
    run = await play(tmp_path, script(parent, Look=look), budget__time_budget_s=4, **nested(share=0.2, toolset="wide"))
    assert agent(run)["termination_reason"] == "time_budget_expired"
    assert json.loads(results(run)[0].text)["answer"] == "first words"
    assert run.result.text == "done"


def forbid(payload: ToolExecStarted) -> Block | None:
    return Block("not this one") if payload.input.get("text") == "forbidden" else None


async def test_approval_and_interceptors_are_the_parents(tmp_path: Path) -> None:
    calls = [("echo", {"text": "forbidden"}), ("write_file", {"path": "a.txt", "content": "x"})]
    parent = [turn(None, delegate("Look", toolset="wide")), turn("done")]
    run = await play(
        tmp_path,
        script(parent, Look=[turn(None, *calls), turn("found it")]),
        safety__tiers={"safe": "allow", "expensive": "allow", "write": "ask", "dangerous": "ask"},
        hooks__interceptors=[{"_target_": "test_subagents.forbid", "event": "TOOL_EXEC_STARTED"}],
        **nested(),
    )
    inner = [r for m in history_of(run.folder / "agents/agent-1") for r in m.tool_results]
    assert [r.is_error for r in inner] == [True, True]
    assert "not this one" in inner[0].text
    assert [n.message for n in run.result.notices if n.key.startswith("agent-1:")] == [
        "agent-1: echo (safe) was denied: not this one",
        "agent-1: write_file (write) was denied: there is no terminal to ask at",
    ]


def test_from_the_command_line(geode: RunGeode, tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    find = [
        {"tool_calls": [{"name": "calculate", "input": {"expression": "6 * 7"}}]},
        {"text": "{{ results[0].json.result }}"},
    ]
    tasks = [{"name": "delegate_task", "input": {"task": f"Find number {n}"}} for n in (1, 2)]
    answer = {"text": "{{ results | map(attribute='json') | map(attribute='answer') | join(' and ') }}"}
    conversations = [
        {"match": "^Find", "each": True, "turns": find},
        {"match": "^Go", "turns": [{"tool_calls": tasks}, answer]},
    ]
    file.write_text(yaml.safe_dump({"conversations": conversations}))
    ran = geode(
        *("+adapter=glm-payg", "provider=scripted", f"provider.script={file}", "subagents=default"),
        *("safety.tiers.expensive=allow", "task=question", "task.prompt=Go"),
    )
    assert (ran.code, ran.out.splitlines()[0]) == (0, "42 and 42")
    assert sorted(p.name for p in (ran.run_dir() / "agents").iterdir()) == ["agent-1", "agent-2"]

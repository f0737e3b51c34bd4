"""The safety policy: tiers, rules by tool and by argument, and what of a config is no policy."""

from __future__ import annotations

from typing import Any

import pytest
from tools_kit import Always, Bench, call, make_tool, statuses

from geode.contract import Approval, Tier
from geode.hooks import ToolApprovalDenied, ToolApprovalGranted
from geode.tools.approval import Answer
from geode.tools.safety import SafetyPolicy, Verdict
from geode.tools.types import ToolConfigError


def run_bash(command: str = "", cwd: str = "") -> str:
    return command


def decide(policy: SafetyPolicy, tier: str = "dangerous", *, auto: bool = False, **arguments: Any) -> Verdict:
    return policy.decide(make_tool(run_bash, tier, auto_approved=auto), arguments)


@pytest.mark.parametrize(
    ("tier", "verdict"),
    [
        ("safe", Verdict(Approval.ALLOW)),
        ("expensive", Verdict(Approval.ASK, override="safety.tiers.expensive=allow")),
        ("write", Verdict(Approval.ASK, override="safety.tiers.write=allow")),
        ("dangerous", Verdict(Approval.ASK, override="safety.tiers.dangerous=allow")),
    ],
)
def test_defaults(tier: str, verdict: Verdict) -> None:
    assert decide(SafetyPolicy(), tier) == verdict


def test_tiers_of_a_config() -> None:
    policy = SafetyPolicy.from_config({"safe": "deny", "dangerous": "allow"})
    assert [decide(policy, tier).approval for tier in Tier] == ["deny", "ask", "ask", "allow"]


def test_an_auto_approved_tool_is_allowed_whatever_its_tier() -> None:
    policy = SafetyPolicy.from_config({"dangerous": "deny"}, [{"tool": "run_*", "arguments": {"command": "rm"},
                                                               "approval": "deny"}])  # fmt: skip
    assert decide(policy, auto=True).approval == "allow"
    assert decide(policy, auto=True, command="rm x") == Verdict(Approval.DENY, True, "safety.rules=[]")


def test_a_server_that_is_not_approved_names_the_override_that_approves_it() -> None:
    tool = make_tool(run_bash, "write", source="mcp:files")
    assert SafetyPolicy().decide(tool, {}) == Verdict(Approval.ASK, override="mcp.servers.files.auto_approve=true")
    policy = SafetyPolicy.from_config({"write": "deny"})
    assert policy.decide(tool, {}) == Verdict(Approval.DENY, override="safety.tiers.write=allow")


@pytest.mark.parametrize(
    ("rule", "arguments", "approval"),
    [
        ({"tool": "run_bash"}, {}, "deny"),
        ({"tool": "run_*"}, {}, "deny"),
        ({"tool": "RUN_*"}, {}, "ask"),
        ({"tool": "write_*"}, {}, "ask"),
        ({"tool": "*", "arguments": {"command": r"\brm\b"}}, {"command": "ls; rm x"}, "deny"),
        ({"tool": "*", "arguments": {"command": r"\brm\b"}}, {"command": "ls"}, "ask"),
        ({"tool": "*", "arguments": {"command": "."}}, {}, "ask"),
        ({"tool": "*", "arguments": {"command": "rm", "cwd": "^/"}}, {"command": "rm", "cwd": "/"}, "deny"),
        ({"tool": "*", "arguments": {"command": "rm", "cwd": "^/"}}, {"command": "rm", "cwd": "a"}, "ask"),
        ({"tool": "*", "arguments": {"command": r'"rm"'}}, {"command": ["rm", "-r"]}, "deny"),
    ],
)
def test_rules(rule: dict[str, Any], arguments: dict[str, Any], approval: str) -> None:
    policy = SafetyPolicy.from_config({}, [{"approval": "deny", **rule}])
    assert decide(policy, **arguments).approval == approval


@pytest.mark.parametrize(
    ("command", "approval"),
    [("git status", "allow"), ("git status; rm -rf ~", "ask"), ("x; git status", "ask"), ("git status\n", "ask")],
)
def test_an_allow_rule_must_match_the_whole_argument(command: str, approval: str) -> None:
    policy = SafetyPolicy.from_config({}, [{"tool": "run_bash", "arguments": {"command": "git (status|diff)"},
                                            "approval": "allow"}])  # fmt: skip
    assert decide(policy, command=command).approval == approval


@pytest.mark.parametrize("turn", [1, -1])
def test_the_strictest_rule_counts_in_any_order(turn: int) -> None:
    rules = [{"tool": "*", "approval": a} for a in ("allow", "deny", "ask")][::turn]
    assert decide(SafetyPolicy.from_config({}, rules)).approval == "deny"


def test_every_fault_at_once() -> None:
    with pytest.raises(ToolConfigError) as caught:
        SafetyPolicy.from_config(
            {"writes": "ask", "safe": "alow"},
            [{"tool": 5, "approval": "no"}, {"tool": "*", "arguments": {"a": "("}, "approval": "ask"}],
        )
    assert caught.value.faults == (
        "safety.tiers.writes: not one of safe, expensive, write, dangerous; did you mean 'write'?",
        "safety.tiers.safe: 'alow' is not one of allow, ask, deny; did you mean 'allow'?",
        "safety.rules.0.tool: 5 is not a tool name or glob",
        "safety.rules.0.approval: 'no' is not one of allow, ask, deny",
        "safety.rules.1.arguments.a: '(' is not a regular expression: missing ), unterminated subpattern at position 0",
    )


async def test_every_decision_is_an_event() -> None:
    bench = Bench(
        make_tool(run_bash, "dangerous"),
        make_tool(run_bash, name="look"),
        tiers={"dangerous": "ask"},
        rules=[
            {"tool": "run_bash", "arguments": {"command": "ls"}, "approval": "allow"},
            {"tool": "*", "arguments": {"command": "rm"}, "approval": "deny"},
        ],
        approver=Always(Answer(True)),
    )
    outcomes = await bench.run(
        call("run_bash", "1", command="ls"),
        call("run_bash", "2", command="rm x"),
        call("run_bash", "3", command="make"),
        call("look", "4"),
        call("look", "5", command="rm"),
    )
    assert statuses(outcomes) == ["ok", "denied", "ok", "ok", "denied"]
    decisions = [p for p in bench.events if isinstance(p, ToolApprovalGranted | ToolApprovalDenied)]
    assert sorted((p.tool_use_id, type(p).__name__.removeprefix("ToolApproval"), p.by) for p in decisions) == [
        ("1", "Granted", "policy"),
        ("2", "Denied", "policy"),
        ("3", "Granted", "user"),
        ("4", "Granted", "policy"),
        ("5", "Denied", "policy"),
    ]
    assert outcomes[1].result.text == (
        "Denied: a safety rule denies this call. run_bash was not run. Do not call it again like this; "
        "go on another way."
    )
    assert {(n.key, n.override) for n in bench.notices} == {
        ("denied:run_bash:policy", "safety.rules=[]"),
        ("denied:look:policy", "safety.rules=[]"),
    }


async def test_a_tier_that_is_denied() -> None:
    bench = Bench(make_tool(run_bash, "dangerous"), tiers={"dangerous": "deny"})
    outcome = await bench.one("run_bash", command="ls")
    assert outcome.result.text == (
        "Denied: the safety policy denies dangerous tools. run_bash was not run. Do not call it again like this; "
        "go on another way."
    )
    assert [(n.message, n.override) for n in bench.notices] == [
        ("run_bash (dangerous) was denied: the safety policy denies it", "safety.tiers.dangerous=allow")
    ]


def test_commands_that_only_read_may_count_as_safe() -> None:
    tool = make_tool(run_bash, "dangerous")
    ordinary = SafetyPolicy.from_config()
    relaxed = SafetyPolicy.from_config(read_only_as_safe=True)
    assert ordinary.decide(tool, {"command": "ls -la"}).approval is Approval.ASK
    assert relaxed.decide(tool, {"command": "ls -la"}).approval is Approval.ALLOW
    for command in ("find . -delete", "git branch -D x", "env rm -rf x", "pwd\nrm -rf x", "ls > x", "ls $(rm x)"):
        assert relaxed.decide(tool, {"command": command}).approval is Approval.ASK
    strict = SafetyPolicy.from_config(rules=[{"tool": "run_bash", "approval": "deny"}], read_only_as_safe=True)
    assert strict.decide(tool, {"command": "ls"}).approval is Approval.DENY

"""The recovery chain: when it starts, its steps, its events, and the counts it goes by."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tools_kit import Always, Bench, call, make_tool, statuses, texts

from geode.hooks import Event, ToolRecoveryAttempted, ToolRecoveryFailed, ToolRecoverySucceeded
from geode.tools.approval import Answer
from geode.tools.recovery import RecoveryOptions

CHAIN = (Event.TOOL_RECOVERY_ATTEMPTED, Event.TOOL_RECOVERY_SUCCEEDED, Event.TOOL_RECOVERY_FAILED)


class Flaky:
    """A tool that fails on the runs that it is told of (from 1)."""

    def __init__(self, fails: Callable[[int], bool] = lambda run: True, name: str = "flaky") -> None:
        self.runs = 0
        self.fails = fails
        self.name = name

    def __call__(self, x: int = 0) -> str:
        self.runs += 1
        if self.fails(self.runs):
            raise ValueError(f"run {self.runs}")
        return f"{self.name} {self.runs}"


def options(**given: Any) -> RecoveryOptions:
    return RecoveryOptions(**{"retry_delay_s": 0.0, **given})


def steps(bench: Bench) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for p in bench.told(*CHAIN):
        if isinstance(p, ToolRecoveryAttempted):
            found.append(("attempted", p.step, str(p.failures), p.alternative or "-"))
        elif isinstance(p, ToolRecoverySucceeded):
            found.append(("succeeded", p.step, p.alternative or "-"))
        elif isinstance(p, ToolRecoveryFailed):
            found.append(("failed", *p.tried))
    return found


async def test_the_chain_runs_from_the_third_call_on() -> None:
    flaky = Flaky()
    bench = Bench(make_tool(flaky, name="flaky"), recovery=options())
    first, second, third = [await bench.one("flaky", x=n) for n in range(3)]
    assert texts([first, second]) == ["ValueError: run 1", "ValueError: run 2"]
    assert json.loads(third.result.text) == {
        "error": "ValueError: run 4",
        "tool": "flaky",
        "failures_in_a_row": 3,
        "tried": ["the same input again"],
        "what_to_do_instead": (
            "Do not call flaky with this input again. Check the input against the error, or take another way."
        ),
    }
    assert (third.status, third.failed, third.result.is_error) == ("error", True, True)
    assert steps(bench) == [
        ("attempted", "retry", "3", "-"),
        ("attempted", "structured_error", "3", "-"),
        ("failed", "the same input again"),
    ]


async def test_a_call_after_the_limit_that_works_needs_no_chain() -> None:
    bench = Bench(make_tool(Flaky(lambda run: run < 3), name="flaky"), recovery=options())
    outcomes = [await bench.one("flaky") for _ in range(3)]
    assert (statuses(outcomes), steps(bench)) == (["error", "error", "ok"], [])


async def test_a_retry_that_works_sets_the_count_to_zero() -> None:
    bench = Bench(make_tool(Flaky(lambda run: run != 4), name="flaky"), recovery=options())
    outcomes = [await bench.one("flaky") for _ in range(5)]  # runs 1, 2, 3 + 4 (retry), 5, 6
    assert texts(outcomes[2:]) == ["flaky 4", "ValueError: run 5", "ValueError: run 6"]
    assert steps(bench) == [("attempted", "retry", "3", "-"), ("succeeded", "retry", "-")]


async def test_a_success_sets_the_count_to_zero() -> None:
    bench = Bench(make_tool(Flaky(lambda run: run % 3 != 0), name="flaky"), recovery=options())
    for _ in range(9):
        await bench.one("flaky")
    assert steps(bench) == []


@pytest.mark.parametrize("tier", ["expensive", "write", "dangerous"])
async def test_only_safe_tools_are_retried(tier: str) -> None:
    flaky = Flaky()
    bench = Bench(make_tool(flaky, tier, name="flaky"), recovery=options())
    for _ in range(3):
        await bench.one("flaky")
    assert flaky.runs == 3
    assert steps(bench) == [("attempted", "structured_error", "3", "-"), ("failed",)]


async def test_parallel_failures_each_count() -> None:
    flaky = Flaky()
    bench = Bench(make_tool(flaky, name="flaky"), recovery=options())
    outcomes = await bench.run(*(call("flaky", str(n)) for n in range(3)))
    assert (statuses(outcomes), steps(bench)) == (["error"] * 3, [])
    await bench.one("flaky")
    assert steps(bench)[0] == ("attempted", "retry", "4", "-")


async def test_counts_are_per_tool() -> None:
    bench = Bench(make_tool(Flaky(), name="a"), make_tool(Flaky(), name="b"), recovery=options())
    await bench.run(call("a", "1"), call("b", "2"), call("a", "3"))
    await bench.one("b")
    assert steps(bench) == []
    await bench.one("a")
    assert steps(bench)[0] == ("attempted", "retry", "3", "-")


async def test_denials_and_calls_that_were_never_run_are_no_failures() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    flaky = Flaky()
    bench = Bench(
        make_tool(flaky, "write", schema, name="flaky"),
        tiers={"write": "ask"},
        approver=(person := Always(Answer(False))),
        recovery=options(),
    )
    outcomes = [await bench.one("flaky", x=1) for _ in range(4)]
    outcomes += await bench.run(call("flaky", x=1), disabled=True)
    assert [o.failed for o in outcomes] == [False] * 5
    person.answer = Answer(True)
    await bench.one("flaky", x="bad")
    await bench.one("flaky", x="bad")
    await bench.one("flaky", x=1)
    assert (flaky.runs, steps(bench)) == (1, [])


# -------------------------------------------------------------------------------------------------------- alternatives


def with_other(tier: str = "safe", other_tier: str = "safe", **more: Any) -> tuple[Bench, Flaky, Flaky]:
    flaky, other = Flaky(), Flaky(more.pop("fails", lambda run: False), "other")
    given = {"alternatives": {"flaky": "other"}, "retry": False, **more.pop("recovery", {})}
    tools = make_tool(flaky, tier, name="flaky"), make_tool(other, other_tier, more.pop("schema", {"type": "object"}),
                                                            name="other")  # fmt: skip
    return Bench(*tools, recovery=options(**given), **more), flaky, other


async def test_a_declared_alternative_takes_over() -> None:
    bench, flaky, _ = with_other()
    outcomes = [await bench.one("flaky", x=1) for _ in range(4)]
    assert outcomes[2].result.text == ("[flaky failed again; this is the result of other with the same input]\nother 1")
    assert (outcomes[2].status, outcomes[2].failed, outcomes[3].status) == ("ok", False, "ok")
    assert flaky.runs == 4  # the tool itself comes first each time; it has failed four times in a row
    assert steps(bench) == [
        ("attempted", "alternative", "3", "other"),
        ("succeeded", "alternative", "other"),
        ("attempted", "alternative", "4", "other"),
        ("succeeded", "alternative", "other"),
    ]


async def test_an_alternative_of_a_definition() -> None:
    tools = (
        make_tool(Flaky(), name="flaky", alternatives=("first", "second")),
        make_tool(Flaky(name="first"), name="first"),
        make_tool(Flaky(lambda run: False, "second"), name="second"),
    )
    bench = Bench(*tools, recovery=options(retry=False))
    outcomes = [await bench.one("flaky") for _ in range(3)]
    assert outcomes[2].result.text.endswith("the result of second with the same input]\nsecond 1")


@pytest.mark.parametrize(
    ("tier", "other_tier", "schema"),
    [
        ("safe", "write", {"type": "object"}),
        ("write", "dangerous", {"type": "object"}),
        ("safe", "safe", {"type": "object", "required": ["y"]}),
        ("safe", "safe", {"type": "object", "properties": {"x": {"type": "string"}}}),
    ],
)
async def test_never_a_riskier_one_nor_one_that_takes_other_input(tier: str, other_tier: str, schema: Any) -> None:
    bench, _, other = with_other(tier, other_tier, schema=schema)
    outcomes = [await bench.one("flaky", x=1) for _ in range(3)]
    assert other.runs == 0
    assert "Check the input against the error, or take another way (other)." in outcomes[2].result.text


async def test_an_alternative_needs_approval_like_any_call() -> None:
    bench, _, other = with_other("dangerous", "write", tiers={"dangerous": "allow", "write": "deny"})
    outcomes = [await bench.one("flaky", x=1) for _ in range(3)]
    assert other.runs == 0
    assert json.loads(outcomes[2].result.text)["tried"] == ["other with the same input: not approved"]
    assert outcomes[2].failed


async def test_an_alternative_that_fails_too() -> None:
    bench, _, _ = with_other(fails=lambda run: True)
    outcomes = [await bench.one("flaky", x=1) for _ in range(3)]
    report = json.loads(outcomes[2].result.text)
    assert (report["error"], report["tried"]) == ("ValueError: run 3", ["other with the same input"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"tool_failures": 0}, []),
        (
            {"alternative": False},
            [("attempted", "structured_error", "3", "-"), ("failed",)],
        ),
        (
            {"structured_error": False, "alternative": False},
            [],
        ),
        (
            {"tool_failures": 1, "alternative": False, "retry": True},
            [
                ("attempted", "retry", "2", "-"),
                ("attempted", "structured_error", "2", "-"),
                ("failed", "the same input again"),
                ("attempted", "retry", "3", "-"),
                ("attempted", "structured_error", "3", "-"),
                ("failed", "the same input again"),
            ],
        ),
    ],
)
async def test_each_step_can_be_off(given: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    bench, _, _ = with_other(recovery=given)
    for _ in range(3):
        await bench.one("flaky", x=1)
    assert steps(bench) == expected


async def test_a_time_out_counts_as_a_failure() -> None:
    async def sleep() -> None:
        import asyncio

        await asyncio.sleep(60)

    bench = Bench(make_tool(sleep, timeout_s=0.01), recovery=options(tool_failures=1, retry=False))
    outcomes = [await bench.one("sleep") for _ in range(2)]
    assert [o.status for o in outcomes] == ["timeout", "timeout"]
    assert steps(bench) == [("attempted", "structured_error", "2", "-"), ("failed",)]

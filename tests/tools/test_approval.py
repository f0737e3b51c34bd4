"""Approval by a person at a real terminal (a pty), by nobody, and by what was said for always."""

from __future__ import annotations

import asyncio
import os

import pytest
from tools_kit import Always, Bench, Person, call, make_tool, statuses, texts

from geode.contract import Notice
from geode.hooks import Event, ToolApprovalDenied, ToolApprovalGranted, ToolApprovalRequested
from geode.tools.approval import Answer, ApprovalDesk, TerminalApprover, find_approver
from geode.tools.terminal import Terminal, visible


def write(path: str = "", text: str = "") -> str:
    return f"wrote {path}"


def fetch(url: str = "") -> str:
    return f"fetched {url}"


def wipe(path: str = "") -> str:
    return f"wiped {path}"


def bench_for(person: Person) -> Bench:
    tools = make_tool(write, "write"), make_tool(fetch, "expensive"), make_tool(wipe, "dangerous")
    return Bench(*tools, tiers={}, approver=TerminalApprover(person.terminal))


async def test_yes() -> None:
    with Person("y\n") as person:
        bench = bench_for(person)
        assert (await bench.one("write", path="a b", text="é\x1b[2J\n")).result.text == "wrote a b"
        assert person.lines == [
            "The model wants to run write (write):",
            '  path: "a b"',
            '  text: "é\\u001b[2J\\n"',
            "Allow? [y]es / [n]o / [a]lways (this tool, for this run): y",
        ]
    requested, granted = bench.told(Event.TOOL_APPROVAL_REQUESTED, Event.TOOL_APPROVAL_GRANTED)
    assert isinstance(requested, ToolApprovalRequested)
    assert (requested.tool_use_ids, requested.tools, requested.tier) == (("id_write",), ("write",), "write")
    assert requested.inputs == ({"path": "a b", "text": "é\x1b[2J\n"},)
    assert granted == ToolApprovalGranted(1, "id_write", "write", "write", "user")
    assert bench.notices == []


@pytest.mark.parametrize(
    ("typed", "said"),
    [("n\n", ""), ("no, not there\n", " They said: not there"), ("\n", ""), ("\x04", "")],
)
async def test_no(typed: str, said: str) -> None:
    with Person(typed) as person:
        bench = bench_for(person)
        outcome = await bench.one("write", path="a")
    text = f"Denied: the user did not approve this call. write was not run.{said} Do not repeat it; go on another way."
    assert (outcome.status, outcome.failed, outcome.result.is_error, outcome.result.text) == (
        "denied", False, True, text,
    )  # fmt: skip
    reason = said.removeprefix(" They said: ") or "the user said no"
    (denied,) = bench.told(Event.TOOL_APPROVAL_DENIED)
    assert denied == ToolApprovalDenied(1, "id_write", "write", "write", "user", reason)
    message = f"write (write) was denied: {reason}"
    assert bench.notices == [Notice("denied:write:user", message, "safety.tiers.write=allow")]


async def test_an_unclear_answer_is_asked_again_and_in_the_end_a_no() -> None:
    with Person("maybe\n", "yes please\n", "Y\n") as person:
        assert (await bench_for(person).one("write", path="a")).status == "ok"
        assert person.shown.count("Please answer y, n or a.") == 2
    with Person(*["what?\n"] * 5) as person:
        assert (await bench_for(person).one("write", path="a")).status == "denied"


async def test_always_holds_for_the_tool_and_for_this_run() -> None:
    with Person("a\n", "y\n") as person:
        bench = bench_for(person)
        outcomes = await bench.run(call("write", "1", path="a"), call("write", "2", path="b"))
        outcomes += await bench.run(call("write", "3", path="c"), call("wipe", "4", path="d"))
        assert texts(outcomes) == ["wrote a", "wrote b", "wrote c", "wiped d"]
        assert person.shown.count("Allow?") == 2
    granted = [p for p in bench.events if isinstance(p, ToolApprovalGranted)]
    assert [(p.tool_use_id, p.by) for p in granted] == [("1", "user"), ("2", "always"), ("3", "always"), ("4", "user")]


async def test_always_of_a_dangerous_tool_holds_for_identical_arguments_only() -> None:
    with Person("always\n", "n\n") as person:
        bench = bench_for(person)
        outcomes = await bench.run(
            call("wipe", "1", path="a"), call("wipe", "2", path="a"), call("wipe", "3", path="b")
        )
        assert statuses(outcomes) == ["ok", "ok", "denied"]
        assert person.shown.count("[a]lways (only with exactly these arguments)") == 2


async def test_one_question_for_all_expensive_calls() -> None:
    with Person("y\n", "n\n") as person:
        bench = bench_for(person)
        calls = call("fetch", "1", url="a"), call("wipe", "2", path="x"), call("fetch", "3", url="b")
        assert statuses(await bench.run(*calls)) == ["ok", "denied", "ok"]
        assert person.lines[:5] == [
            "The model wants to run 2 expensive calls:",
            "  1. fetch",
            '     url: "a"',
            "  2. fetch",
            '     url: "b"',
        ]
    asked = [p.tool_use_ids for p in bench.events if isinstance(p, ToolApprovalRequested)]
    assert asked == [("1", "3"), ("2",)]


async def test_what_was_typed_before_the_question_is_no_answer() -> None:
    with Person("n\n") as person:
        os.write(person.master, b"y\ny\n")
        await asyncio.sleep(0)
        assert (await bench_for(person).one("wipe", path="a")).status == "denied"


async def test_a_terminal_that_goes_away_denies() -> None:
    with Person() as person:
        path = person.terminal.path
    gone = Bench(make_tool(write, "write"), tiers={}, approver=TerminalApprover(Terminal(path + "x")))
    outcome = await gone.one("write", path="a")
    assert (outcome.status, gone.notices[0].key) == ("denied", "denied:write:no_terminal")


async def test_a_question_can_be_cancelled() -> None:
    with Person() as person:
        bench = bench_for(person)
        batch = bench.batch(call("write", path="a"))
        task = asyncio.create_task(batch.run())
        while "Allow?" not in person.shown:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert statuses(batch.close("cancelled")) == ["cancelled"]


async def test_no_terminal_denies_and_says_how_to_change_that() -> None:
    assert find_approver(None) is not None
    bench = Bench(make_tool(write, "write"), make_tool(fetch, "expensive"), tiers={}, approver=find_approver(None))
    outcomes = await bench.run(call("write", "1"), call("fetch", "2"), call("fetch", "3"), call("fetch", "4"))
    assert statuses(outcomes) == ["denied"] * 4
    assert [o.failed for o in outcomes] == [False] * 4
    assert outcomes[0].result.text == (
        "Denied: write (write) needs a person's approval and there is nobody to ask. It was not run. "
        "Do not call it again; go on another way."
    )
    notices = {n.key: (n.message, n.override) for n in bench.notices}
    assert notices == {
        "denied:write:no_terminal": (
            "write (write) was denied: there is no terminal to ask at",
            "safety.tiers.write=allow",
        ),
        "denied:fetch:no_terminal": (
            "fetch (expensive) was denied: there is no terminal to ask at",
            "safety.tiers.expensive=allow",
        ),
    }


async def test_an_approver_that_fails_denies() -> None:
    class Broken:
        async def ask(self, calls: object) -> Answer:
            raise RuntimeError

    bench = Bench(make_tool(fetch, "expensive"), tiers={}, approver=Broken())
    assert statuses(await bench.run(call("fetch", "1"), call("fetch", "2"))) == ["denied", "denied"]


async def test_a_desk_is_shared_and_asks_one_question_at_a_time() -> None:
    open_questions = 0

    class Slow(Always):
        async def ask(self, calls: object) -> Answer:
            nonlocal open_questions
            open_questions += 1
            assert open_questions == 1
            await asyncio.sleep(0)
            open_questions -= 1
            return await super().ask(calls)  # type: ignore[arg-type]

    person = Slow(Answer(True, always=True))
    desk = ApprovalDesk(person)
    benches = [Bench(make_tool(write, "write"), tiers={}, approver=desk) for _ in range(3)]
    outcomes = await asyncio.gather(*(bench.one("write", path="a") for bench in benches))
    assert statuses(outcomes) == ["ok"] * 3
    assert person.asked == [["write"]]


def test_nothing_that_a_model_sends_can_forge_the_question() -> None:
    assert visible("plain, é, 漢字, 🙂") == "plain, é, 漢字, 🙂"
    assert visible("\x1b[2J\r\n\u202e\u200b\u2028\U000e0041") == "\\x1b[2J\\x0d\\x0a\\u202e\\u200b\\u2028\\U000e0041"

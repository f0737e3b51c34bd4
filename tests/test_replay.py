"""`geode replay` and the replay adapter: a recorded run, played again against the code and config of today."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from geode import cli
from geode.adapters.replay import ReplayAdapter
from geode.compose import compose_settings
from geode.contract import AdapterCallRequest, AdapterError, ErrorKind, Message, StopReason
from geode.journal import JOURNAL_FILE
from geode.loop.result import AgenticResult
from geode.runner import run_settings


def record(folder: Path, turns: Sequence[Mapping[str, Any]], *overrides: str) -> AgenticResult:
    (folder / "script.yaml").write_text(yaml.safe_dump({"name": "recorded", "turns": list(turns)}))
    words = [
        "adapter=scripted",
        f"adapter.script={folder / 'script.yaml'}",
        f"provider.script={folder / 'script.yaml'}",
        "task=chat",
        "task.prompt=Hello.",
        "toolset.include=[read_document,write_file,calculate,ask_user]",
        "safety.tiers.write=allow",
        "llm.base_delay_s=0",
        "display=quiet",
    ]
    return asyncio.run(run_settings(compose_settings([*words, *overrides]), folder / "run", environ={}))


def replayed(folder: Path, capsys: pytest.CaptureFixture[str], *overrides: str) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = cli.main(["replay", str(folder / "run"), *overrides])
    return code, capsys.readouterr().out.splitlines()


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "input": arguments}


TURNS: list[dict[str, Any]] = [
    {"text": "Let me see.", "reasoning": [{"text": "Hm."}], "tool_calls": [call("calculate", expression="6 * 7")]},
    {"fault": {"kind": "http", "status": 529}},
    {"tool_calls": [call("write_file", path="a.txt", content="A"), call("read_document", path="none.txt")]},
    {"tool_calls": [{"name": "calculate", "arguments": "{broken"}]},
    {"text": "It is 42. "},
]


@pytest.mark.parametrize(
    ("adapter", "tools"),
    [
        ("scripted", "record"),
        ("scripted", "run"),
        ("anthropic-payg", "record"),
        ("openai-payg", "run"),
        ("glm-payg", "record"),
    ],
)
def test_a_run_replays_without_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], adapter: str, tools: str
) -> None:
    over = () if adapter == "scripted" else (f"adapter={adapter}", "provider=scripted")
    assert record(tmp_path, TURNS, *over).text == "It is 42. "
    code, lines = replayed(tmp_path, capsys, f"replay.tools={tools}")
    about = "recorded results" if tools == "record" else "tools run again"
    assert (code, lines) == (0, [f"[replayed 4 LLM calls, {about}: no difference]"])


def test_ids_that_come_again_in_every_round_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sums = [{"tool_calls": [{**call("calculate", expression=f"{n} + {n}"), "id": "call_0"}]} for n in range(3)]
    failing = {"tool_calls": [{**call("read_document", path="none.txt"), "id": "call_0"}]}
    record(tmp_path, [*sums, failing, {"text": "done"}])
    assert replayed(tmp_path, capsys) == (0, ["[replayed 5 LLM calls, recorded results: no difference]"])


def test_another_config_is_told_where_it_leads_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, TURNS)
    code, lines = replayed(tmp_path, capsys, "tool_choice=required")
    assert code == 1
    assert lines == [
        "round 1: tool choice: recorded 'auto', now 'required'",
        "[replayed 4 LLM calls, recorded results: 1 difference]",
    ]


def test_a_tool_that_answers_otherwise_is_a_difference_where_tools_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "a.txt").write_text("old")
    turns = [{"tool_calls": [call("read_document", path="a.txt")]}, {"text": "Read."}]
    record(tmp_path, turns, f"task.workspace={tmp_path / 'shared'}")
    (tmp_path / "shared" / "a.txt").write_text("new")
    assert replayed(tmp_path, capsys)[0] == 0
    code, lines = replayed(tmp_path, capsys, "replay.tools=run")
    assert code == 1
    assert len(lines) == 2
    assert lines[0].startswith("round 1: result of read_document: recorded ")


def test_failures_refusals_and_questions_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    endings = {
        "llm_error": [{"fault": {"kind": "http", "status": 400}}],
        "model_refusal": [{"text": "No.", "refusal": {"category": "cyber"}}],
        "user_clarification_needed": [{"tool_calls": [call("ask_user", question="Which?")]}],
        "natural": [{"text": "One, ", "stop": "max_tokens"}, {"text": "two."}],
    }
    for reason, turns in endings.items():
        folder = tmp_path / reason
        folder.mkdir()
        assert record(folder, turns).termination_reason == reason
        code, lines = replayed(folder, capsys)
        assert (code, len(lines)) == (0, 1), lines


def test_a_run_that_was_cut_off_is_compared_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, TURNS)
    journal = tmp_path / "run" / JOURNAL_FILE
    whole = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(whole[: len(whole) * 2 // 3]))
    code, lines = replayed(tmp_path, capsys)
    assert (code, len(lines)) == (0, 1), lines


def test_the_new_run_is_kept_where_it_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, TURNS)
    before = (tmp_path / "run" / JOURNAL_FILE).read_bytes()
    assert replayed(tmp_path, capsys, f"replay.dir={tmp_path / 'new'}")[0] == 0
    assert json.loads((tmp_path / "new" / "result.json").read_text())["text"] == "It is 42. "
    assert (tmp_path / "run" / JOURNAL_FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["{run}", "replay.tools=some"], "replay.tools: given 'some', allowed: record, run"),
        (["{run}", "replay.dir={run}"], "replay.dir: given the recorded run itself"),
        (["{run}", "budget.max_round=1"], "budget.max_round: unknown key"),
        (["{run}/workspace"], "replay: no journal at"),
        ([], "replay: no folder given, allowed: geode replay RUN_DIR"),
    ],
)
def test_what_cannot_be_replayed_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    record(tmp_path, TURNS)
    capsys.readouterr()
    assert cli.main(["replay", *(w.replace("{run}", str(tmp_path / "run")) for w in words)]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err


def test_the_adapter_by_itself(tmp_path: Path) -> None:
    record(tmp_path, TURNS)
    adapter = ReplayAdapter(tmp_path / "run")

    async def answers() -> tuple[list[str], list[ErrorKind]]:
        texts, kinds = [], []
        for number in range(1, 7):
            try:
                result = await adapter.call(AdapterCallRequest((Message.user("x"),), round=number))
            except AdapterError as error:
                kinds.append(error.kind)
            else:
                texts.append(result.text)
        return texts, kinds

    assert asyncio.run(answers()) == (
        ["Let me see.", "", "", "It is 42. "],
        [ErrorKind.OVERLOADED, ErrorKind.SCRIPT],
    )
    assert adapter.remaining == 0
    given = {"content": [{"type": "text", "text": "a"}], "stop_reason": "max_tokens"}
    assert adapter.parse(given).stop_reason is StopReason.MAX_TOKENS
    with pytest.raises(AdapterError, match="no recorded answer"):
        adapter.parse({})


def test_the_replay_adapter_in_a_run_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, TURNS)
    settings = compose_settings(
        ["adapter=replay", f"adapter.journal={tmp_path / 'run'}", "task=chat", "task.prompt=Hello.", "display=quiet"]
    )
    again = asyncio.run(run_settings(settings, tmp_path / "again", environ={}))
    assert (again.text, again.rounds) == ("It is 42. ", 4)
    words = ["adapter=replay", "adapter.journal=nowhere", "task=chat", f"hydra.run.dir={tmp_path / 'x'}"]
    sys.argv[:] = ["geode"]
    assert cli.main([*words, "task.prompt=Hello."]) == 2
    assert "adapter.journal: no journal at nowhere: No such file or directory" in capsys.readouterr().err


def test_a_run_that_was_resumed_with_a_raised_budget_replays_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, TURNS, "budget.max_rounds=1")
    assert cli.main(["resume", str(tmp_path / "run"), "budget.max_rounds=9"]) == 0
    code, lines = replayed(tmp_path, capsys)
    assert (code, lines) == (0, ["[replayed 4 LLM calls, recorded results: no difference]"])


def test_the_first_of_several_inputs_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, [*TURNS, {"text": "Welcome."}])
    assert cli.main(["resume", str(tmp_path / "run"), "task.prompt=Thanks."]) == 0
    code, lines = replayed(tmp_path, capsys)
    assert (code, lines) == (0, ["[replayed 4 LLM calls, recorded results: no difference]"])

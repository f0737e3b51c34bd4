"""`geode resume`: a run goes on from its journal, wherever it was cut off."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from resume_kit import WRITING, call, cut, events, lines, result, resume, run

from geode.contract import Message
from geode.journal import JOURNAL_FILE, decode_message
from geode.runner.resume import MAYBE_DONE, NO_RESULT, NOT_STARTED, read_resume_point


def conversation(folder: Path) -> list[Message]:
    return list(read_resume_point(folder).messages)


@pytest.mark.parametrize("wire", ["scripted", "anthropic-payg", "openai-payg", "glm-payg"])
def test_a_run_cut_off_after_any_line_is_finished(tmp_path: Path, wire: str) -> None:
    """Over the real wires the strict provider refuses a history that is not paired."""
    over = () if wire == "scripted" else (f"adapter={wire}", "provider=scripted")
    whole = run(tmp_path, WRITING, *over)
    assert whole.termination_reason == "natural"
    folder = tmp_path / "run"
    original, step = lines(folder), 2 if wire == "scripted" else 7
    for kept in range(1, len(original), step):
        again = tmp_path / f"cut{kept}"
        shutil.copytree(folder, again)
        cut(again, [*original[:kept], original[kept][: len(original[kept]) // 2]])
        assert resume(again) == 0, kept
        ended = result(again)
        assert ended["termination_reason"] == "natural"
        assert ended["text"] == "Both files are written."
        assert (ended["rounds"], ended["tool_calls"]) == (3, 4)
        messages = conversation(again)
        assert [m.role for m in messages] == ["user", "assistant"] * 3
        for asked, given in ((messages[1], messages[2]), (messages[3], messages[4])):
            assert [r.tool_use_id for r in given.tool_results] == [u.id for u in asked.tool_uses]


def test_what_is_on_record_as_done_is_used_and_the_rest_is_closed(tmp_path: Path) -> None:
    run(tmp_path, WRITING)
    folder = tmp_path / "run"
    original = lines(folder)
    starts = [n for n, line in enumerate(original) if '"event":"TOOL_EXEC_STARTED"' in line]
    cut(folder, original[: starts[2] + 1])  # the second write has started, the read before it has come back
    (folder / "workspace" / "b.txt").unlink(missing_ok=True)
    assert resume(folder) == 0
    first, second, third = conversation(folder)[4].tool_results
    assert "A" in first.text
    assert not first.is_error
    assert (second.text, second.is_error) == (MAYBE_DONE, True)
    assert (third.text, third.is_error) == (NOT_STARTED, True)
    assert not (folder / "workspace" / "b.txt").exists()  # it was not run again


def test_a_safe_call_that_was_cut_off_may_be_called_again(tmp_path: Path) -> None:
    run(tmp_path, [{"tool_calls": [call("read_document", path="x")]}, {"text": "Done."}])
    folder = tmp_path / "run"
    original = lines(folder)
    started = next(n for n, line in enumerate(original) if '"event":"TOOL_EXEC_STARTED"' in line)
    cut(folder, original[: started + 1])
    assert resume(folder) == 0
    assert [r.text for r in conversation(folder)[2].tool_results] == [NO_RESULT]


def test_counters_go_on(tmp_path: Path) -> None:
    whole = run(tmp_path, WRITING)
    folder = tmp_path / "run"
    original = lines(folder)
    turns = [n for n, line in enumerate(original) if '"event":"TURN_COMPLETED"' in line]
    cut(folder, original[: turns[0] + 1])
    before = json.loads(original[turns[0]])
    assert resume(folder) == 0
    ended = result(folder)
    assert ended["usage"]["output_tokens"] == whole.usage.output_tokens
    assert ended["rounds"] == 3
    assert ended["elapsed_s"] > before["elapsed_s"]
    records = events(folder, "journal")
    assert [r.get("resumed") for r in records] == [False, True]
    assert records[0]["run_id"] == records[1]["run_id"]
    assert [r["round"] for r in events(folder, "ROUND_STARTED")] == [1, 2, 3]


def test_a_run_that_was_answered_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, WRITING)
    before = lines(tmp_path / "run")
    assert resume(tmp_path / "run") == 0
    assert capsys.readouterr().out == (
        "geode: nothing to do: the run ended natural. To go on with it: task.prompt='...'\n"
    )
    assert lines(tmp_path / "run") == before


def test_a_result_that_was_not_written_any_more_is_written(tmp_path: Path) -> None:
    whole = run(tmp_path, WRITING)
    folder = tmp_path / "run"
    written = result(folder)
    assert written["text"] == whole.text
    (folder / "result.json").unlink()
    assert resume(folder) == 0
    assert result(folder) == written


def test_a_new_input_goes_on_in_the_same_conversation(tmp_path: Path) -> None:
    run(tmp_path, [*WRITING, {"text": "You are welcome."}])
    folder = tmp_path / "run"
    assert resume(folder, "task.prompt=Thanks.") == 0
    assert result(folder)["text"] == "You are welcome."
    assert result(folder)["rounds"] == 4
    messages = conversation(folder)
    assert [m.text for m in messages[-2:]] == ["Thanks.", "You are welcome."]
    assert len(messages) == 8


def test_a_raised_budget_lets_it_go_on(tmp_path: Path) -> None:
    short = run(tmp_path, WRITING, "budget.max_rounds=1")
    assert short.termination_reason == "max_rounds"
    folder = tmp_path / "run"
    assert resume(folder) == 1
    assert result(folder)["termination_reason"] == "max_rounds"
    assert resume(folder, "budget.max_rounds=10") == 0
    assert result(folder)["text"] == "Both files are written."
    assert (folder / "workspace" / "b.txt").read_text() == "B"
    assert events(folder, "journal")[-1]["settings"]["budget"]["max_rounds"] == 10


def test_a_group_may_be_chosen_anew(tmp_path: Path) -> None:
    run(tmp_path, WRITING, "budget.max_rounds=1")
    folder = tmp_path / "run"
    assert resume(folder, "budget=unlimited", "+safety=read_only") == 0
    settings = events(folder, "journal")[-1]["settings"]
    assert settings["budget"]["max_rounds"] == 0
    assert settings["task"]["prompt"] == "Write the files."
    assert not (folder / "workspace" / "b.txt").exists()


def test_the_files_of_the_task_are_not_copied_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("as given")
    files = f"task.files=[{{from: {tmp_path / 'a.txt'}, to: a.txt}}]"
    run(tmp_path, WRITING, files, "budget.max_rounds=1")
    folder = tmp_path / "run"
    written = (folder / "workspace" / "a.txt").read_text()
    assert resume(folder, "budget.max_rounds=9") == 0
    assert (folder / "workspace" / "a.txt").read_text() == written


def test_a_workspace_is_the_same_folder_wherever_it_is_resumed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run(tmp_path, WRITING, "task.workspace=.", "budget.max_rounds=1")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert resume(tmp_path / "run", "budget.max_rounds=9") == 0
    assert sorted(p.name for p in (tmp_path / "here").iterdir()) == ["a.txt", "b.txt"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_question_wants_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [{"tool_calls": [call("ask_user", question="Which file?")]}, {"text": "That one then."}]
    assert run(tmp_path, turns).termination_reason == "user_clarification_needed"
    folder = tmp_path / "run"
    assert resume(folder) == 2
    err = capsys.readouterr().err
    assert err == "geode: task.prompt: given nothing, allowed: an answer to what the run asked: Which file?\n"
    assert resume(folder, "task.prompt=The second.") == 0
    assert result(folder)["text"] == "That one then."


def test_retried_and_failed_attempts_count_as_turns_of_the_script(tmp_path: Path) -> None:
    turns = [
        {"fault": {"kind": "http", "status": 529}},
        {"text": "One.", "tool_calls": [call("read_document", path="x")]},
        {"fault": {"kind": "http", "status": 400}},
        {"text": "Two."},
    ]
    failed = run(tmp_path, turns, "llm.base_delay_s=0")
    assert failed.termination_reason == "llm_error"
    folder = tmp_path / "run"
    assert resume(folder) == 0
    assert result(folder)["text"] == "Two."
    assert result(folder)["rounds"] == 2


def test_a_cut_answer_is_joined_over_a_crash(tmp_path: Path) -> None:
    turns = [{"text": "The first half, ", "stop": "max_tokens"}, {"text": "the second half."}]
    whole = run(tmp_path, turns)
    assert whole.text == "The first half, the second half."
    folder = tmp_path / "run"
    original = lines(folder)
    for kept in range(5, len(original)):
        cut(folder, original[:kept])
        assert resume(folder) == 0
        assert result(folder)["text"] == whole.text, kept


def test_a_session_that_spans_runs_is_charged_once(tmp_path: Path) -> None:
    shared = (
        "session.id=s",
        f"session.dir={tmp_path / 'sessions'}",
        "pricing.overrides={scripted: {input_mtok: 1e6, output_mtok: 1e6}}",
    )
    short = run(tmp_path, WRITING, *shared, "budget.max_rounds=1")
    kept = json.loads((tmp_path / "sessions" / "s.json").read_text())
    assert kept["cost"] == pytest.approx(short.cost)
    assert short.cost > 0
    assert resume(tmp_path / "run", "budget.max_rounds=9") == 0
    kept = json.loads((tmp_path / "sessions" / "s.json").read_text())
    assert kept["cost"] == pytest.approx(result(tmp_path / "run")["cost"])
    assert kept["elapsed_s"] == pytest.approx(result(tmp_path / "run")["elapsed_s"], abs=0.05)


def test_a_call_in_flight_counts_as_spent_where_the_ceiling_is_hard(tmp_path: Path) -> None:
    prices = "pricing.overrides={scripted: {input_mtok: 1, output_mtok: 1}}"
    run(tmp_path, WRITING, prices, "budget.cost_budget=1", "budget.cost_hard=true")
    folder = tmp_path / "run"
    original = lines(folder)
    starts = [n for n, line in enumerate(original) if '"event":"LLM_CALL_STARTED"' in line]
    reserved = json.loads(original[starts[1]])["reserved"]
    assert reserved > 0
    cut(folder, original[: starts[1] + 1])
    point = read_resume_point(folder)
    assert (point.uncertain, point.rounds) == (reserved, 1)
    cut(folder, original[: starts[1]])
    assert read_resume_point(folder).uncertain == 0


def test_a_history_that_was_replaced_is_the_one_that_goes_on(tmp_path: Path) -> None:
    run(tmp_path, WRITING, "budget.max_rounds=1")
    folder = tmp_path / "run"
    messages = [json.loads(line)["message"] for line in lines(folder) if '"event":"message"' in line]
    number = len(lines(folder))
    replaced = {"n": number, "t": 2e9, "event": "history", "generation": 1, "messages": messages}
    with (folder / JOURNAL_FILE).open("a") as file:
        file.write(json.dumps(replaced) + "\n")
    point = read_resume_point(folder)
    assert list(point.messages) == [decode_message(m) for m in messages]
    assert point.sent == 0
    assert point.next_number == number + 1

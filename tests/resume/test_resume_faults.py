"""`geode resume` where it cannot: bad overrides, damaged journals, a run that still goes on. One line, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from resume_kit import WRITING, lines, resume, run

from geode.journal import JOURNAL_FILE, Journal


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("budget.max_round=3", "budget.max_round: unknown key"),
        ("budget=tigt", "budget: given 'tigt', allowed: "),
        ("budget.max_rounds=-1", "budget.max_rounds: given -1, allowed: a number >= 0"),
        ("+recipe=budget-sweep", "recipe: not for a recorded run"),
        ("hydra.run.dir=x", "hydra.run.dir: not for a recorded run"),
        ("budget.max_rounds=1,2", "a sweep is not for a recorded run"),
        ("adapter.headers.authorization=Bearer abcdefghijkl", "given what looks like a secret"),
        ("-m", "-m: unknown flag here"),
    ],
)
def test_bad_overrides_are_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], override: str, says: str
) -> None:
    run(tmp_path, WRITING, "budget.max_rounds=1")
    before = lines(tmp_path / "run")
    assert resume(tmp_path / "run", override) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err
    assert lines(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "geode: resume: no journal at {path}: No such file or directory\n"),
        ("{}\n", "geode: resume: {path} is no journal of geode's: it has no header\n"),
        (
            '{"n":0,"t":1,"event":"journal","settings":{},"run_id":"a"}\n{"n":7,"t":1,"event":"notice"}\n',
            "geode: resume: {path} is damaged: record 1 is missing or cannot be read\n",
        ),
        (
            '{"n":0,"t":1,"event":"journal","settings":{},"run_id":"a"}\n{"n":1,"t":1,"event":"message","index":4,'
            '"message":{"role":"user","content":[]}}\n',
            "geode: resume: message 0 of the history is missing\n",
        ),
        (
            '{"n":0,"t":1,"event":"journal","settings":{},"run_id":"a"}\n{"n":1,"t":1,"event":"LLM_CALL_ENDED"}\n',
            "geode: resume: {path} cannot be read: KeyError: 'usage'\n",
        ),
    ],
)
def test_a_journal_that_cannot_be_used_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, says: str
) -> None:
    if content is not None:
        (tmp_path / JOURNAL_FILE).write_text(content)
    assert resume(tmp_path) == 2
    assert capsys.readouterr().err == says.format(path=tmp_path / JOURNAL_FILE)


def test_no_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert resume(tmp_path / "nowhere") == 2
    assert resume(tmp_path, "x=y") == 2
    assert "allowed: the folder of a run" in capsys.readouterr().err


def test_a_run_that_is_still_going_on_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, WRITING, "budget.max_rounds=1")
    path = tmp_path / "run" / JOURNAL_FILE
    other = Journal(path)
    try:
        assert resume(tmp_path / "run", "budget.max_rounds=9") == 2
    finally:
        other.close()
    assert capsys.readouterr().err == (
        f"geode: {path} is being written by another process: this run is still going on\n"
    )
    assert resume(path, "budget.max_rounds=9") == 0

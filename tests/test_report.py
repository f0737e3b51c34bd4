"""`geode report`: a table, CSV and an HTML page, from journals alone."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from geode import cli
from geode.compose import compose_settings
from geode.contract import ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from geode.journal import JOURNAL_FILE, Journal
from geode.report.html import html_report
from geode.report.summary import RunSummary
from geode.runner import run_settings


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "input": arguments}


def record(folder: Path, turns: Sequence[Mapping[str, Any]], *overrides: str, name: str = "run") -> Path:
    (folder / "script.yaml").write_text(yaml.safe_dump({"name": "reported", "turns": list(turns)}))
    words = [
        "adapter=scripted", f"adapter.script={folder / 'script.yaml'}", "task=chat", "task.prompt=Hello.",
        "display=quiet", "llm.base_delay_s=0", *overrides,
    ]  # fmt: skip
    asyncio.run(run_settings(compose_settings(words), folder / name, environ={}))
    return folder / name


TURNS: list[dict[str, Any]] = [
    {"tool_calls": [call("calculate", expression="6 * 7"), call("write_file", path="a", content="A")],
     "usage": {"input": 100, "output": 10}},
    {"fault": {"kind": "http", "status": 529}},
    {"tool_calls": [call("read_document", path="none")], "usage": {"input": 20, "cache_read": 100, "output": 5}},
    {"text": "It is 42.", "usage": {"input": 30, "output": 7}},
]  # fmt: skip


def report(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = cli.main(["report", *words])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def test_one_run_in_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = record(tmp_path, TURNS)
    code, out = report(capsys, str(folder))
    assert code == 0
    lines = [re.sub(r"\d+\.\d+ s", "T s", line).split() for line in out.splitlines()]
    assert lines[1] == ["run", "natural", "scripted", "3", "3", "272", "$0.0000", "T", "s", "0"]
    tools = {line[0]: line[1:5] for line in lines[4:7]}
    assert tools == {
        "calculate": ["1", "0", "0", "0"],
        "read_document": ["1", "1", "0", "0"],
        "write_file": ["1", "1", "1", "0"],
    }
    assert out.splitlines()[-1].startswith("[1 run · 1 answered · 3 rounds · 3 tool calls · 272 tokens · $0.0000 · ")


def test_many_runs_in_a_table_and_in_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, TURNS, name="10")
    record(tmp_path, [{"fault": {"kind": "http", "status": 400, "message": "=bad"}}], name="9")
    (tmp_path / "8").mkdir()
    (tmp_path / "8" / JOURNAL_FILE).write_text("nothing\n")
    inner = tmp_path / "10" / "agents" / "a"
    inner.mkdir(parents=True)
    (inner / JOURNAL_FILE).write_text((tmp_path / "9" / JOURNAL_FILE).read_text())  # belongs to its run
    code, out = report(capsys, str(tmp_path))
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[1:6:2]] == [
        ["8", "unreadable"], ["9", "llm_error"], ["10", "natural"],
    ]  # fmt: skip
    assert "is no journal of geode's: it has no header" in out
    assert "[3 runs · 1 answered · " in out
    code, out = report(capsys, str(tmp_path), "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(r["run"], r["termination_reason"]) for r in rows] == [
        ("8", "unreadable"), ("9", "llm_error"), ("10", "natural"),
    ]  # fmt: skip
    names = ("rounds", "tool_calls", "input_tokens", "cache_read_tokens", "output_tokens", "retries")
    assert [rows[2][name] for name in names] == ["3", "3", "150", "100", "22", "1"]


@pytest.mark.parametrize(
    "change",
    [{"t": 1e300}, {"rounds": "4"}, {"termination_reason": ["x"]}, {"cost": None}, {"format": "a"}, {"text": 7}],
    ids=str,
)
def test_a_journal_with_odd_values_is_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any]
) -> None:
    record(tmp_path, TURNS, name="1")
    journal = record(tmp_path, TURNS, name="2") / JOURNAL_FILE
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    changed = [line | change if line["event"] in ("journal", "SESSION_ENDED") else line for line in lines]
    journal.write_text("".join(json.dumps(line) + "\n" for line in changed))
    for form in ((), ("--csv",), ("--html", str(tmp_path / "page.html"))):
        code, out = report(capsys, str(tmp_path), *form)
        assert code == 0
        assert "unreadable" in out


def test_a_pipe_is_no_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, TURNS, name="1")
    (tmp_path / "2").mkdir()
    os.mkfifo(tmp_path / "2" / JOURNAL_FILE)
    code, out = report(capsys, str(tmp_path))
    assert code == 0
    assert "Not a file" in out


def test_a_run_without_an_end_is_unfinished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = record(tmp_path, TURNS) / JOURNAL_FILE
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]))
    code, out = report(capsys, str(journal))
    assert code == 0
    assert out.splitlines()[1].split()[:5] == ["run", "unfinished", "scripted", "3", "3"]


class Page(HTMLParser):
    """What a browser would make of a page: its tags, its text, where it would go."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_the_page_holds_the_conversation_and_escapes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [
        {"text": EVIL, "reasoning": [{"text": EVIL}], "tool_calls": [call("read_document", path=EVIL)]},
        {"text": "Done. \ud800"},
    ]
    folder = record(tmp_path, turns, f"task.prompt='{EVIL} {{{{ 7 * 7 }}}}'")
    code, out = report(capsys, str(folder), "--html", str(tmp_path / "page.html"))
    assert code == 0
    assert out.endswith(f"[{tmp_path / 'page.html'}]\n")
    page = Page((tmp_path / "page.html").read_text())
    assert "script" not in page.tags
    assert page.sources == ["#run1"]
    assert page.text.count(EVIL) >= 4
    assert "{{ 7 * 7 }}" in page.text
    assert "calls read_document" in page.text
    assert "error of read_document" in page.text


def test_images_are_shown_where_they_are_images() -> None:
    good, bad = ImageBlock("image/png", "iVBORw0KGgo="), ImageBlock('image/png" onload="x', "AAAA")
    messages = [
        Message.assistant(ToolUseBlock("a", "screenshot", {})),
        Message.user(ToolResultBlock("a", (TextBlock("seen"), good, bad, ImageBlock("image/svg+xml", "AAAA")))),
        Message.user(ImageBlock("image/png", "not base64!"), good),
    ]
    page = Page(html_report([RunSummary(Path("/r"), messages=messages)], Path("/r")))
    assert page.sources == ["#run1", "data:image/png;base64,iVBORw0KGgo=", "data:image/png;base64,iVBORw0KGgo="]
    assert "(an image)" in page.text


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, [{"fault": {"kind": "http", "status": 400, "message": "a\x1b[2Jb\nc"}}])
    _, out = report(capsys, str(tmp_path))
    assert "\x1b" not in out
    assert "[2Jb c" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["{empty}"], "report: no run in "),
        (["nowhere"], "report: given 'nowhere', allowed: the folder of a run"),
        ([], "report: given 0 folders, allowed: one"),
        (["--pdf"], "--pdf: unknown flag here, allowed: geode report DIR [--html FILE] [--csv]"),
        (["x", "--html"], "--html: given nothing, allowed: a file"),
        (["{run}", "--html=/nowhere/x.html"], "--html: cannot write '/nowhere/x.html': No such file or directory"),
    ],
)
def test_what_cannot_be_reported_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "one").mkdir()
    journal = Journal(tmp_path / "one" / JOURNAL_FILE)
    journal.header(settings={}, run_id="a")
    journal.close()
    given = [w.replace("{empty}", str(tmp_path / "empty")).replace("{run}", str(tmp_path / "one")) for w in words]
    code, out = report(capsys, *given)
    assert code == 2
    assert out.startswith(f"geode: {says}")

"""The journal keeps every message as it was, survives a torn line, and is written by one process at a time."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import fields
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geode.contract import (
    History,
    ImageBlock,
    InputFault,
    Message,
    Notice,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from geode.hooks import LlmCallEnded, ToolExecEnded, TurnCompleted
from geode.journal import (
    Journal,
    JournalBusy,
    JournalError,
    decode_message,
    decode_result,
    decode_usage,
    encode_message,
    read_journal,
    read_run,
)

text = st.text(st.characters(codec=None, categories=None), max_size=20)  # lone surrogates and control characters too
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(text, json_values, max_size=3)
maybe = st.none() | text
sources = st.builds(Source, text, text, text)
texts = st.builds(TextBlock, text, maybe)
images = st.builds(ImageBlock, text, text)
reasoning = st.builds(ReasoningBlock, text, sources, objects)
uses = st.builds(
    ToolUseBlock,
    text,
    text,
    objects,
    maybe,
    st.none() | st.sampled_from(InputFault),
    maybe,
    maybe,
    st.none() | sources,
)
results = st.builds(ToolResultBlock, text, text | st.lists(texts | images, max_size=3).map(tuple), st.booleans())
messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant"]),
    st.lists(texts | images | reasoning | uses | results, max_size=4).map(tuple),
)


def test_the_strategies_know_every_field_of_a_block() -> None:
    known = {TextBlock: 2, ImageBlock: 2, ReasoningBlock: 3, ToolUseBlock: 8, ToolResultBlock: 3, Source: 3}
    assert {cls: len(fields(cls)) for cls in known} == known


@given(messages)
def test_a_message_is_read_back_as_it_was(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(messages, max_size=3), results)
def test_a_journal_gives_back_what_was_written(tmp_path: Path, given: list[Message], result: ToolResultBlock) -> None:
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    journal = Journal(path)
    journal.header(settings={})
    history = History()
    history.watch(journal.watch)
    for message in given:
        history.append(message)
    history.replace(given)
    journal.observe(ToolExecEnded(1, "call_1", "look", result, 0.5))
    journal.close()
    records = read_run(path)
    assert [decode_message(r["message"]) for r in records if r["event"] == "message"] == given
    assert [[decode_message(m) for m in r["messages"]] for r in records if r["event"] == "history"] == [given]
    assert decode_result(records[-1]["result"]) == result
    assert [r["n"] for r in records] == list(range(len(records)))


def test_usage_is_read_back_and_unknown_counts_are_passed_over() -> None:
    usage = Usage(1, 2, 3, 4, 5, 6, False)
    data = {f.name: getattr(usage, f.name) for f in fields(usage)}
    assert decode_usage({**data, "total_tokens": 10}) == usage


def test_a_message_of_an_older_geode_lacks_the_newer_fields() -> None:
    data = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]}
    assert decode_message(data) == Message.assistant(ToolUseBlock("a", "look", {}))


@pytest.mark.parametrize("content", [[{"type": "sound"}], [{"type": "text"}], [7], None])
def test_a_message_that_is_none_is_an_error(content: object) -> None:
    with pytest.raises(JournalError):
        decode_message({"role": "user", "content": content})


def test_secrets_are_masked_and_notices_are_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", mask=lambda line: line.replace("hunter2", "***"))
    journal.notice(Notice("key", "the password is hunter2", "a=b"))
    journal.close()
    (record,) = read_journal(tmp_path / "j")
    assert (record["event"], record["message"], record["override"]) == ("notice", "the password is ***", "a=b")


def test_a_torn_line_is_passed_over_and_its_number_used_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first = Journal(path)
    first.header(settings={})
    first.notice(Notice("a", "a"))
    first.close()
    with path.open("ab") as file:
        file.write('{"n":2,"t":1,"event":"notice","message":"é'.encode()[:-1])
    again = Journal(path, first=2, size=path.stat().st_size)
    again.header(settings={}, resumed=True)
    again.close()
    assert [(r["n"], r["event"]) for r in read_run(path)] == [(0, "journal"), (1, "notice"), (2, "journal")]


def test_a_line_lost_in_the_middle_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.header(settings={})
    for name in "abc":
        journal.notice(Notice(name, name))
    journal.close()
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], lines[2][:10], lines[3]]) + "\n")
    with pytest.raises(JournalError, match=r"is damaged: record 2 is missing"):
        read_run(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no journal at .*: No such file or directory"),
        ("", "is no journal of geode's: it has no header"),
        ("not json\n", "is no journal of geode's: it has no header"),
        ('{"n": 0, "t": 1, "event": "notice"}\n', "is no journal of geode's: it has no header"),
        ('{"n": 0, "t": 1, "event": "journal", "format": 99}\n', "has journal format 99; this geode reads up to 1"),
    ],
)
def test_what_is_no_journal_is_said_in_one_line(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "journal.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(JournalError, match=says):
        read_run(path)


def test_the_newest_run_of_a_folder_is_read(tmp_path: Path) -> None:
    for name in ("one", "two"):
        journal = Journal(tmp_path / "j")
        journal.header(run_id=name, settings={})
        journal.close()
    assert [r["run_id"] for r in read_run(tmp_path / "j")] == ["two"]


def test_one_process_writes_a_journal_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    with pytest.raises(JournalBusy, match="is being written by another process: this run is still going on"):
        Journal(path)
    journal.header(settings={})
    journal.close()
    with pytest.raises(JournalBusy, match="was written by another process since it was read"):
        Journal(path, size=3)
    Journal(path, size=path.stat().st_size).close()


def test_each_event_is_handed_to_the_system_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", fsync="never")
    journal.observe(LlmCallEnded(1, "a", "m", "end_turn", Usage(1, 2), 0.5, 0.1, "hello"))
    seen = json.loads((tmp_path / "j").read_text())
    assert (seen["event"], seen["text"], seen["cost"]) == ("LLM_CALL_ENDED", "hello", 0.5)
    journal.close()
    journal.close()


@pytest.mark.parametrize(("mode", "calls"), [("never", 0), ("event", 5)])
def test_how_often_the_file_is_forced_to_disk(
    mode: Literal["never", "event"], calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "fsync", asked.append)
    journal = Journal(tmp_path / "j", fsync=mode)
    for number in range(4):
        journal.observe(TurnCompleted(number, 0, Usage(), 0.0, 0.0))
    journal.close()
    assert len(asked) == calls


def test_a_slow_disk_holds_up_the_close_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, free = threading.Event(), threading.Event()
    done: list[bool] = []

    def slow(fd: int) -> None:
        begun.set()
        done.append(free.wait(20))

    monkeypatch.setattr(os, "fsync", slow)
    journal = Journal(tmp_path / "j", fsync="round")
    for number in range(50):
        journal.observe(TurnCompleted(number, 0, Usage(), 0.0, 0.0))
        assert begun.wait(20)
    assert len((tmp_path / "j").read_bytes().splitlines()) == 50
    assert done == []
    free.set()
    journal.close()
    assert done[:2] == [True, True]
    assert len(done) <= 3  # the first, the 49 that came meanwhile as one, the close


def test_a_disk_that_is_full_is_reported_once_and_the_run_goes_on() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    told: list[Notice] = []
    journal = Journal(Path("/dev/full"), notify=told.append)
    for number in range(3):
        journal.observe(TurnCompleted(number, 0, Usage(), 0.0, 0.0))
    journal.close()
    assert [n.message for n in told] == ["the journal cannot be written any more: No space left on device (full)"]


def test_a_value_that_json_cannot_hold_keeps_the_event(tmp_path: Path) -> None:
    loop: dict[str, object] = {}
    loop["self"] = loop
    journal = Journal(tmp_path / "j")
    journal.header(settings=loop)
    journal.close()
    (record,) = read_journal(tmp_path / "j")
    assert (record["n"], record["event"]) == (0, "journal")

"""Places that a run writes to and that break: the run goes on, the answer is not lost. And no secret in any file."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_kit import RunGeode, clean_environ
from loop_kit import KEYS, PRICE, play, settings, turn, usage

from geode.adapters.credentials import Masker
from geode.hooks import Event
from geode.runner import run_settings

ECHO = ("echo", {"text": "a"})
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nKJHKjhkjHKJHkjhKJHkjhKJHkj\n-----END PRIVATE KEY-----\n"
FULL = Path("/dev/full")


def _texts(folder: Path) -> str:
    return "\n".join(file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file())


# ------------------------------------------------------------------------------------------------------------ secrets


async def test_an_offloaded_result_holds_no_secret(tmp_path: Path) -> None:
    key = "sk-ant-api03-realkey0123456789"
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "notes.txt").write_text(f"{key}\n" + "words and words\n" * 2000)
    read = turn(None, ("read_document", {"path": "notes.txt"}))
    run = await play(
        tmp_path, [read, turn("done")], task__workspace=str(tmp_path / "ws"), tools__result_tokens=500,
        toolset={"include": ["read_document"], "exclude": []},
    )  # fmt: skip
    assert len(run.of(Event.TOOL_RESULT_OFFLOADED)) == 1
    (kept,) = (run.folder / "offload").iterdir()
    assert "***" in kept.read_text()
    assert key not in _texts(run.folder)


@pytest.mark.parametrize(
    "secret", [PEM, 'pässwörd"with"quötes', '{\n  "private_key": "abc/def+ghi-0123456789"\n}', "a\\b\\c d"]
)
@pytest.mark.parametrize("ascii", [True, False])
def test_a_secret_is_masked_however_deep_in_json_it_stands(secret: str, ascii: bool) -> None:
    masker, text = Masker(secret), secret
    for _ in range(4):
        masked = masker.text(f"before {text} after")
        assert masked == "before *** after"
        text = json.dumps(text, ensure_ascii=ascii)[1:-1]


@pytest.mark.parametrize("white", ["\t", "\n", "\r\n", " "])
@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-api03-realkey0123456789",
        "Bearer abcdefgh12345678",
        "eyJhbGciOi0.eyJzdWIiOi0.c2lnbmF0",
        "0" * 32 + ".abcdefghij012345",
    ],
)
def test_what_looks_like_a_secret_is_masked_after_white_space_in_json(key: str, white: str) -> None:
    text = f"1{white}{key}"
    for _ in range(3):
        assert key.split()[-1] not in Masker().text(text)
        text = json.dumps(text)


def test_a_line_of_a_secret_is_masked_by_itself() -> None:
    for line in PEM.splitlines():
        assert Masker(PEM).text(f"log: {line}") == "log: ***"


async def test_a_rehearsal_masks_the_key_that_it_does_not_use(tmp_path: Path) -> None:
    key = "plain-value-456"
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"turns": [turn(None, ("echo", {"text": key})), turn(f"It is {key}.")]}))
    chosen = settings("glm-payg", provider__kind="scripted", provider__script=str(script))
    await run_settings(chosen, tmp_path / "run", environ={**KEYS, "ZAI_API_KEY": key})
    assert key not in _texts(tmp_path / "run")


@pytest.mark.parametrize("adapter", ["anthropic-payg", "glm-payg"])
async def test_a_key_does_not_follow_a_redirect(tmp_path: Path, adapter: str) -> None:
    seen: list[bytes] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async def here(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:{port}/x\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(elsewhere, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        async with await asyncio.start_server(here, "127.0.0.1", 0) as first:
            base = f"http://127.0.0.1:{first.sockets[0].getsockname()[1]}"
            chosen = settings(adapter, adapter__base_url=base, llm__attempts=1)
            result = await run_settings(chosen, tmp_path / "run", environ=KEYS)
    assert result.termination_reason == "llm_error"
    assert result.error is not None
    assert result.error["status"] == 307
    assert seen == []


# ------------------------------------------------------------------------------------------------- consoles and disks


async def test_a_console_that_is_gone_does_not_touch_the_run(tmp_path: Path) -> None:
    def gone(_event: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    (tmp_path / "script.yaml").write_text(
        json.dumps({"turns": [turn(None, ("write_file", {"path": "a", "content": ""})), turn("done")]})
    )
    chosen = settings(adapter__script=str(tmp_path / "script.yaml"), safety__tiers={"write": "deny"})
    result = await run_settings(chosen, tmp_path / "run", observers=[gone], on_notice=gone)
    assert (result.termination_reason, result.text) == ("natural", "done")
    assert any(notice.key.startswith("denied:write_file") for notice in result.notices)


async def test_a_result_that_cannot_be_written_is_a_notice(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(json.dumps({"turns": [turn("the answer")]}))
    (tmp_path / "run" / "result.json").mkdir(parents=True)
    result = await run_settings(settings(adapter__script=str(tmp_path / "script.yaml")), tmp_path / "run")
    assert (result.termination_reason, result.text) == ("natural", "the answer")
    assert result.notices[-1].message == "result.json cannot be written: Is a directory"
    assert not list((tmp_path / "run").glob(".result*"))


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_an_answer_that_cannot_be_printed_is_one_line(tmp_path: Path) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "geode.cli", "display=quiet", "hydra.run.dir=run"],
            cwd=tmp_path,
            env=clean_environ(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    where = tmp_path / "run" / "result.json"
    line = f"geode: the answer cannot be printed: No space left on device; it is in {where}\n"
    assert (done.returncode, done.stderr) == (1, line)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["termination_reason"] == "natural"
    assert not (tmp_path / "run" / "failure.json").exists()


@pytest.mark.parametrize("how", ["removed", "garbage", "a file in its place"])
async def test_a_session_that_breaks_in_mid_run_is_a_notice(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "sessions"
    (tmp_path / "script.yaml").write_text(json.dumps({"turns": [turn(None, ECHO), turn(None, ECHO), turn("done")]}))

    def spoil(payload: Any) -> None:
        if payload.event is Event.TOOL_EXEC_STARTED and payload.round == 1:
            if how == "garbage":
                (folder / "ours.json").write_text("garbage")
                return
            shutil.rmtree(folder)
            if how == "a file in its place":
                folder.write_text("")

    chosen = settings(adapter__script=str(tmp_path / "script.yaml"), session__id="ours", session__dir=str(folder))
    result = await run_settings(chosen, tmp_path / "run", observers=[spoil])
    assert (result.termination_reason, result.text) == ("natural", "done")
    (notice,) = [n for n in result.notices if n.key == "session"]
    assert notice.message.startswith("the session ours cannot be kept: ")


@pytest.mark.parametrize("field", ["elapsed_s", "cost"])
@pytest.mark.parametrize("value", [-5, float("nan"), float("inf")])
async def test_a_session_with_an_impossible_total_is_a_fault(tmp_path: Path, field: str, value: float) -> None:
    from geode.config_errors import ConfigFault

    kept = {"elapsed_s": 1.0, "cost": 1.0, "handed_off": False, field: value}
    (tmp_path / "ours.json").write_text(json.dumps(kept))
    with pytest.raises(ConfigFault, match="is not a session's file"):
        await run_settings(settings(session__id="ours", session__dir=str(tmp_path)), tmp_path / "run")


async def test_runs_of_one_session_at_the_same_time_share_its_budget(tmp_path: Path) -> None:
    script = [turn("x", ECHO, usage=usage(100), delay_s=0.05, repeat="forever")]  # 0.1 USD each
    shared: dict[str, Any] = {
        "session__id": "purse",
        "session__dir": str(tmp_path / "sessions"),
        "budget__cost_budget": 1.0,
        "pricing__overrides": {"scripted": PRICE},
        "recovery__repeats": 0,
    }
    one, two = await asyncio.gather(play(tmp_path / "one", script, **shared), play(tmp_path / "two", script, **shared))
    assert {one.reason, two.reason} == {"cost_budget_exceeded"}
    total = json.loads((tmp_path / "sessions" / "purse.json").read_text())["cost"]
    assert total == pytest.approx(one.result.cost + two.result.cost)
    assert 1.0 <= total <= 1.2 + 1e-9  # a call of each may be under way


async def test_a_journal_knows_its_session_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = await play(tmp_path, [turn("x")], session__id="ours", session__dir="kept")
    header = json.loads((run.folder / "journal.jsonl").read_text().splitlines()[0])
    assert header["settings"]["session"] == {"id": "ours", "dir": str(tmp_path / "kept")}


# ------------------------------------------------------------------------------------------------------------- sweeps


def test_a_sweep_into_a_used_folder_reports_its_own_jobs(geode: RunGeode) -> None:
    sweep = ("-m", "budget.max_rounds=2", "hydra.sweep.dir=sweep", "display=quiet")
    for more, code, ran in ((), 0, 1), (("adapter=glm-payg",), 2, 0), ((), 0, 1):
        done = geode(*sweep, *more)
        assert (done.code, f"[1 job, {ran} ran to an end" in done.out) == (code, True)


def test_a_sweep_whose_table_cannot_be_written_says_so(geode: RunGeode, tmp_path: Path) -> None:
    (tmp_path / "sweep" / "summary.csv").mkdir(parents=True)
    ran = geode("-m", "budget.max_rounds=1", "hydra.sweep.dir=sweep", "display=quiet")
    assert ran.code == 1
    assert ran.faults[-1].startswith("the table of the sweep cannot be written: ")
    assert "Warning" not in ran.err


# ---------------------------------------------------------------------------------------------- hooks, tools, templates


def test_code_that_exits_ends_nothing_else(geode: RunGeode, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "script.py").write_text("import sys; sys.exit(0)")
    for command in ([], ["tools"], ["tools", "check"]):
        ran = geode(*command, "tools.folders=[tools]")
        assert ran.code == 2, ran.err
        assert "script.py: cannot be imported: SystemExit: 0" in ran.err


async def test_hooks_that_exit_end_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(json.dumps({"turns": [turn(None, ECHO), turn("done")]}))
    hooks = {"observers": [{"_target_": "loop_tools.leaves_async"}], "interceptors": [], "timeout_s": 5}
    chosen = settings(adapter__script=str(tmp_path / "script.yaml"), hooks=hooks)
    result = await run_settings(chosen, tmp_path / "run")
    assert (result.termination_reason, result.text) == ("natural", "done")
    assert any("SystemExit: 9" in notice.message for notice in result.notices)


@pytest.mark.parametrize("status", ["{{ 1 // (round - 2) }}", "{{ nope if round > 1 else 1 }}"])
async def test_a_status_that_fails_later_is_left_out(tmp_path: Path, status: str) -> None:
    run = await play(tmp_path, [turn(None, ECHO), turn(None, ECHO), turn("done")], task__status=status)
    assert (run.reason, run.result.text) == ("natural", "done")
    assert any(notice.key == "task.status" for notice in run.result.notices)


@pytest.mark.parametrize("given", ['task.status={{ "%.2f" % usd_left }}', "task.system={{ tools + 1 }}"])
def test_a_template_that_fails_at_once_is_a_fault_of_the_config(geode: RunGeode, given: str) -> None:
    ran = geode(given)
    assert ran.code == 2
    assert [line.split(":")[0] for line in ran.faults] == [given.partition("=")[0]]


def test_the_console_shows_no_secret(geode: RunGeode, tmp_path: Path) -> None:
    keys = {"ZAI_API_KEY": "plain-value-456", "OPENAI_API_KEY": "x"}
    said = "It is plain-value-456, and sk-ant-api03-realkey0123456789."
    script = {"turns": [turn(said, ("calculate", {"expression": "plain-value-456"})), turn(said)]}
    (tmp_path / "script.yaml").write_text(json.dumps(script))
    ran = geode("adapter=glm-payg", "provider=scripted", "adapter.script=script.yaml", env=keys)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[0] == "It is ***, and ***."
    assert "plain-value-456" not in ran.out + ran.err
    assert "realkey" not in ran.out + ran.err


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_closed_stream_stops_no_run(tmp_path: Path, stream: str) -> None:
    command = f'exec "{sys.executable}" -m geode.cli hydra.run.dir=run {stream}>&-'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=clean_environ(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "result.json").read_text())["termination_reason"] == "natural"

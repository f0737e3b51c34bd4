"""The `geode` command: exit codes, exact lines, what goes to which stream, what is left on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from cli_kit import RunGeode, clean_environ

from geode.compose import version_base

ANSWER_TAIL = "hourly runs at that limit would take 1200 rounds."


def test_geode_alone_runs_the_built_in_task(geode: RunGeode) -> None:
    ran = geode()
    assert ran.code == 0, ran.err
    assert ANSWER_TAIL in ran.out
    summary = ran.out.splitlines()[-1]
    assert summary.startswith("[natural: the model finished · 4 rounds · 5 tool calls · ")
    assert "scripted, no model" in summary
    assert "round 1" in ran.err
    folder = ran.run_dir()
    result = json.loads((folder / "result.json").read_text())
    assert (result["termination_reason"], result["rounds"], result["tool_calls"]) == ("natural", 4, 5)
    assert {"journal.jsonl", "result.json", ".hydra"} <= {path.name for path in folder.iterdir()}


def test_the_answer_holds_what_the_tools_found(geode: RunGeode, tmp_path: Path) -> None:
    ran = geode()
    (run,) = tmp_path.glob("outputs/*/*")
    files = list((run / "workspace" / "conf").rglob("*.yaml"))
    adapters = [f for f in files if f.parent.name == "adapter"]
    wires = {yaml.safe_load(f.read_text())["wire"] for f in adapters}
    assert f"holds {len(files)} YAML files" in ran.out
    assert f"offers {len(adapters)} adapters" in ran.out
    assert f"{len(wires)} different wires" in ran.out


@pytest.mark.parametrize("spelling", ["adapter=scripted", "+adapter=scripted", "++adapter=scripted"])
def test_quiet_puts_nothing_but_the_answer_out(geode: RunGeode, spelling: str) -> None:
    ran = geode(spelling, "+display=quiet")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith(ANSWER_TAIL + "\n")


def test_a_run_that_ends_without_an_answer_is_exit_code_1(geode: RunGeode) -> None:
    ran = geode("budget.max_rounds=1")
    assert ran.code == 1
    assert ran.out.splitlines()[-1].startswith("[max_rounds: the round limit was reached · 1 round · ")


@pytest.mark.parametrize(
    ("argv", "faults"),
    [
        (
            ["wiree"],
            [
                "wiree: unknown command, allowed: wire, replay, resume, report, tools, doctor, or KEY=VALUE; "
                "did you mean 'wire'?"
            ],
        ),
        (
            ["display=livee"],
            ["display: given 'livee', allowed: auto, live, plain, quiet; did you mean 'live'?"],
        ),
        (
            ["budget.max_rounds=-1", "tool_choice=named"],
            [
                "tool_choice.name: given nothing, allowed: a value, e.g. tool_choice.name=VALUE",
                "budget.max_rounds: given -1, allowed: a number >= 0",
            ],
        ),
        (
            ["budget.max_rounds=1,2"],
            ["budget.max_rounds: given several values, allowed: one, or -m for a sweep"],
        ),
        (
            ["recipe=budget-sweep"],
            [
                "recipe: given 'budget-sweep', which is a sweep, allowed: with -m only, "
                "e.g. geode -m +recipe=budget-sweep"
            ],
        ),
        (
            ["adapter.extra_body.api_key=abcdefgh"],
            [
                "adapter.extra_body.api_key: given what looks like a secret, allowed: the NAME of an environment "
                "variable (adapter.credential.env, mcp.servers.X.header_env)"
            ],
        ),
        (
            ["sk-ant-api03-abcdefghijklmnop"],
            [
                "argument 1: given what looks like a secret, allowed: the NAME of an environment variable "
                "(adapter.credential.env, mcp.servers.X.header_env)"
            ],
        ),
        (
            ["mcp.servers.x.header_env.X-Key=sk-ant-api03-abcdefghijklmnop"],
            [
                "mcp.servers.x.header_env.X-Key: given what looks like a secret, allowed: the NAME of an environment "
                "variable (adapter.credential.env, mcp.servers.X.header_env)"
            ],
        ),
        (["budget=7"], ["budget: given '7', allowed: default, hard, long, tight, unlimited"]),
        (["response=null"], ["response: given 'null', allowed: answer, text"]),
        (
            ["budget=[1, tight]"],
            ["budget: given '1', allowed: default, hard, long, tight, unlimited"],
        ),
        (
            ["+recipe=[budget-sweep]"],
            [
                "recipe: given '[budget-sweep]', which is a sweep, allowed: with -m only, "
                "e.g. geode -m +recipe=[budget-sweep]"
            ],
        ),
        (
            ["budget.max_rounds={"],
            [
                "budget.max_rounds={: not an override, allowed: KEY=VALUE, e.g. adapter=scripted "
                "(no viable alternative at input '{')"
            ],
        ),
        (
            ["budget.max_rounds=${nope.x}"],
            ["budget.max_rounds: given '${nope.x}', which cannot be resolved: Interpolation key 'nope.x' not found"],
        ),
    ],
)
def test_bad_config_is_one_line_a_fault_and_exit_code_2(geode: RunGeode, argv: list[str], faults: list[str]) -> None:
    ran = geode(*argv)
    assert (ran.code, ran.out, ran.err.splitlines()) == (2, "", [f"geode: {fault}" for fault in faults])
    assert not (ran.folder / "outputs").exists(), "a bad config leaves nothing behind"


def test_a_hook_that_cannot_be_imported_is_one_line(geode: RunGeode) -> None:
    ran = geode("+hooks.observers=[{_target_: nope.mod.fn}]")
    line = "geode: hooks.observers.0._target_: cannot import 'nope.mod.fn': No module named 'nope'\n"
    assert (ran.code, ran.out, ran.err) == (2, "", line)


def test_the_traceback_is_there_for_who_asks(geode: RunGeode) -> None:
    ran = geode("display=livee", env={"HYDRA_FULL_ERROR": "1"})
    assert ran.code == 1
    assert "Traceback" in ran.err


def test_a_missing_credential_is_one_line_that_names_the_variable(geode: RunGeode) -> None:
    ran = geode("adapter=glm-payg")
    assert ran.code == 2
    assert len(ran.faults) == 1
    assert "ZAI_API_KEY" in ran.faults[0]
    assert "https://z.ai/manage-apikey/apikey-list" in ran.faults[0]


@pytest.mark.parametrize("flags", [["--cfg", "job"], ["-c", "job"], ["--cfg=job"]])
def test_cfg_job_is_short_enough_to_read(geode: RunGeode, flags: list[str]) -> None:
    ran = geode(*flags)
    assert ran.code == 0
    assert len(ran.out.splitlines()) <= 125
    assert yaml.safe_load(ran.out)["adapter"]["name"] == "scripted"


@pytest.mark.parametrize(
    "argv",
    [
        ["--cfg", "job", "+adapter=glm-payg"],
        ["+adapter=glm-payg", "--cfg", "job"],
        ["adapter=glm-payg", "--cfg", "job", "--package", "adapter"],
        ["--cfg", "job", "-p", "adapter", "++adapter=glm-payg"],
    ],
)
def test_cfg_with_both_spellings(geode: RunGeode, argv: list[str]) -> None:
    ran = geode(*argv)
    assert ran.code == 0
    assert "model: glm-5.3" in ran.out


def test_the_users_folder_extends_the_config(geode: RunGeode, tmp_path: Path) -> None:
    (tmp_path / "mine" / "budget").mkdir(parents=True)
    (tmp_path / "mine" / "budget" / "tiny.yaml").write_text("defaults: [default, _self_]\nmax_rounds: 2\n")
    ran = geode("--config-dir", "mine", "+budget=tiny", "--cfg", "job", "-p", "budget")
    assert ran.code == 0, ran.err
    assert "max_rounds: 2\n" in ran.out


def test_a_users_own_primary_config(geode: RunGeode, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "main.yaml").write_text("defaults: [config, _self_]\nbudget: {max_rounds: 9}\n")
    ran = geode("--config-dir", "mine", "-cn", "main", "--cfg", "job", "-p", "budget")
    assert ran.code == 0, ran.err
    assert "max_rounds: 9\n" in ran.out


def test_shell_completion_knows_groups_choices_and_recipes(tmp_path: Path) -> None:
    def complete(line: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "geode.cli", "-sc", "query=bash"],
            cwd=tmp_path,
            env=clean_environ({"COMP_LINE": line, "COMP_POINT": str(len(line))}),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    assert "adapter=glm-payg" in complete("geode adapter=glm")
    assert complete("geode recipe=budget-s") == ["recipe=budget-sweep"]


@pytest.mark.parametrize("adapter", ["scripted", "anthropic-payg", "openai-payg", "glm-payg"])
def test_the_built_in_task_with_an_answer_as_json(geode: RunGeode, adapter: str) -> None:
    ran = geode(f"adapter={adapter}", "provider=scripted", "response=answer")
    assert ran.code == 0, ran.err
    result = json.loads((ran.run_dir() / "result.json").read_text())
    assert (result["termination_reason"], result["rounds"], result["error"]) == ("natural", 4, None)
    assert result["parsed"]["answer"].startswith("The folder conf/ holds ")
    assert result["parsed"]["evidence"] == ["conf/budget/default.yaml", "24 * 50"]


def test_another_task_without_a_model_says_what_answers(geode: RunGeode, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    ran = geode("task=question", "task.prompt=What is in my notes?", "task.workspace=.")
    assert ran.code == 0, ran.err
    assert "This is the embedded script, not a model" in ran.out
    assert "notes.txt" in ran.out
    assert "adapter=NAME" in ran.out


def test_the_built_in_task_where_its_tools_are_missing_or_shortened(geode: RunGeode) -> None:
    for given in (["tool_choice=none"], ["toolset.include=[calculate]"], ["tools.result_tokens=30"]):
        ran = geode("adapter=glm-payg", "provider=scripted", *given)
        assert ran.code == 0, ran.err
        assert ran.out.startswith(
            "The survey cannot be made, since not every tool gave what it takes. glob_files said:"
        )


def test_a_rehearsal_plays_the_script_of_the_adapter_or_of_the_provider(geode: RunGeode, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"turns: [{{text: from {name}}}]")
    rehearsal = ("adapter=glm-payg", "provider=scripted", "display=quiet")
    assert geode(*rehearsal, "adapter.script=one.yaml").out == "from one\n"
    assert geode(*rehearsal, "adapter.script=one.yaml", "provider.script=two.yaml").out == "from two\n"


def test_a_safety_rule_that_matches_nothing_is_a_fault(geode: RunGeode) -> None:
    ran = geode("safety.rules=[{tool: grep_filez, approval: deny}]")
    fault = "safety.rules.0.tool: 'grep_filez' matches no tool; did you mean 'grep_files'?"
    assert (ran.code, ran.faults) == (2, [fault])


def test_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "geode.cli", "display=quiet"],
            cwd=tmp_path,
            env=clean_environ(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    for process in started:
        assert process.stderr is not None
        process.stderr.close()
    assert len(list(tmp_path.glob("outputs/*/*/result.json"))) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_clean_with_exit_code_130(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "slow.yaml"
    script.write_text("turns:\n  - {text: too late, delay_s: 60}\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "geode.cli", f"adapter.script={script}"],
        cwd=tmp_path,
        env=clean_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("round 1"):
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert out.splitlines()[-1].startswith("[user_cancelled: cancelled · ")
    (result,) = tmp_path.glob("outputs/*/*/result.json")
    assert json.loads(result.read_text())["termination_reason"] == "user_cancelled"


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "geode.cli", "--cfg", "job"],
        cwd=tmp_path,
        env=clean_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    process.wait(30)
    assert "Traceback" not in err


def test_version(geode: RunGeode) -> None:
    from geode import __version__

    assert geode("--version").out == f"geode {__version__}\n"


def test_hydra_gives_no_deprecation_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-m", "geode.cli", "display=quiet"],
        cwd=tmp_path,
        env=clean_environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert version_base() in ({}, {"version_base": "1.3"})


def test_nothing_is_asked_without_a_terminal_and_the_denial_is_named(tmp_path: Path, geode: RunGeode) -> None:
    script = tmp_path / "write.yaml"
    script.write_text(
        "turns:\n"
        "  - tool_calls: [{name: write_file, input: {path: a.txt, content: x}}]\n"
        "  - text: 'done: {{ results[-1].is_error }}'\n"
    )
    started = time.monotonic()
    ran = geode(f"adapter.script={script}", env={"TERM": "dumb"})
    assert time.monotonic() - started < 50
    assert ran.code == 0
    assert "done: True" in ran.out
    assert "write_file" in ran.err
    assert "denied" in ran.err
    assert os.sep not in json.loads((ran.run_dir() / "result.json").read_text())["notices"][0]["key"]


def test_a_console_that_knows_ascii_only_gets_escapes(geode: RunGeode) -> None:
    ran = geode(env={"PYTHONIOENCODING": "ascii"})
    assert ran.code == 0
    assert "[natural: the model finished \\xb7 4 rounds" in ran.out

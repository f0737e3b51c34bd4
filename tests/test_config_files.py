"""Files and folders of the user's that Hydra cannot use: one line each, exit code 2, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_kit import RunGeode

BROKEN = [
    (b"a: [1,\nb: {", "{file}:2:5: is no YAML: expected the node content, but found '<stream end>'"),
    (b"\tx: 1\n", "{file}:1:1: is no YAML: found character '\\t' that cannot start any token"),
    (b"\xff\xfe", "{file}: is no YAML: not UTF-8"),
]


@pytest.mark.parametrize("argv", [["budget=mine"], ["wire", "budget=mine"]])
@pytest.mark.parametrize(("content", "line"), BROKEN)
def test_a_choice_that_is_no_yaml(geode: RunGeode, tmp_path: Path, argv: list[str], content: bytes, line: str) -> None:
    file = tmp_path / "conf" / "budget" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    ran = geode(*argv, "--config-dir", str(tmp_path / "conf"))
    assert (ran.code, ran.out, ran.err) == (2, "", f"geode: {line.format(file=file)}\n")


def test_an_adapter_of_a_switch_rule_that_is_no_yaml(geode: RunGeode, tmp_path: Path) -> None:
    file = tmp_path / "conf" / "adapter" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\xff")
    ran = geode("--config-dir", str(tmp_path / "conf"), "switch.rules=[{adapter: mine, after_rounds: 1}]")
    assert (ran.code, ran.out, ran.faults) == (2, "", [f"{file}: is no YAML: not UTF-8"])


def test_a_script_that_is_not_utf8(geode: RunGeode, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_bytes(b"\xff")
    ran = geode("+provider=scripted", f"provider.script={tmp_path / 'script.yaml'}")
    reason = "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
    line = f"provider.script: {tmp_path / 'script.yaml'}: is no YAML: {reason}"
    assert (ran.code, ran.out, ran.faults) == (2, "", [line])


@pytest.mark.parametrize("argv", [["hydra.run.dir={there}/run"], ["-m", "hydra.sweep.dir={there}/run"]])
def test_a_folder_that_cannot_be_made(geode: RunGeode, tmp_path: Path, argv: list[str]) -> None:
    there = tmp_path / "file"
    there.write_text("no folder")
    ran = geode(*(word.format(there=there) for word in argv))
    line = f"geode: hydra.run.dir, hydra.sweep.dir: cannot write to {there}/run: Not a directory\n"
    assert (ran.code, ran.out, ran.err) == (2, "", line)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("max_rounds: ${", "mine/budget/x.yaml: cannot be composed: "),
        ("null: 1", "mine/budget/x.yaml: cannot be composed: "),
        ("defaults: [x]", "mine: cannot be composed: a defaults list, or an alias, that comes back to itself"),
        ("defaults: default", "mine: cannot be composed: Invalid defaults list in 'budget/x'"),
        ("defaults: {}", "mine: cannot be composed: Invalid defaults list in 'budget/x'"),
        ("defaults: [null]", "mine: cannot be composed: Unsupported type in defaults : NoneType"),
        ("defaults: [[a]]", "mine: cannot be composed: Unsupported type in defaults : ListConfig"),
        ("defaults: [{a: b, c: d}]", "mine: cannot be composed: In budget/x: Too many keys in default item"),
        ("defaults: &a [*a]", "mine/budget/x.yaml: cannot be composed: a defaults list, or an alias"),
    ],
)
def test_a_users_file_that_cannot_be_composed(geode: RunGeode, tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "mine" / "budget").mkdir(parents=True)
    (tmp_path / "mine" / "budget" / "x.yaml").write_text(text)
    ran = geode("--config-dir", "mine", "budget=x")
    assert ran.code == 2
    (line,) = ran.faults
    assert line.startswith(fault)
    assert line != fault or not fault.endswith(": ")

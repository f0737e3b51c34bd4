"""Sweeps: a table and a CSV at the end, one row for every job, whatever became of it."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path

import pytest
from cli_kit import Ran, RunGeode

HAS_JOBLIB = importlib.util.find_spec("joblib") is not None


def rows(ran: Ran) -> list[dict[str, str]]:
    (path,) = ran.folder.glob("multirun/*/*/summary.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def picked(ran: Ran, *columns: str) -> list[tuple[str, ...]]:
    return [tuple(row[column] for column in columns) for row in rows(ran)]


def test_a_sweep_ends_with_a_table_and_a_csv(geode: RunGeode) -> None:
    ran = geode("-m", "+adapter=scripted", "budget.max_rounds=1,2,5")
    assert ran.code == 0, ran.err
    assert picked(ran, "job", "overrides", "termination_reason", "rounds", "tool_calls", "folder") == [
        ("0", "adapter=scripted budget.max_rounds=1", "max_rounds", "1", "2", "0"),
        ("1", "adapter=scripted budget.max_rounds=2", "max_rounds", "2", "4", "1"),
        ("2", "adapter=scripted budget.max_rounds=5", "natural", "4", "5", "2"),
    ]
    lines = ran.out.splitlines()
    assert lines[0].split() == ["job", "overrides", "reason", "rounds", "calls", "tokens", "cost", "time"]
    assert lines[1].split()[:5] == ["0", "budget.max_rounds=1", "max_rounds", "1", "2"]
    assert lines[-1].startswith("[3 jobs, 3 ran to an end · ")


def test_a_recipe_brings_its_sweep_and_the_command_line_beats_it(geode: RunGeode) -> None:
    ran = geode("-m", "+recipe=budget-sweep", "budget.max_rounds=5,6")
    assert ran.code == 0, ran.err
    assert [words for (words,) in picked(ran, "overrides")] == [
        "budget.max_rounds=5 recipe=budget-sweep",
        "budget.max_rounds=6 recipe=budget-sweep",
    ]


def test_a_job_with_a_bad_config_is_a_row_and_stops_nobody(geode: RunGeode) -> None:
    ran = geode("-m", "budget.max_rounds=5,-2,6")
    assert ran.code == 1
    assert picked(ran, "termination_reason", "error") == [
        ("natural", ""),
        ("config error", "budget.max_rounds: given -2, allowed: a number >= 0"),
        ("natural", ""),
    ]
    assert "Traceback" not in ran.err


def test_a_sweep_of_bad_configs_alone_is_exit_code_2(geode: RunGeode) -> None:
    ran = geode("-m", "budget.max_rounds=-1,-2")
    assert ran.code == 2
    assert [reason for (reason,) in picked(ran, "termination_reason")] == ["config error", "config error"]


def test_a_choice_that_does_not_exist_stops_the_sweep_before_it_costs_anything(geode: RunGeode) -> None:
    ran = geode("-m", "display=quiet,livee")
    assert ran.code == 2
    assert ran.faults == ["display: given 'livee', allowed: auto, live, plain, quiet; did you mean 'live'?"]
    assert not list(ran.folder.glob("multirun/*/*/*/result.json"))


def test_recipes_and_adapters_can_be_swept(geode: RunGeode, tmp_path: Path) -> None:
    (tmp_path / "mine" / "recipe").mkdir(parents=True)
    for name, limit in (("one", 1), ("six", 6)):
        (tmp_path / "mine" / "recipe" / f"{name}.yaml").write_text(
            f"# @package _global_\ndefaults:\n  - override /adapter: scripted\nbudget: {{max_rounds: {limit}}}\n"
        )
    ran = geode("--config-dir", "mine", "-m", "+recipe=one,six")
    assert ran.code == 0, ran.err
    assert picked(ran, "overrides", "termination_reason") == [("recipe=one", "max_rounds"), ("recipe=six", "natural")]


@pytest.mark.joblib
@pytest.mark.skipif(not HAS_JOBLIB, reason="the extra joblib is not installed")
def test_the_joblib_launcher_gives_the_same_table(geode: RunGeode) -> None:
    ran = geode("-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "budget.max_rounds=1,5,-1", fresh=True)
    assert ran.code == 1, ran.err
    assert [reason for (reason,) in picked(ran, "termination_reason")] == ["max_rounds", "natural", "config error"]

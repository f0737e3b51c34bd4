"""Both spellings of every group, and everything that must pass through untouched."""

from __future__ import annotations

import pytest
import yaml
from cli_kit import RunGeode
from hydra.core.override_parser.overrides_parser import OverridesParser

from geode.compose import compose_config, compose_settings
from geode.config_errors import ConfigFault
from geode.groups import read_groups
from geode.overrides import choice_faults, normalise, read

GROUPS = read_groups()


def normal(*argv: str) -> list[str]:
    return normalise(read(argv), GROUPS)


@pytest.mark.parametrize("group", [name for name in GROUPS if name != "recipe"])
@pytest.mark.parametrize("sign", ["", "+", "++"])
def test_every_group_takes_every_spelling(group: str, sign: str) -> None:
    for choice in GROUPS[group].choices:
        assert normal(f"{sign}{group}={choice}") == [f"{group}={choice}"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["+recipe=a,b", "-m"], ["recipe=a,b", "-m"]),
        (["-m", "+adapter=scripted,replay"], ["-m", "adapter=scripted,replay"]),
        (["+adapter='glm-payg'"], ["adapter='glm-payg'"]),
        (["mcp=[time,filesystem]"], ["mcp=[time,filesystem]"]),
        (["~recipe"], ["~recipe"]),
        (["~adapter=scripted"], ["~adapter=scripted"]),
        (["budget.max_rounds=1,2,4"], ["++budget.max_rounds=1,2,4"]),
        (["+adapter.seed=1"], ["++adapter.seed=1"]),
        (["++adapter.seed=1"], ["++adapter.seed=1"]),
        (["adapter.headers.x-team=a=b"], ["++adapter.headers.x-team=a=b"]),
        (["+adapter={name: x}"], ["++adapter={name: x}"]),
        (["tool_choice={name: grep_files}"], ["++tool_choice={type: tool, name: grep_files}"]),
        (["tool_choice={type: any}"], ["++tool_choice={type: any}"]),
        (["+hydra.job.num=3"], ["+hydra.job.num=3"]),
        (["hydra/launcher=joblib"], ["hydra/launcher=joblib"]),
        (["+hydra/launcher=joblib"], ["+hydra/launcher=joblib"]),
        (["+adapter@other=scripted"], ["+adapter@other=scripted"]),
        (["+a/b=c"], ["+a/b=c"]),
        (["+a.b=c"], ["+a.b=c"]),
        (["-cn", "mine", "+adapter=x"], ["-cn", "mine", "+adapter=x"]),
        (["--config-name=mine", "+adapter=x"], ["--config-name=mine", "+adapter=x"]),
        (["--config-dir", "+adapter=odd", "+adapter=replay"], ["--config-dir", "+adapter=odd", "adapter=replay"]),
        (["--cfg", "job", "+adapter=replay"], ["--cfg", "job", "adapter=replay"]),
        (["--info", "+adapter=replay"], ["--info", "adapter=replay"]),
        (["--info", "searchpath", "+adapter=replay"], ["--info", "searchpath", "adapter=replay"]),
        (["task.prompt='a=b, c'"], ["++task.prompt='a=b, c'"]),
        (["task.prompt="], ["++task.prompt="]),
    ],
)
def test_spellings(given: list[str], expected: list[str]) -> None:
    assert normal(*given) == expected


def test_a_group_of_the_users_own_gets_the_plus_that_hydra_wants(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "team").mkdir()
    (folder / "team" / "red.yaml").write_text("budget: {max_rounds: 3}\n")
    groups = read_groups([folder])
    assert normalise(read(["team=red"]), groups) == ["+team=red"]
    assert normalise(read(["+team=red"]), groups) == ["+team=red"]


@pytest.mark.parametrize(
    "words",
    [
        ["adapter=glm-payg"],
        ["+adapter=glm-payg"],
        ["++adapter=glm-payg"],
        ["+recipe=budget-sweep", "adapter=glm-payg"],
        ["recipe=budget-sweep", "+adapter=glm-payg"],
        ["adapter=glm-payg", "+recipe=budget-sweep"],
    ],
)
def test_the_command_line_beats_the_recipe_in_every_order(words: list[str]) -> None:
    assert compose_settings(words).adapter.name == "glm-payg"


def test_a_recipe_picks_from_the_groups() -> None:
    settings = compose_settings(["+recipe=budget-sweep"])
    assert (settings.adapter.name, settings.safety.tiers.write) == ("scripted", "deny")


def test_keys_that_the_yaml_leaves_out_can_be_set_without_a_plus() -> None:
    settings = compose_settings(["adapter.seed=7", "tools.timeouts.run_bash=5", "adapter.headers.x-team=red"])
    assert settings.adapter.seed == 7
    assert settings.tools.timeouts == {"run_bash": 5}
    assert settings.adapter.headers == {"x-team": "red"}


def test_several_mcp_choices_at_once() -> None:
    assert sorted(compose_settings(["mcp=[time,filesystem]"]).mcp.servers) == ["filesystem", "time"]


def faults(*argv: str) -> list[str]:
    return list(choice_faults(read(argv), GROUPS))


def test_faults_of_the_command_line_come_all_at_once() -> None:
    assert faults("adapter=anthropic-pay", "budgte.max_rounds=1", "display=livee", "wire") == [
        "adapter: given 'anthropic-pay', allowed: anthropic-oauth, anthropic-payg, claude-cli, codex-cli, codex-oauth, "
        "glm-coding-plan, glm-payg, local, openai-compatible, openai-payg, replay, scripted; "
        "did you mean 'anthropic-payg'?",
        "budgte.max_rounds: unknown key, allowed: task, adapter, provider, tool_choice, toolset, tools, mcp, safety, "
        "recovery, budget, context, llm, pricing, response, switch, subagents, session, hooks, journal, display, "
        "recipe, wire, hydra; did you mean 'budget'?",
        "display: given 'livee', allowed: auto, live, plain, quiet; did you mean 'live'?",
        "wire: not an override, allowed: KEY=VALUE, e.g. adapter=scripted",
    ]


def test_sweeps_are_checked_choice_by_choice() -> None:
    assert faults("-m", "tool_choice=auto,nome") == [
        "tool_choice: given 'nome', allowed: any, auto, named, none, required; did you mean 'none'?"
    ]


def test_composition_raises_lines() -> None:
    with pytest.raises(ConfigFault) as caught:
        compose_config(["adapter=scriptd"])
    assert caught.value.lines == (
        "adapter: given 'scriptd', allowed: anthropic-oauth, anthropic-payg, claude-cli, codex-cli, codex-oauth, "
        "glm-coding-plan, glm-payg, local, openai-compatible, openai-payg, replay, scripted; did you mean 'scripted'?",
    )


def test_a_secret_on_the_command_line_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigFault) as caught:
        compose_config(["adapter.headers.authorization=hunter2hunter2"])
    assert caught.value.lines == (
        "adapter.headers.authorization: given what looks like a secret, allowed: the NAME of an environment variable "
        "(adapter.credential.env, mcp.servers.X.header_env)",
    )


@pytest.mark.parametrize(
    "text",
    [
        "Hello, world", "it's", "Why (really)?", "A=B?", "2024", "true", "[x]", "{a: b}", "two\nlines", "100 % #1!",
        'say "hi", {{ round }}', "back\\slash", "ends in \\", "it\\'s", "f(x)", "x: y", "plain words",
    ],
)  # fmt: skip
@pytest.mark.parametrize("sign", ["", "+", "++"])
def test_free_text_means_what_it_says(text: str, sign: str) -> None:
    (word,) = normal(f"{sign}task.prompt={text}")
    parsed = OverridesParser.create().parse_override(word)
    assert (parsed.key_or_group, parsed.value(), parsed.is_sweep_override()) == ("task.prompt", text, False)


def test_quoted_text_and_null_are_hydras() -> None:
    given = ["task.prompt=Why, then?", "task.status=null", 'task.system="it\'s"', "context.summary.prompt='a, b'"]
    config = compose_config(given)
    assert (config.task.prompt, config.task.status, config.task.system) == ("Why, then?", None, "it's")
    assert config.context.summary.prompt == "a, b"


def test_in_a_sweep_commas_part_values(geode: RunGeode) -> None:
    ran = geode("-m", "display=quiet", "task=question", "task.prompt=a,'b, c'", "task.system=What's (this)?")
    assert ran.code == 0, ran.err
    prompts = [
        yaml.safe_load(file.read_text())["task"] for file in ran.folder.glob("multirun/*/*/*/.hydra/config.yaml")
    ]
    assert sorted(p["prompt"] for p in prompts) == ["a", "b, c"]
    assert {p["system"] for p in prompts} == {"What's (this)?"}

"""Every fault of a config at once, one line each; every shipped choice loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from geode.compose import compose_config, compose_settings, settings_of
from geode.config_errors import ConfigFault
from geode.data import conf_dir
from geode.groups import read_groups
from geode.hooks import Event
from geode.runner import run_settings
from geode.settings import Settings, load

GROUPS = read_groups()
WANTED = {
    "adapter=openai-compatible": ["adapter.model=m", "adapter.base_url=http://127.0.0.1:1/v1"],
    "adapter=replay": ["adapter.journal=outputs/x"],
    "tool_choice=named": ["tool_choice.name=grep_files"],
    "mcp=http": ["mcp.servers.remote.url=http://127.0.0.1:1/mcp"],
    "session=shared": ["session.id=friday"],
    "task=question": ["task.prompt=Why?"],
    "task=chat": ["task.prompt=Why?"],
}


def lines(*argv: str) -> tuple[str, ...]:
    with pytest.raises(ConfigFault) as caught:
        compose_settings(argv)
    return caught.value.lines


ALONE = ("adapter", "hooks", "mcp", "switch", "recipe", "tool_choice", "toolset", "task")
"""Groups whose choices want keys, extras or servers, or do not go with every choice of another."""
OTHERS = [[f"{g.name}={c}" for c in g.choices] for g in GROUPS.values() if g.name not in ALONE]
TOGETHER = [tuple(choices[turn % len(choices)] for choices in OTHERS) for turn in range(max(map(len, OTHERS)))]


@pytest.mark.parametrize(
    "choices",
    [*((f"{name}={c}",) for name in ALONE for c in GROUPS[name].choices), *TOGETHER],
    ids=lambda choices: choices[0] if len(choices) == 1 else f"together {choices[0]}",
)
async def test_every_shipped_choice_loads_and_those_that_need_nothing_run(
    choices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = compose_settings([*choices, *(word for choice in choices for word in WANTED.get(choice, []))])
    assert isinstance(settings, Settings)
    if choices[0].partition("=")[0] in ("adapter", "hooks", "mcp", "switch"):
        return
    result = await run_settings(settings, tmp_path / "run")
    assert result.termination_reason == "natural", result.error
    made = choices not in (("tool_choice=none",), ("toolset=none",))
    assert made == ("The survey cannot be made" not in result.text)


def test_every_choice_is_among_those_that_load() -> None:
    assert {choice for choices in TOGETHER for choice in choices} == {c for choices in OTHERS for c in choices}
    assert set(ALONE) <= set(GROUPS)


@pytest.mark.parametrize("choice", list(WANTED))
def test_choices_that_want_a_value_say_which(choice: str) -> None:
    keys = [word.partition("=")[0] for word in WANTED[choice]]
    assert list(lines(choice)) == [f"{key}: given nothing, allowed: a value, e.g. {key}=VALUE" for key in keys]


def test_all_faults_at_once() -> None:
    assert lines(
        "budget.max_rounds=-1",
        "budget.max_roundz=3",
        "adapter.wire=mesages",
        "budget.cost_hard=maybe",
        "context.warning=nan",
        "adapter.stop=7",
        "response.schema=[1]",
        "safety.tiers.write=Ask",
    ) == (
        "adapter.wire: given 'mesages', allowed: messages, responses, chat, claude-cli, codex-cli, scripted, replay; "
        "did you mean 'messages'?",
        "adapter.stop: given 7, allowed: a list",
        "budget.max_rounds: given -1, allowed: a number >= 0",
        "budget.cost_hard: given 'maybe', allowed: true or false",
        "budget.max_roundz: unknown key, allowed: max_rounds, time_budget_s, session_s, handoff_s, cost_budget, "
        "cost_warning, cost_hard, cost_margin_tokens, token_budget, token_scope, wrap_up_rounds, wrap_up_s, "
        "wrap_up_max_tokens, overthinking; did you mean 'max_rounds'?",
        "safety.tiers.write: given 'Ask', allowed: allow, ask, deny; did you mean 'ask'?",
        "context.warning: given nan, allowed: a finite number",
        "response.schema: given [1], allowed: text",
        "response.schema: given [1], allowed: a mapping",
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["budget.max_rounds=3", "budget.wrap_up_rounds=3"],
            "budget.wrap_up_rounds: given 3, allowed: less than budget.max_rounds (3): "
            "wrap-up may not be the whole run",
        ),
        (
            ["budget.cost_hard=true"],
            "budget.cost_hard: given True, allowed: true only with a budget, e.g. budget.cost_budget=1.0",
        ),
        (["context.warning=0.95"], "context.warning: given 0.95, allowed: at most context.critical (0.9)"),
        (["llm.max_delay_s=0.5"], "llm.base_delay_s: given 1, allowed: at most llm.max_delay_s (0.5)"),
        (
            ["tool_choice=required", "toolset=none"],
            "tool_choice: given 'required', allowed: auto, none, since the toolset is empty (toolset=none)",
        ),
        (
            ["tool_choice.name=grep_files"],
            "tool_choice: name 'grep_files' goes with a named choice only, not with 'auto'",
        ),
        (
            ["tool_choice={type: tool}"],
            "tool_choice: a named tool choice needs a name: tool_choice=named tool_choice.name=TOOL",
        ),
        (
            ["session.id=x"],
            "session.dir: given nothing, allowed: a folder when session.id is set, e.g. session.dir=sessions",
        ),
        (
            ["safety.rules=[{tool: run_bash, arguments: {command: '('}, approval: deny}]"],
            "safety.rules.0.arguments.command: given '(', allowed: a regular expression "
            "(missing ), unterminated subpattern at position 0)",
        ),
        (
            ["recovery.alternatives={a: a}"],
            "recovery.alternatives.a: given 'a', allowed: another tool than itself",
        ),
        (
            ["adapter=claude-cli", "provider=scripted"],
            "provider: given 'scripted', allowed: live, since adapter 'claude-cli' sends no HTTP request of geode's",
        ),
        (
            ["switch.rules=[{adapter: glm-pay, on: llm_error}]"],
            "switch.rules.0.adapter: given 'glm-pay', allowed: anthropic-oauth, anthropic-payg, claude-cli, codex-cli, "
            "codex-oauth, glm-coding-plan, glm-payg, local, openai-compatible, openai-payg, replay, scripted; "
            "did you mean 'glm-payg'?",
        ),
        (
            ["switch.rules=[{adapter: glm-payg}]"],
            "switch.rules.0: a switch rule needs exactly one of after_rounds, cost_share and on",
        ),
        (
            ["subagents=default", "subagents.toolset=readonly"],
            "subagents.toolset: given 'readonly', allowed: all, files, none, read_only, shell, web; "
            "did you mean 'read_only'?",
        ),
        (
            ["hooks.observers=[{_target_: os.getcwd, events: [TOOL_EXEC_ENDD]}]"],
            f"hooks.observers.0.events: given 'TOOL_EXEC_ENDD', allowed: {', '.join(Event)}; "
            "did you mean 'TOOL_EXEC_ENDED'?",
        ),
        (
            ["task.prompt=${oc.env:NO_SUCH_VARIABLE}"],
            "task.prompt: given '${oc.env:NO_SUCH_VARIABLE}', which cannot be resolved: KeyError raised while "
            "resolving interpolation: \"Environment variable 'NO_SUCH_VARIABLE' not found\"",
        ),
        (
            ["adapter.base_url=api.example.com"],
            "adapter.base_url: given 'api.example.com', allowed: text that matches ^(https?://\\S+)?$",
        ),
        (
            ["adapter=anthropic-payg", "adapter.model=''"],
            "adapter.model: given nothing, allowed: a model's id, e.g. adapter.model=NAME",
        ),
    ],
)
def test_faults(words: list[str], line: str) -> None:
    assert lines(*words) == (line,)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("auto", ("auto", None)),
        ("any", ("any", None)),
        ("none", ("none", None)),
        ({"type": "required"}, ("required", None)),
        ({"name": "grep_files"}, ("tool", "grep_files")),
        ({"type": "function", "name": "grep_files"}, ("tool", "grep_files")),
        ({"type": "tool", "name": "grep_files"}, ("tool", "grep_files")),
        ({"function": {"name": "grep_files"}}, ("tool", "grep_files")),
        ({"type": "function", "function": {"name": "grep_files"}}, ("tool", "grep_files")),
    ],
)
def test_tool_choice_spellings(given: Any, expected: tuple[str, str | None]) -> None:
    choice = load({"task": {"prompt": "x"}, "adapter": _scripted(), "tool_choice": given}).tool_choice
    assert (choice.type, choice.name) == expected


@pytest.mark.parametrize(
    "word",
    ["tool_choice={name: calculate}", "tool_choice={function: {name: calculate}}", "+tool_choice={name: calculate}"],
)
def test_tool_choice_spellings_on_the_command_line(word: str) -> None:
    choice = compose_settings([word]).tool_choice
    assert (choice.type, choice.name) == ("tool", "calculate")


def test_an_unknown_word_names_the_nearest() -> None:
    with pytest.raises(ConfigFault) as caught:
        load({"task": {"prompt": "x"}, "adapter": _scripted(), "tool_choice": "requird"})
    assert caught.value.lines == (
        "tool_choice.type: given 'requird', allowed: auto, none, required, any, tool; did you mean 'required'?",
    )


def test_switch_and_subagents_bring_their_adapters_and_toolsets() -> None:
    settings = compose_settings(["switch=fallback", "subagents=default"])
    assert settings.adapters["anthropic-payg"].model == "claude-sonnet-5-5"
    assert "grep_files" in settings.toolsets["read_only"].include


def test_the_users_folder_extends_the_groups(tmp_path: Path) -> None:
    (tmp_path / "adapter").mkdir()
    mine = yaml.safe_load((conf_dir() / "adapter" / "glm-payg.yaml").read_text()) | {"name": "mine", "model": "m-1"}
    (tmp_path / "adapter" / "mine.yaml").write_text(yaml.safe_dump(mine))
    settings = compose_settings(["+adapter=mine", "--config-dir", str(tmp_path)])
    assert (settings.adapter.name, settings.adapter.model) == ("mine", "m-1")
    settings = compose_settings(
        ["--config-dir", str(tmp_path), "switch.rules=[{adapter: mine, after_rounds: 2}]"],
    )
    assert settings.adapters["mine"].model == "m-1"


@pytest.mark.parametrize(
    "value",
    ["sk-" + "ant-" + "x1" * 12, "ghp_" + "b2" * 12, "0123456789abcdef" * 2 + "." + "Ab" * 8],
)
def test_literal_secrets_in_files_are_refused(value: str) -> None:
    config = compose_config([])
    config.task.system = f"The key is {value}."
    with pytest.raises(ConfigFault) as caught:
        settings_of(config)
    assert caught.value.lines == (
        "task.system: given what looks like a secret, allowed: the NAME of an environment variable "
        "(adapter.credential.env, mcp.servers.X.header_env)",
    )
    assert value not in str(caught.value)


def test_the_shipped_yaml_says_what_the_code_defaults_to() -> None:
    """A key that a config leaves out means the same as the shipped default choice."""
    bare = Settings.model_validate({"task": {"prompt": "x"}, "adapter": _scripted()})
    composed = compose_settings([])
    for part in Settings.model_fields:
        if part not in ("task", "adapter", "tools"):
            assert getattr(composed, part) == getattr(bare, part), part
    assert composed.tools.model_copy(update={"core": ()}) == bare.tools


def test_secrets_stand_nowhere_in_the_shipped_config() -> None:
    urls = {
        "anthropic-payg": ("https://api.anthropic.com", ("ANTHROPIC_API_KEY",)),
        "anthropic-oauth": ("https://api.anthropic.com", ("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN")),
        "openai-payg": ("https://api.openai.com/v1", ("OPENAI_API_KEY",)),
        "codex-oauth": ("https://chatgpt.com/backend-api/codex", ()),
        "glm-payg": ("https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",)),
        "glm-coding-plan": ("https://api.z.ai/api/coding/paas/v4", ("ZAI_CODING_PLAN_API_KEY",)),
    }
    for name, (url, variables) in urls.items():
        adapter = compose_settings([f"adapter={name}"]).adapter
        assert (adapter.base_url, adapter.credential.env) == (url, variables)


def _scripted() -> dict[str, Any]:
    return {"name": "scripted", "wire": "scripted", "script": "config-survey"}

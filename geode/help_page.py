"""The `--help` page, made from a folder listing: no hydra, no YAML parser, so that it comes at once."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from geode.groups import read_groups

__all__ = ["COMMANDS", "help_page"]

COMMANDS: Mapping[str, tuple[str, str]] = {
    "wire": ("wire OVERRIDES", "print the exact HTTP requests that a config would send; no key, no network"),
    "replay": ("replay RUN_DIR OVERRIDES", "play a run's answers again, under another config"),
    "resume": ("resume RUN_DIR", "go on with a run that was interrupted"),
    "report": ("report DIR", "tables and an HTML page of one run or many"),
    "tools": ("tools OVERRIDES", "list the tools that a config gives the model"),
    "doctor": ("doctor", "check credentials, binaries and folders"),
}

_EXAMPLES = (
    ("geode", "the built-in task, scripted: no key, no network"),
    ("geode adapter=glm-payg +provider=scripted", "rehearse over an adapter's real requests"),
    ("geode adapter=anthropic-payg task=question task.workspace=. task.prompt='Which files matter most?'", ""),
    ("geode -m adapter=scripted budget.max_rounds=1,2,4", "a sweep, with a table at the end"),
    ("geode wire adapter=openai-payg tool_choice=named tool_choice.name=grep_files", ""),
)


def help_page(config_dirs: Sequence[str | Path] = (), width: int = 100) -> str:
    """The page as text. Choices of the user's own config folders are listed too."""
    lines = [
        "geode: runs one tool loop between a language model and tools; a config decides everything about it.",
        "",
        "usage: geode [OVERRIDES]            run",
        "       geode COMMAND [...]          something else:",
    ]
    lines += [f"         {usage:<27} {about}" for usage, about in COMMANDS.values()]
    lines += ["", "Groups (GROUP=CHOICE picks one; + before it is optional; * is the default):", ""]
    for group in read_groups(config_dirs).values():
        names = [f"{name}*" if name == group.default else name for name in group.choices]
        about = f"{group.name:<12} {group.about}" if group.about else group.name
        lines.append(f"  {about}".rstrip())
        lines += textwrap.wrap(" ".join(names), width, initial_indent=" " * 15, subsequent_indent=" " * 15,
                               break_on_hyphens=False, break_long_words=False)  # fmt: skip
    lines += ["", "Single values: GROUP.KEY=VALUE, e.g. budget.max_rounds=5 adapter.temperature=0", "", "Examples:", ""]
    for command, about in _EXAMPLES:
        lines.append(f"  {command}" + (f"   # {about}" if about else ""))
    lines += [
        "",
        "More: --cfg job prints the config of a run, --info its sources, --hydra-help Hydra's flags (-m for sweeps,",
        "      --config-dir DIR for groups of your own, --shell-completion). Every key: docs/config.md.",
        "Exit codes: 0 answered, 1 ended without an answer, 2 bad config, 130 cancelled.",
    ]
    return "\n".join(lines) + "\n"

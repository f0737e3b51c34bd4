"""The command line's overrides: both spellings of every group, and keys that the YAML leaves at their default.

Hydra wants `+` before what its primary config does not list, and refuses `+` before what it lists. Here both work:
`+adapter=glm-payg` and `adapter=glm-payg`, `adapter.seed=1` and `+adapter.seed=1`. Unknown keys are found by the
settings, which know every key, so keys of values go out as `++`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from geode.config_errors import nearest
from geode.groups import Group, top_level_keys

__all__ = ["CommandLine", "choice_faults", "normalise", "read", "spelled"]

_VALUE_FLAGS = {
    "--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd",
    "--experimental-rerun", "--info", "-i",
}  # fmt: skip
_OPTIONAL_VALUE = {"--info", "-i"}
_INFO = {"all", "config", "defaults", "defaults-tree", "plugins", "searchpath"}
_OVERRIDE = re.compile(r"^(?P<sign>\+\+|\+|~)?(?P<key>[^=+~{\[]+?)(?P<at>@[^=]*)?(?:=(?P<value>.*))?$", re.DOTALL)
_WORD = re.compile(r"^[\w./-]+$")
TEXT_KEYS = frozenset({"task.prompt", "task.system", "task.status", "context.summary.prompt"})
"""Keys of free text."""
_OWN_PRIMARY = {"--config-name", "-cn", "--config-path", "-cp"}


@dataclass(slots=True)
class CommandLine:
    """A command line, taken apart. `overrides` and `flags` hold positions in `argv`."""

    argv: list[str]
    overrides: list[int] = field(default_factory=list)
    flags: dict[str, str | None] = field(default_factory=dict)

    @property
    def config_dirs(self) -> list[str]:
        return [v for k, v in self.flags.items() if k in ("--config-dir", "-cd") and v]

    @property
    def own_primary(self) -> bool:
        """Another primary config than geode's: nothing is known of its groups."""
        return any(flag in self.flags for flag in _OWN_PRIMARY)

    @property
    def multirun(self) -> bool:
        return "-m" in self.flags or "--multirun" in self.flags

    @property
    def runs(self) -> bool:
        """The command line asks for a run, not for something printed."""
        shown = {
            "--cfg",
            "-c",
            "--help",
            "-h",
            "--hydra-help",
            "--version",
            "--info",
            "-i",
            "--shell-completion",
            "-sc",
        }
        return not shown & set(self.flags)


def read(argv: Sequence[str]) -> CommandLine:
    """Tells flags, their values and overrides apart, as Hydra's own parser does."""
    line = CommandLine(list(argv))
    position = 0
    while position < len(argv):
        word = argv[position]
        if word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            if equals and name in _VALUE_FLAGS:
                line.flags[name] = value
            elif name in _VALUE_FLAGS and position + 1 < len(argv):
                following = argv[position + 1]
                if name not in _OPTIONAL_VALUE or following in _INFO:
                    line.flags[name] = following
                    position += 1
                else:
                    line.flags[name] = None
            else:
                line.flags[name] = None
        else:
            line.overrides.append(position)
        position += 1
    return line


def normalise(line: CommandLine, groups: dict[str, Group]) -> list[str]:
    """The command line as Hydra takes it."""
    argv = list(line.argv)
    if line.own_primary:
        return argv
    for position in line.overrides:
        argv[position] = spelled(_quoted(argv[position], line.multirun), groups)
    return argv


def _quoted(word: str, multirun: bool) -> str:
    """Free text as Hydra takes it: `task.prompt=Why (really)?` means what it says. In a sweep, commas part values."""
    parts = _OVERRIDE.match(word)
    if not parts or parts["key"] not in TEXT_KEYS or not parts["value"] or parts["sign"] == "~":
        return word
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Quote, QuotedString
    from hydra.errors import HydraException

    key, value = parts["key"], parts["value"]
    try:
        override = OverridesParser.create().parse_override(f"{key}={value}")
        if multirun and override.is_sweep_override():
            return word
        plain = not override.is_sweep_override() and isinstance(override.value(), str | None)
    except HydraException:
        plain = False
    return word if plain else f"{parts['sign'] or ''}{key}={QuotedString(value, Quote.single).with_quotes()}"


def spelled(word: str, groups: dict[str, Group]) -> str:
    """An override with the sign that Hydra wants before it."""
    parts = _OVERRIDE.match(word)
    if not parts or parts["sign"] == "~" or parts["value"] is None:
        return word
    sign, key, at, value = parts["sign"] or "", parts["key"], parts["at"] or "", parts["value"]
    first = key.split(".")[0].split("/")[0]
    if first == "hydra" or at:
        return word
    group = groups.get(key)
    if key == "tool_choice" and value.startswith("{"):
        return f"++tool_choice={_named_choice(value)}"
    if group and not value.startswith("{"):
        listed = group.default is not None or key == "recipe"
        return f"{key}={value}" if listed else f"+{key}={value}"
    if group or ("." in key and first in top_level_keys(groups)):
        return f"++{key}={value}"
    return f"{sign}{key}={value}"


def _named_choice(value: str) -> str:
    """`{name: X}` and `{function: {name: X}}` say their type, since they are merged into the group's choice."""
    if re.search(r"[{,]\s*['\"]?type['\"]?\s*:", value) or value.strip() == "{}":
        return value
    return "{type: tool, " + value.lstrip()[1:]


def choice_faults(line: CommandLine, groups: dict[str, Group]) -> Iterator[str]:
    """One line for each override that names an unknown key, or a choice that its group does not have."""
    if line.own_primary:
        return
    keys = top_level_keys(groups)
    for position in line.overrides:
        parts = _OVERRIDE.match(line.argv[position])
        if not parts or (parts["value"] is None and parts["sign"] != "~"):
            yield f"{line.argv[position]}: not an override, allowed: KEY=VALUE, e.g. adapter=scripted"
            continue
        key, value = parts["key"], parts["value"] or ""
        first = re.split(r"[./]", key)[0]
        if first not in keys:
            yield f"{key}: unknown key, allowed: {', '.join(keys)}{nearest(first, keys)}"
        elif key in groups:
            known = groups[key].choices
            several = line.multirun or value.startswith("[")
            for word in value.strip("[]").split(",") if several else [value]:
                name = word.strip().strip("'\"").removesuffix(".yaml")
                if _WORD.match(name) and name not in known:
                    yield f"{key}: given {name!r}, allowed: {', '.join(known)}{nearest(name, known)}"

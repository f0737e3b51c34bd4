"""The config groups and their choices, read from folder listings: quick, and without hydra."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from geode.data import conf_dir, recipes_dir

__all__ = ["Group", "choices_of", "read_groups"]

_ENTRY = re.compile(r"^  - ([a-z_]+): *(\S+) *(?:# *(.*))?$")
_PLAIN_KEYS = ("wire",)


@dataclass(frozen=True, slots=True)
class Group:
    """A config group: its default choice, what it decides, and its choices by name."""

    name: str
    default: str | None
    about: str
    choices: tuple[str, ...]


def choices_of(group: str, config_dirs: Iterable[str | Path] = ()) -> tuple[str, ...]:
    """Names of the choices of a group, those of the user's own folders included."""
    folders = [conf_dir() / group, *(Path(d) / group for d in config_dirs)]
    if group == "recipe":
        folders[0] = recipes_dir()
    return tuple(sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")}))


def read_groups(config_dirs: Sequence[str | Path] = ()) -> dict[str, Group]:
    """The groups in the order of the primary config, then those that only the user's folders have."""
    groups: dict[str, Group] = {}
    for line in (conf_dir() / "config.yaml").read_text(encoding="utf-8").splitlines():
        entry = _ENTRY.match(line)
        if entry and entry[1] != "_self_":
            name, default, about = entry[1], entry[2], entry[3] or ""
            groups[name] = Group(name, None if default == "null" else default, about, choices_of(name, config_dirs))
    for folder in map(Path, config_dirs):
        if folder.is_dir():
            for child in sorted(folder.iterdir()):
                if child.is_dir() and child.name not in groups and any(child.glob("*.yaml")):
                    groups[child.name] = Group(child.name, None, "", choices_of(child.name, config_dirs))
    return groups


def top_level_keys(groups: Iterable[str]) -> list[str]:
    """What the first part of an override's key may be."""
    return [*groups, *_PLAIN_KEYS, "hydra"]

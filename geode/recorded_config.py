"""The settings of a recorded run, with overrides: what `geode resume` and `geode replay` run with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geode.config_errors import ConfigFault

if TYPE_CHECKING:
    from geode.settings import Settings

__all__ = ["given_keys", "recorded_settings", "run_folder"]


def run_folder(command: str, argv: Sequence[str], usage: str) -> tuple[Path, list[str]]:
    """The run's folder (or its journal) that a command line begins with, and the rest. Raises ConfigFault."""
    from geode.journal import JOURNAL_FILE

    first = argv[0] if argv else ""
    path = Path(first).expanduser()
    if not first or (not path.exists() and ("=" in first or first.startswith("-"))):
        raise ConfigFault([f"{command}: no folder given, allowed: geode {command} {usage}"])
    if path.name == JOURNAL_FILE and path.is_file():
        path = path.parent
    if not path.is_dir():
        raise ConfigFault([f"{command}: given {first!r}, allowed: the folder of a run"])
    return path.resolve(), list(argv[1:])


def given_keys(words: Sequence[str]) -> set[str]:
    """The keys that overrides name."""
    return {word.lstrip("+~").partition("=")[0] for word in words if not word.startswith("-")}


def recorded_settings(header: Mapping[str, Any], words: Sequence[str], run_dir: Path) -> Settings:
    """The settings in a journal's header with overrides in either spelling, checked like any others.

    A group's choice (`budget=tight`) replaces the whole group, as it does on the command line. A workspace that was
    given by a relative path is the folder that it was then, wherever this is called from. Raises ConfigFault.
    """
    from omegaconf import OmegaConf

    from geode import overrides
    from geode.compose import check_overrides, compose_config, settings_of
    from geode.groups import read_groups

    line = overrides.read(words)
    unknown = [flag for flag in line.flags if flag not in ("--config-dir", "-cd")]
    if unknown:
        raise ConfigFault([f"{unknown[0]}: unknown flag here, allowed: --config-dir, KEY=VALUE"])
    check_overrides(line)
    dirs = [*_config_dirs(run_dir), *line.config_dirs]
    groups = read_groups(dirs)
    faults = list(overrides.choice_faults(line, groups))
    faults += [f"{key}: not for a recorded run, allowed: KEY=VALUE, GROUP=CHOICE" for key in _refused(words)]
    if faults:
        raise ConfigFault(faults)
    recorded = {k: v for k, v in header["settings"].items() if k not in ("adapters", "toolsets")}
    if recorded.get("task", {}).get("workspace") is not None and header.get("workspace"):
        recorded["task"] = {**recorded["task"], "workspace": header["workspace"]}
    config = OmegaConf.create(recorded)
    normal = overrides.normalise(line, groups)
    parsed = _parse([normal[position] for position in line.overrides])
    for choice in (p for p in parsed if p.key_or_group in groups and isinstance(p.value(), str)):
        composed: Any = compose_config([choice.input_line], config_dirs=dirs)
        config[choice.key_or_group] = OmegaConf.create({choice.key_or_group: composed[choice.key_or_group]})[
            choice.key_or_group
        ]
    for value in (p for p in parsed if not (p.key_or_group in groups and isinstance(p.value(), str))):
        if value.is_delete():
            parent, _, key = value.key_or_group.rpartition(".")
            (OmegaConf.select(config, parent) if parent else config).pop(key, None)
        else:
            OmegaConf.update(config, value.key_or_group, value.value(), merge=True, force_add=True)
    return settings_of(config, dirs)


def _refused(words: Sequence[str]) -> list[str]:
    return sorted(key for key in given_keys(words) if key == "recipe" or key.split(".")[0] == "hydra")


def _parse(words: Sequence[str]) -> list[Any]:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_overrides(list(words))
    except HydraException as error:
        raise ConfigFault([" ".join(str(error).split())]) from error
    for override in parsed:
        if override.is_sweep_override():
            raise ConfigFault([f"{override.input_line}: a sweep is not for a recorded run, allowed: one value"])
    return list(parsed)


def _config_dirs(run_dir: Path) -> list[str]:
    """The user's own config folders with which the run was made, as far as they are still there."""
    from omegaconf import OmegaConf

    from geode.compose import config_dirs_of

    file = run_dir / ".hydra" / "hydra.yaml"
    if not file.is_file():
        return []
    try:
        found = config_dirs_of(OmegaConf.select(OmegaConf.load(file), "hydra"))
    except Exception:  # not of this Hydra's make: the run's own choices are in the journal anyway
        return []
    return [folder for folder in found if Path(folder).is_dir()]

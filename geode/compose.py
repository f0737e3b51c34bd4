"""Composes a config from the shipped groups and makes settings of it: where every command but `geode` itself starts.

`geode` composes through `hydra.main`; both ways share the override rules, the recipes and the faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geode.config_errors import ConfigFault, nearest, shown
from geode.data import conf_dir

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from geode.settings import Settings

__all__ = ["compose_config", "compose_settings", "composition_lines", "config_dirs_of", "settings_of", "version_base"]


def version_base() -> dict[str, str]:
    """Hydra's `version_base` argument: needed up to 1.3, gone from 1.4 on."""
    import hydra

    major, minor = (int(part) for part in hydra.__version__.split(".")[:2])
    return {"version_base": "1.3"} if (major, minor) < (1, 4) else {}


def config_dirs_of(hydra: Any) -> list[str]:
    """The user's own config folders of a composed `hydra` node (also of a run's .hydra/hydra.yaml)."""
    sources = hydra.runtime.config_sources or []
    own = ("command-line", "hydra.searchpath in main", "hydra.searchpath in command-line")
    return [str(source.path) for source in sources if source.schema == "file" and source.provider in own]


def compose_config(argv: Sequence[str], *, config_dirs: Iterable[str] = ()) -> DictConfig:
    """Composes overrides in either spelling (`--config-dir DIR` may stand among them). Raises ConfigFault."""
    from hydra import compose, initialize_config_dir

    from geode import overrides
    from geode.groups import read_groups
    from geode.recipes_source import register

    line = overrides.read(argv)
    unknown = [flag for flag in line.flags if flag not in ("--config-dir", "-cd", "--config-name", "-cn")]
    if unknown:
        raise ConfigFault([f"{unknown[0]}: unknown flag here, allowed: --config-dir, --config-name, KEY=VALUE"])
    config_dirs = [*config_dirs, *line.config_dirs]
    groups = read_groups(config_dirs)
    check_overrides(line)
    words = overrides.normalise(line, groups)
    given = [words[position] for position in line.overrides]
    name = line.flags.get("--config-name") or line.flags.get("-cn") or "config"
    register()
    if config_dirs:
        path = ",".join(f"file://{Path(d).resolve()}" for d in config_dirs)
        given.append(f"hydra.searchpath=[{path}]")
    try:
        with initialize_config_dir(str(conf_dir()), job_name="geode", **version_base()):
            return compose(name, overrides=given)
    except Exception as error:
        raise ConfigFault(composition_lines(error, line, groups)) from error


def compose_settings(argv: Sequence[str], *, config_dirs: Iterable[str] = ()) -> Settings:
    """`compose_config` and `settings_of` in one. Raises ConfigFault."""
    from geode import overrides

    dirs = [*config_dirs, *overrides.read(argv).config_dirs]
    return settings_of(compose_config(argv, config_dirs=config_dirs), dirs)


def settings_of(config: DictConfig, config_dirs: Iterable[str | Path] = ()) -> Settings:
    """Settings of a composed config, with the adapters and toolsets that it names elsewhere. Raises ConfigFault."""
    from omegaconf import OmegaConf

    from geode.settings import load

    raw: Any = OmegaConf.to_container(config, resolve=False)
    dirs, faults = list(config_dirs), []
    extra: dict[str, dict[str, Any]] = {"adapters": {}, "toolsets": {}}

    def attach(part: str, group: str, name: object, path: str) -> None:
        from geode.groups import choices_of

        known = choices_of(group, dirs)
        if name not in known:
            faults.append(f"{path}: given {shown(name)}, allowed: {', '.join(known)}{nearest(str(name), known)}")
        else:
            extra[part][str(name)] = _choice(group, str(name), dirs)

    rules = (raw.get("switch") or {}).get("rules") or []
    for index, rule in enumerate(rules if isinstance(rules, list) else []):
        if isinstance(rule, dict) and rule.get("adapter") is not None:
            attach("adapters", "adapter", rule["adapter"], f"switch.rules.{index}.adapter")
    nested = raw.get("subagents") or {}
    if isinstance(nested, dict) and nested.get("enabled"):
        attach("toolsets", "toolset", nested.get("toolset", "read_only"), "subagents.toolset")
    whole = OmegaConf.merge(OmegaConf.create(OmegaConf.to_container(config, resolve=False)), extra)
    try:
        settings = load(whole)  # type: ignore[arg-type]
    except ConfigFault as fault:
        raise ConfigFault([*fault.lines, *faults]) from None
    if faults:
        raise ConfigFault(faults)
    return settings


def _choice(group: str, name: str, config_dirs: Sequence[str | Path]) -> Any:
    """A choice's YAML, with the choices of its own group that its defaults list names."""
    from omegaconf import OmegaConf

    for folder in (conf_dir(), *map(Path, config_dirs)):
        file = folder / group / f"{name}.yaml"
        if file.is_file():
            break
    try:
        loaded: Any = OmegaConf.to_container(OmegaConf.load(file), resolve=False) or {}
    except Exception as error:
        if unread := _file_lines(error, config_dirs):
            raise ConfigFault(unread) from error
        raise
    bases = [entry for entry in loaded.pop("defaults", []) if isinstance(entry, str) and entry != "_self_"]
    parts = [OmegaConf.create(_choice(group, base, config_dirs)) for base in bases]
    return OmegaConf.to_container(OmegaConf.merge(*parts, OmegaConf.create(loaded)), resolve=False)


def check_overrides(line: Any) -> None:
    """Refuses overrides that hold a secret before Hydra writes them anywhere. Raises ConfigFault."""
    from geode.config_errors import secret_in

    words = (line.argv[position] for position in line.overrides)
    faults = [fault for word in words for fault in secret_in(*word.lstrip("+~").partition("=")[::2])]
    if faults:
        raise ConfigFault(faults)


def composition_lines(error: Exception, line: Any, groups: Any) -> list[str]:
    """Errors of composing as lines; what the command line itself shows to be wrong comes first.

    Raises `error` itself where it is no fault of the config's.
    """
    from hydra.errors import HydraException, MissingConfigException, OverrideParseException
    from omegaconf.errors import OmegaConfBaseException

    from geode import overrides

    faults = list(overrides.choice_faults(line, groups))
    if faults:
        return faults
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        options = list(error.options or ())
        allowed = f", allowed: {', '.join(options)}{nearest(name, options)}" if options else ", which does not exist"
        return [f"{group or 'config'}: given {name!r}{allowed}"]
    if unread := _file_lines(error, line.config_dirs):
        return unread
    named = isinstance(error, HydraException) and bool(str(error))  # such an error says what it is about
    if not str(error) and error.__cause__ is not None:
        error = error.__cause__ if isinstance(error.__cause__, Exception) else error
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, RecursionError):
        text = "a defaults list, or an alias, that comes back to itself"
    elif not isinstance(error, (HydraException, OmegaConfBaseException)) and not line.config_dirs:
        raise error
    if line.config_dirs and not named:
        return [f"{_unloadable(line.config_dirs) or ', '.join(line.config_dirs)}: cannot be composed: {text}"]
    if isinstance(error, OverrideParseException):
        given = (line.argv[position] for position in line.overrides)
        word = next((w for w in given if w.lstrip("+") == str(error.override).lstrip("+")), error.override)
        reason = text.partition(" See https://")[0]
        return [f"{word}: not an override, allowed: KEY=VALUE, e.g. adapter=scripted ({reason})"]
    if "Ambiguous value for argument" in text:
        sweeps = [line.argv[p] for p in line.overrides if "," in line.argv[p]]
        return [f"{word.partition('=')[0]}: given several values, allowed: one, or -m for a sweep" for word in sweeps]
    return [text]


def _file_lines(error: Exception, config_dirs: Sequence[str | Path]) -> list[str]:
    """An error of a file or folder that Hydra could not use as lines, or none where it is another error."""
    from yaml import MarkedYAMLError

    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f"{mark.name}:{mark.line + 1}:{mark.column + 1}" if mark else "config"
        return [f"{where}: is no YAML: {error.problem or error.context}"]
    if isinstance(error, UnicodeDecodeError):
        files = sorted(file for folder in config_dirs for file in Path(folder).rglob("*.yaml") if file.is_file())
        return [f"{file}: is no YAML: not UTF-8" for file in files if not _is_utf8(file)]
    if isinstance(error, OSError) and error.filename is not None:
        reason = error.strerror or type(error).__name__
        if str(error.filename).endswith(".yaml"):
            return [f"{error.filename}: cannot be read: {reason}"]
        return [f"hydra.run.dir, hydra.sweep.dir: cannot write to {error.filename}: {reason}"]
    return []


def _unloadable(config_dirs: Sequence[str]) -> Path | None:
    """The first file of these folders that is no config by itself."""
    from omegaconf import OmegaConf

    for file in sorted(file for folder in config_dirs for file in Path(folder).rglob("*.yaml") if file.is_file()):
        try:
            OmegaConf.load(file)
        except Exception:
            return file
    return None


def _is_utf8(file: Path) -> bool:
    try:
        file.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True

"""From a composed config to `Settings`: every fault at once, one line each."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from geode.config_errors import ConfigFault, nearest, secret_in, shown
from geode.settings import Settings

if TYPE_CHECKING:
    from omegaconf import DictConfig

__all__ = ["check", "secret_faults"]


def check(config: DictConfig | Mapping[str, Any]) -> Settings:
    """Resolves and validates `config`. Raises ConfigFault with a line per fault."""
    raw, literal, unresolved = _plain(config)
    faults = [*unresolved.values(), *secret_faults(literal)]
    missing = [path for path, value in _walk(raw) if value == "???"]
    faults += [f"{path}: given nothing, allowed: a value, e.g. {path}=VALUE" for path in missing]
    try:
        settings = Settings.model_validate({k: v for k, v in raw.items() if k not in ("hydra", "recipe")})
    except ValidationError as error:
        lines = [(_path(e["loc"]), _line(e, raw)) for e in error.errors(include_url=False)]
        told = [*missing, *unresolved]
        faults += [line for path, line in lines if not any(t == path or t.startswith(path + ".") for t in told)]
    else:
        faults += _cross(settings)
    if faults:
        raise ConfigFault(dict.fromkeys(faults))
    return settings


def secret_faults(raw: Mapping[str, Any]) -> list[str]:
    """Faults of values that look like secrets; the values themselves are not shown."""
    return [fault for path, value in _walk(raw) if isinstance(value, str) for fault in secret_in(path, value)]


def _plain(config: DictConfig | Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """The config resolved, and as written, with faults by path of what cannot be resolved."""
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if not isinstance(config, DictConfig):
        return dict(config), dict(config), {}
    literal: Any = OmegaConf.to_container(config, resolve=False)
    try:
        raw: Any = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException:
        faults = {}
        for path, value in list(_walk(literal)):
            if isinstance(value, str) and "${" in value:
                try:
                    OmegaConf.select(config, path)
                except OmegaConfBaseException as error:
                    reason = str(error).splitlines()[0]
                    faults[path] = f"{path}: given {shown(value)}, which cannot be resolved: {reason}"
        return literal, literal, faults
    return raw, literal, {}


def _walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves with their dotted paths, list items by index."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}.{index}")
    else:
        yield path, value


_ALLOWED = {
    "greater_than_equal": "a number >= {ge:g}",
    "greater_than": "a number > {gt:g}",
    "less_than_equal": "a number <= {le:g}",
    "less_than": "a number < {lt:g}",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_long": "text of at most {max_length} characters",
}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "finite": "a finite number",
}


def _path(loc: tuple[int | str, ...]) -> str:
    """A pydantic location as the config spells it: without the names of union branches and validators."""
    skip = re.compile(r"^(str|dict\[.*\]|function-.*|\[key\])$")
    return ".".join(str(part) for part in loc if not (isinstance(part, str) and skip.match(part)))


def _line(error: Any, raw: Any) -> str:
    path, kind, context, given = _path(error["loc"]), error["type"], error.get("ctx", {}), error["input"]
    parent, _, key = path.rpartition(".")
    if kind == "extra_forbidden":
        names = _fields(parent)
        return f"{path}: unknown key, allowed: {', '.join(names)}{nearest(key, names)}"
    if kind == "missing":
        return f"{path}: given nothing, allowed: a value, e.g. {path}=VALUE"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", context["expected"])
        return f"{path}: given {shown(given)}, allowed: {', '.join(words)}{nearest(str(given), words)}"
    if kind == "value_error":
        text = str(context["error"])
        return f"{path}.{text}" if re.match(r"\w+: given ", text) else f"{path}: {text}"
    if kind in _ALLOWED:
        allowed = _ALLOWED[kind].format(**context)
    else:
        stem = kind.split("_")[0]
        allowed = _TYPES.get(stem, error["msg"])
    return f"{path}: given {shown(given)}, allowed: {allowed}"


def _fields(path: str) -> list[str]:
    """Names of the keys that the model at a dotted path takes."""
    model: type[BaseModel] = Settings
    for part in filter(None, path.split(".")):
        field = model.model_fields.get(part)
        if field is None:
            continue  # a key of a mapping, or an index
        model = next(_models(field.annotation), model)
    return [field.alias or name for name, field in model.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for argument in typing.get_args(annotation):
        yield from _models(argument)


def _cross(settings: Settings) -> Iterator[str]:
    """Faults that lie between two parts."""
    budget, context, llm = settings.budget, settings.context, settings.llm
    if 0 < budget.max_rounds <= budget.wrap_up_rounds and budget.max_rounds > 1:
        yield (
            f"budget.wrap_up_rounds: given {budget.wrap_up_rounds}, allowed: less than budget.max_rounds "
            f"({budget.max_rounds}): wrap-up may not be the whole run"
        )
    if budget.cost_hard and not budget.cost_budget:
        yield "budget.cost_hard: given True, allowed: true only with a budget, e.g. budget.cost_budget=1.0"
    if context.warning > context.critical:
        yield (f"context.warning: given {context.warning:g}, allowed: at most context.critical ({context.critical:g})")
    if llm.base_delay_s > llm.max_delay_s:
        yield f"llm.base_delay_s: given {llm.base_delay_s:g}, allowed: at most llm.max_delay_s ({llm.max_delay_s:g})"
    if settings.tool_choice.type in ("required", "any", "tool") and not settings.toolset.include:
        given = settings.tool_choice.name or settings.tool_choice.type
        yield f"tool_choice: given {given!r}, allowed: auto, none, since the toolset is empty (toolset=none)"
    if any(rule.cost_share is not None for rule in settings.switch.rules) and not budget.cost_budget:
        yield "switch.rules: given cost_share, allowed: only with a budget, e.g. budget.cost_budget=1.0"
    if settings.session.id is not None and settings.session.dir is None:
        yield "session.dir: given nothing, allowed: a folder when session.id is set, e.g. session.dir=sessions"
    for index, rule in enumerate(settings.safety.rules):
        for name, pattern in rule.arguments.items():
            try:
                re.compile(pattern)
            except re.error as error:
                yield (
                    f"safety.rules.{index}.arguments.{name}: given {shown(pattern)}, allowed: a regular expression "
                    f"({error})"
                )
    names = list(settings.recovery.alternatives.items())
    yield from (
        f"recovery.alternatives.{a}: given {a!r}, allowed: another tool than itself" for a, b in names if a == b
    )
    if settings.provider.kind == "scripted" and settings.adapter.wire in ("claude-cli", "codex-cli", "replay"):
        yield (
            f"provider: given 'scripted', allowed: live, since adapter {settings.adapter.name!r} sends no HTTP request "
            "of geode's"
        )

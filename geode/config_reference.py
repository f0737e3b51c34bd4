"""Writes docs/config.md: every key of the config with its type, default and meaning, read from the settings.

`python -m geode.config_reference` prints it. Nothing else imports this module.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from geode.groups import read_groups
from geode.settings import Settings

__all__ = ["reference"]

_HEAD = """# Config reference

Every key that a config may hold, with its default. Set one on the command line (`geode budget.max_rounds=5`), or put
a file of your own into `DIR/GROUP/NAME.yaml` and pick it with `--config-dir DIR GROUP=NAME`. Times are in seconds,
sizes in bytes, limits in tokens and money in US dollars, unless the text says otherwise; a limit of 0 means that there
is none. This page is made from `geode/settings.py` by `python -m geode.config_reference > docs/config.md`.
"""


def reference() -> str:
    """The page as Markdown."""
    groups = read_groups()
    parts = [_HEAD]
    for name, field in Settings.model_fields.items():
        model = next(_models(field.annotation), None)
        if model is None or name in ("adapters", "toolsets"):
            continue
        group = groups.get(name)
        parts.append(f"## {name}\n")
        if group:
            choices = ", ".join(f"**{c}**" if c == group.default else c for c in group.choices)
            parts.append(f"{group.about[:1].upper()}{group.about[1:]}. Choices: {choices}.\n")
        text = _doc(model)
        if text:
            parts.append(text + "\n")
        parts.append("| key | type | default | meaning |\n| --- | --- | --- | --- |")
        parts += [" | ".join(("", *row, "")).strip() for row in _rows(model, name)]
        parts.append("")
    return "\n".join(parts)


def _rows(model: type[BaseModel], path: str) -> Iterator[tuple[str, str, str, str]]:
    for name, field in model.model_fields.items():
        key = f"{path}.{field.alias or name}"
        nested = next(_models(field.annotation), None)
        if nested is None:
            yield f"`{key}`", _type(field.annotation), _default(field), _cell(field.description)
            continue
        if _is_many(field.annotation):
            item = f"{key}.{'NAME' if _is_mapping(field.annotation) else 'N'}"
            yield f"`{key}`", _type(field.annotation), _default(field), _cell(field.description or _doc(nested))
            yield from _rows(nested, item)
        else:
            yield from _rows(nested, key)


def _doc(model: type[BaseModel]) -> str:
    own = model.__dict__.get("__doc__") or ""
    return " ".join(own.split())


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    value = field.default.model_dump() if isinstance(field.default, BaseModel) else field.default
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"`{text}`" if len(text) <= 60 else "(a text)"


def _type(annotation: Any) -> str:
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{word}`" for word in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if part is type(None) else _type(part) for part in arguments)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"mapping to {_type(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    words = {int: "whole number", float: "number", bool: "true or false", str: "text", Any: "any value"}
    return words.get(annotation, str(annotation))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for argument in typing.get_args(annotation):
        yield from _models(argument)


def _is_many(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (tuple, dict)


def _is_mapping(annotation: Any) -> bool:
    return typing.get_origin(annotation) is dict


if __name__ == "__main__":
    print(reference(), end="")

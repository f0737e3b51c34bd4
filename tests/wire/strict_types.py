"""The SDKs' parameter types as pydantic validators that look at everything: a check of bodies that shares no code with
`geode.provider.params`.

Validating with the TypedDicts as they stand checks little: Iterable fields are validated lazily and unknown keys pass.
Here each TypedDict is made anew with `list` for Iterable and Sequence, unknown keys forbidden, and Required taken from
the resolved hints (`__required_keys__` is wrong under postponed annotations). A type that contains itself is checked
to its first repetition.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from functools import cache
from typing import Any, Literal, get_args, get_origin

import typing_extensions
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

__all__ = ["faults"]

NOT_REQUIRED = {
    # Where nothing is stored, items go back without the ids and states that the types require.
    "ResponseReasoningItemParam": {"id"},
    "ResponseOutputMessageParam": {"id", "status"},
    "ResponseOutputTextParam": {"annotations"},
}
ADDED: dict[str, dict[str, Any]] = {
    # Z.ai's own keys, and the sampling keys of older Claude models.
    "ChatCompletionAssistantMessageParam": {"reasoning_content": str},
    "CompletionCreateParamsBase": {"thinking": dict[str, Any]},
    "MessageCreateParamsBase": {"temperature": float, "top_p": float},
}

_LISTS = (list, collections.abc.Iterable, collections.abc.Sequence)
_STRICT = ConfigDict(extra="forbid", strict=True)


class _Never:
    """Stands for what JSON cannot hold (files, SDK objects): taken out of unions."""


def faults(wire: str, body: Any) -> list[str]:
    """What is wrong with a parsed body, one line each; empty where it is right."""
    try:
        _adapter(wire).validate_python(body)
    except ValidationError as error:
        return [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_url=False)]
    return []


@cache
def _adapter(wire: str) -> TypeAdapter[Any]:
    if wire == "messages":
        from anthropic.types.message_create_params import MessageCreateParamsBase as Base
    elif wire == "responses":
        from openai.types.responses.response_create_params import (  # type: ignore[assignment]
            ResponseCreateParamsBase as Base,
        )
    else:
        from openai.types.chat.completion_create_params import (  # type: ignore[assignment]
            CompletionCreateParamsBase as Base,
        )
    made: Any = _Maker().record(Base, {"stream": bool})
    return TypeAdapter(made)


class _Maker:
    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}

    def of(self, hint: Any) -> Any:
        origin, arguments = get_origin(hint), get_args(hint)
        if typing_extensions.is_typeddict(hint):
            if hint not in self._made:
                self._made[hint] = dict[str, Any]  # what a type that contains itself finds
                self._made[hint] = self.record(hint)
            return self._made[hint]
        if origin in (typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired):
            return self.of(arguments[0])
        if origin in (typing.Required, typing.NotRequired):
            return self.of(arguments[0])
        if origin in (typing.Union, types.UnionType):
            members = [made for made in map(self.of, arguments) if made is not _Never]
            return typing.Union[tuple(members)] if members else _Never  # noqa: UP007
        if origin in _LISTS:
            return list[self.of(arguments[0])]  # type: ignore[misc]
        if origin in (dict, collections.abc.Mapping):
            return dict[str, self.of(arguments[1])]  # type: ignore[misc]
        if origin in (Literal, typing_extensions.Literal):
            return hint
        if hint in (str, int, float, bool, type(None)):
            return hint
        if hint in (object, Any):
            return Any
        if hint in (dict, list):
            return hint
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            return _Never
        return _Never

    def record(self, typed: Any, more: dict[str, Any] | None = None) -> Any:
        hints = typing_extensions.get_type_hints(typed, include_extras=True)
        optional, total = NOT_REQUIRED.get(typed.__name__, set()), _totality(typed)
        fields: dict[str, Any] = {}
        for key, hint in hints.items():
            made = self.of(hint)
            if made is _Never:
                continue
            origin = get_origin(hint)
            needed = total[key]
            if origin in (typing.Required, typing_extensions.Required):
                needed = True
            elif origin in (typing.NotRequired, typing_extensions.NotRequired):
                needed = False
            needed = needed and key not in optional
            fields[key] = typing_extensions.Required[made] if needed else typing_extensions.NotRequired[made]
        for key, hint in {**ADDED.get(typed.__name__, {}), **(more or {})}.items():
            fields[key] = typing_extensions.NotRequired[hint]
        rebuilt = typing_extensions.TypedDict(typed.__name__, fields, total=False)  # type: ignore[operator]
        rebuilt.__pydantic_config__ = _STRICT
        return rebuilt


def _totality(typed: Any) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for base in getattr(typed, "__orig_bases__", ()):
        if typing_extensions.is_typeddict(base):
            found |= _totality(base)
    return {key: found.get(key, typed.__total__) for key in typed.__annotations__}

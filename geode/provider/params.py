"""Request bodies against the SDKs' own parameter types, strictly.

The anthropic and openai packages publish each request as TypedDicts. Validating with them as they stand checks almost
nothing: their Iterable fields are not looked into and unknown keys pass. Here a body (parsed JSON) is walked along the
same types with lists for Iterable and Sequence, and with unknown keys refused. A union's problem is told for the member
that its `type` or `role` names, so that a text stays one line.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin

import typing_extensions
from typing_extensions import is_typeddict

__all__ = ["Wire", "problems"]

Wire = Literal["messages", "responses", "chat"]

_Check = Callable[[Any, str], list[str]]

_TAGS = ("type", "role")

OPTIONAL: Mapping[str, frozenset[str]] = {
    # Items that are not stored (store: false) go back without the ids and states that the types require.
    "ResponseReasoningItemParam": frozenset({"id"}),
    "ResponseOutputMessageParam": frozenset({"id", "status"}),
    "ResponseOutputTextParam": frozenset({"annotations"}),
}
"""Keys that the types require and the provider does not."""

_GLM_THINKING = {"type": Literal["enabled", "disabled"], "clear_thinking": bool}

VENDOR: Mapping[str, Mapping[str, Any]] = {
    # Z.ai and other servers that speak Chat Completions with keys of their own.
    "ChatCompletionAssistantMessageParam": {
        "reasoning_content": str,
        "reasoning": str,
        "reasoning_details": list[dict[str, Any]],
    },
    "CompletionCreateParamsBase": {
        "thinking": _GLM_THINKING,
        "do_sample": bool,
        "tool_stream": bool,
        "request_id": str,
        "user_id": str,
        "chat_template_kwargs": dict[str, Any],
        "top_k": int,
        "min_p": float,
        "repetition_penalty": float,
    },
    # Taken by models before Claude Opus 4.7; the SDK's types have dropped them.
    "MessageCreateParamsBase": {"temperature": float, "top_p": float, "top_k": int},
}
"""Keys that are in common use and not in the types."""


def problems(wire: Wire, body: Any, *, vendor: bool = True, beta: bool = False) -> list[str]:
    """What is wrong with a parsed request body, one line each, with a JSON path; empty where it is right.

    vendor: keys that other servers add to Chat Completions (reasoning_content, thinking) are accepted.
    beta: the Messages types of the beta API (`?beta=true`, or an `anthropic-beta` header) are taken.
    """
    return _root(wire, vendor, beta)(body, "")


@cache
def _root(wire: Wire, vendor: bool, beta: bool) -> _Check:
    return _Types(vendor).of(_params(wire, beta))


def _params(wire: Wire, beta: bool) -> Any:
    """The TypedDicts of a request. The names are looked up by module, so that only the wire's SDK is imported."""
    import importlib

    module, name = {
        "messages": ("anthropic.types.message_create_params", "MessageCreateParams"),
        "responses": ("openai.types.responses.response_create_params", "ResponseCreateParams"),
        "chat": ("openai.types.chat.completion_create_params", "CompletionCreateParams"),
    }[wire]
    if beta and wire == "messages":
        module = "anthropic.types.beta.message_create_params"
    found = importlib.import_module(module)
    base = getattr(found, f"{name}Base")
    return _Request(base, f"{name}Base", frozenset({"betas"}))


class _Request:
    """A request's base type with `stream`, which the types split into two classes; `headers` are no body keys."""

    def __init__(self, base: Any, name: str, headers: frozenset[str]) -> None:
        self.base, self.name, self.headers = base, name, headers


class _Types:
    """Makes a check of each type, once."""

    def __init__(self, vendor: bool) -> None:
        self._vendor = vendor
        self._made: dict[Any, _Check] = {}

    def of(self, hint: Any) -> _Check:
        try:
            known = self._made.get(hint)
        except TypeError:
            return self._make(hint)
        if known is None:
            # A recursive type finds this entry while it is still being made.
            self._made[hint] = lambda value, path: self._made[hint](value, path)
            known = self._made[hint] = self._make(hint)
        return known

    def _make(self, hint: Any) -> _Check:
        if isinstance(hint, _Request):
            return self._record(_fields(hint.base) | {"stream": (bool, False)}, hint.name, hint.headers)
        if isinstance(hint, dict):
            return self._record({key: (value, key == "type") for key, value in hint.items()}, "", frozenset())
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in _WRAPPERS:
            return self.of(arguments[0])
        if is_typeddict(hint):
            return self._record(_fields(hint), hint.__name__, frozenset())
        if origin in _UNIONS:
            return self._union(arguments)
        if origin in _LITERALS:
            return _literal(arguments)
        if origin in _LISTS:
            return self._list(self.of(arguments[0]))
        if origin in (dict, collections.abc.Mapping):
            return self._mapping(self.of(arguments[1]))
        return _plain(hint)

    def _record(self, fields: Mapping[str, tuple[Any, bool]], name: str, dropped: frozenset[str]) -> _Check:
        optional = OPTIONAL.get(name, frozenset())
        checks = {key: self.of(hint) for key, (hint, _) in fields.items() if key not in dropped}
        required = [key for key, (_, needed) in fields.items() if needed and key not in optional]
        if self._vendor:
            checks |= {key: self.of(hint) for key, hint in VENDOR.get(name, {}).items()}

        def check(value: Any, path: str) -> list[str]:
            if not isinstance(value, dict):
                return [f"{path or '$'}: must be an object, not {_kind(value)}"]
            found = [f"{_at(path, key)}: required key is missing" for key in required if key not in value]
            for key, item in value.items():
                inner = checks.get(key)
                if inner is None:
                    found.append(f"{_at(path, key)}: unknown key")
                else:
                    found += inner(item, _at(path, key))
            return found

        check.__dict__["tags"] = {tag: _words(fields[tag][0]) for tag in _TAGS if tag in fields}
        return check

    def _list(self, item: _Check) -> _Check:
        def check(value: Any, path: str) -> list[str]:
            if not isinstance(value, list):
                return [f"{path}: must be an array, not {_kind(value)}"]
            return [problem for i, member in enumerate(value) for problem in item(member, f"{path}[{i}]")]

        return check

    def _mapping(self, item: _Check) -> _Check:
        def check(value: Any, path: str) -> list[str]:
            if not isinstance(value, dict):
                return [f"{path}: must be an object, not {_kind(value)}"]
            return [problem for key, member in value.items() for problem in item(member, _at(path, key))]

        return check

    def _union(self, arguments: tuple[Any, ...]) -> _Check:
        members = [self.of(a) for a in arguments]

        def check(value: Any, path: str) -> list[str]:
            best: tuple[int, int, list[str]] | None = None
            wanted: dict[str, None] = {}
            for member in members:
                tags: dict[str, frozenset[Any]] = getattr(member, "tags", {})
                if isinstance(value, dict) and any(value[t] not in w for t, w in tags.items() if w and t in value):
                    continue
                found = member(value, path)
                if not found:
                    return found
                whole = found[0].partition(f"{path}: must be ")[2]
                if whole:
                    wanted[whole.rpartition(", not ")[0]] = None
                    continue
                rank = (len(found), sum(map(len, tags.values())), found)
                if best is None or rank[:2] < best[:2]:
                    best = rank
            if best is not None:
                return best[2]
            if isinstance(value, dict):
                for tag in _TAGS:
                    words = {str(w) for m in members for w in getattr(m, "tags", {}).get(tag, ())}
                    if words and tag in value and value[tag] not in words:
                        return [f"{_at(path, tag)}: {value[tag]!r} is not one of {', '.join(sorted(words))}"]
            if wanted:
                return [f"{path}: must be {' or '.join(wanted)}, not {_kind(value)}"]
            return [f"{path}: {_given(value)} fits none of the allowed forms"]

        return check


_REQUIRED: tuple[Any, ...] = (typing.Required, typing_extensions.Required)
_NOT_REQUIRED: tuple[Any, ...] = (typing.NotRequired, typing_extensions.NotRequired)
_WRAPPERS: tuple[Any, ...] = (typing.Annotated, *_REQUIRED, *_NOT_REQUIRED)
_UNIONS: tuple[Any, ...] = (typing.Union, types.UnionType)
_LITERALS: tuple[Any, ...] = (Literal, typing_extensions.Literal)
_LISTS: tuple[Any, ...] = (
    list,
    collections.abc.Iterable,
    collections.abc.Sequence,
    collections.abc.Collection,
)


def _words(hint: Any) -> frozenset[Any]:
    """The words of a Literal, through Required and Annotated."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in _LITERALS:
        return frozenset(arguments)
    if origin in _UNIONS:
        return frozenset(word for a in arguments for word in _words(a))
    return _words(arguments[0]) if arguments and origin not in (list, dict) else frozenset()


def _fields(typed: Any) -> dict[str, tuple[Any, bool]]:
    """(type, required) of each key. `__required_keys__` is wrong under postponed annotations, so Required is looked for
    in the resolved hints; a key without one is required where the class that declares it is total."""
    hints = typing_extensions.get_type_hints(typed, include_extras=True)
    total = _totality(typed)
    fields = {}
    for key, hint in hints.items():
        origin = get_origin(hint)
        required = total[key]
        if origin in _REQUIRED:
            required = True
        elif origin in _NOT_REQUIRED:
            required = False
        fields[key] = (hint, required)
    return fields


def _totality(typed: Any) -> dict[str, bool]:
    inherited: dict[str, bool] = {}
    for base in getattr(typed, "__orig_bases__", ()):
        if is_typeddict(base):
            inherited |= _totality(base)
    return {key: inherited.get(key, typed.__total__) for key in typed.__annotations__}


def _literal(words: tuple[Any, ...]) -> _Check:
    shown = ", ".join(map(str, words))

    def check(value: Any, path: str) -> list[str]:
        if any(value == word and type(value) is type(word) for word in words):
            return []
        if isinstance(value, (dict, list)):
            return [f"{path}: must be one of {shown}, not {_kind(value)}"]
        return [f"{path}: {_given(value)} is not one of {shown}"]

    return check


def _plain(hint: Any) -> _Check:
    wanted: dict[Any, tuple[str, Callable[[Any], bool]]] = {
        str: ("a string", lambda v: isinstance(v, str)),
        bool: ("true or false", lambda v: isinstance(v, bool)),
        int: ("an integer", lambda v: isinstance(v, int) and not isinstance(v, bool)),
        float: ("a number", lambda v: isinstance(v, (int, float)) and not isinstance(v, bool)),
        type(None): ("null", lambda v: v is None),
        dict: ("an object", lambda v: isinstance(v, dict)),
        list: ("an array", lambda v: isinstance(v, list)),
    }
    if hint in (object, Any):
        return lambda _value, _path: []
    name, holds = wanted.get(hint, ("", lambda _v: False))

    def check(value: Any, path: str) -> list[str]:
        return [] if holds(value) else [f"{path}: must be {name or 'of another kind'}, not {_kind(value)}"]

    return check


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else str(key)


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    names = {str: "a string", int: "an integer", float: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def _given(value: Any) -> str:
    return repr(value) if isinstance(value, (str, int, float)) else _kind(value)

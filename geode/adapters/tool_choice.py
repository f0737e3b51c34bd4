"""Tool choice: the spellings that a config may use, and what each wire takes for them.

The wire forms are those of the providers' API references: Messages `tool_choice` (auto, any, tool, none), Responses
`tool_choice` (auto, none, required, a flat function) and Chat Completions `tool_choice` (the same, nested function).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from geode.contract import Capabilities, Notice, NoticeSink, ToolChoice

__all__ = ["OnUnsupported", "ToolChoiceError", "ToolChoiceWire", "parse", "resolve", "to_wire"]

ToolChoiceWire = Literal["messages", "responses", "chat"]
OnUnsupported = Literal["send", "degrade", "error"]

_WORDS: Mapping[str, ToolChoice] = {
    "auto": ToolChoice("auto"),
    "none": ToolChoice("none"),
    "required": ToolChoice("required"),
    "any": ToolChoice("required"),
}
_NAMED = ("tool", "function")
_KEYS = ("type", "name", "function")
_ALLOWED = "auto, none, required, any, or a tool as {type: tool, name: NAME}"


class ToolChoiceError(ValueError):
    """A tool choice that the config may not make. `str()` is one line: path, what was given, what is allowed.

    path: the config key; given: the value; allowed: what may stand there; nearest: the nearest right value, "" if none.
    """

    def __init__(self, path: str, given: Any, problem: str, allowed: str, nearest: str = "") -> None:
        self.path = path
        self.given = given
        self.allowed = allowed
        self.nearest = nearest
        hint = f"; nearest: {nearest}" if nearest else ""
        super().__init__(f"{path}: {_show(given)} {problem}; allowed: {allowed}{hint}")


def parse(value: Any, tool_names: Collection[str]) -> ToolChoice:
    """Reads a tool choice as a config spells it, and checks it against the configured toolset.

    value: a word (`auto`, `none`, `required`, `any`), `{type: WORD}`, or a named choice: `{type: tool|function, name:
    X}`, `{name: X}`, `{function: {name: X}}`. A key that is null counts as absent. tool_names: the toolset's own names.
    Raises ToolChoiceError.
    """
    if isinstance(value, ToolChoice):
        value = {"type": value.type, "name": value.name}
    if isinstance(value, str):
        choice = _word("tool_choice", value, tool_names)
    elif isinstance(value, Mapping):
        choice = _mapping(value, tool_names)
    else:
        raise ToolChoiceError("tool_choice", value, "is no tool choice", _ALLOWED)
    if choice.type == "tool" and choice.name not in tool_names:
        allowed = ", ".join(sorted(tool_names)) or "none, since the toolset is empty"
        raise ToolChoiceError(
            "tool_choice.name",
            choice.name,
            "is not in the configured toolset",
            allowed,
            _nearest(choice.name or "", tool_names),
        )
    if choice.forced and not tool_names:
        raise ToolChoiceError("tool_choice", choice.type, "forces a call, but the toolset is empty", "auto, none")
    return choice


def _word(path: str, word: str, tool_names: Collection[str]) -> ToolChoice:
    if word in _WORDS:
        return _WORDS[word]
    if word in (*_NAMED, "named") and path == "tool_choice":
        raise ToolChoiceError(path, word, "needs a name", "a tool as {type: tool, name: NAME}")
    if word in tool_names:
        raise ToolChoiceError(path, word, "is a tool's name, not a word", _ALLOWED, f"{{type: tool, name: {word}}}")
    raise ToolChoiceError(
        path,
        word,
        "is no tool choice",
        _ALLOWED,
        "tool" if word == "named" else _nearest(word.lower(), (*_WORDS, "tool")),
    )


def _mapping(value: Mapping[Any, Any], tool_names: Collection[str]) -> ToolChoice:
    given = {key: item for key, item in value.items() if item is not None}
    for key in given:
        if key not in _KEYS:
            raise ToolChoiceError(
                "tool_choice", key, "is no key of a tool choice", ", ".join(_KEYS), _nearest(str(key), _KEYS)
            )
    kind, name, function = given.get("type"), given.get("name"), given.get("function")
    if function is not None:
        inner = {k: v for k, v in function.items() if v is not None} if isinstance(function, Mapping) else None
        if name is not None or inner is None or set(inner) - {"name"}:
            raise ToolChoiceError("tool_choice.function", function, "is no named choice", "{function: {name: NAME}}")
        if kind not in (None, "function"):
            raise ToolChoiceError("tool_choice.type", kind, "does not go with function", "function, or no type")
        kind, name = "function", inner.get("name")
    if kind is None:
        kind = "tool" if name is not None else None
    if not isinstance(kind, str):
        raise ToolChoiceError("tool_choice", dict(value), "is no tool choice", _ALLOWED)
    if kind not in _NAMED:
        choice = _word("tool_choice.type", kind, tool_names)
        if name is not None:
            raise ToolChoiceError(
                "tool_choice.name", name, f"does not go with type {kind}", "no name, or type tool", "tool_choice=named"
            )
        return choice
    if name is None or name == "":
        known = ", ".join(sorted(tool_names)) or "none, since the toolset is empty"
        raise ToolChoiceError("tool_choice.name", name, f"is missing: type {kind} needs a name", known)
    if not isinstance(name, str):
        raise ToolChoiceError("tool_choice.name", name, "is no tool's name", ", ".join(sorted(tool_names)))
    return ToolChoice("tool", name)


def to_wire(choice: ToolChoice, wire: ToolChoiceWire, alias: Callable[[str], str] = str) -> Any:
    """The value of the request's `tool_choice`. alias: a tool's own name to its name on the wire."""
    if choice.type == "tool":
        name = alias(choice.name or "")
        if wire == "messages":
            return {"type": "tool", "name": name}
        if wire == "responses":
            return {"type": "function", "name": name}
        return {"type": "function", "function": {"name": name}}
    if wire == "messages":
        return {"type": "any" if choice.type == "required" else choice.type}
    return choice.type


def resolve(
    choice: ToolChoice,
    capabilities: Capabilities,
    on_unsupported: OnUnsupported,
    notify: NoticeSink,
    adapter: str = "",
) -> tuple[ToolChoice, frozenset[str] | None]:
    """What to send where the backend declares fewer choices than the wire has: (choice, tools to narrow to).

    `send` sends it all the same, with a notice; `degrade` makes it auto, the tools narrowed to the named one (to none
    of them for `none`); `error` raises ToolChoiceError. The second value is None where the tools stay whole.
    """
    accepted = {"required" if word == "any" else word for word in capabilities.tool_choices}
    if choice.type == "auto" or choice.type in accepted:
        return choice, None
    backend = f"the backend of {adapter}" if adapter else "the backend"
    spelled = f"tool {choice.name}" if choice.type == "tool" else choice.type
    if on_unsupported == "error":
        raise ToolChoiceError(
            "tool_choice",
            spelled,
            f"is not taken by {backend}",
            ", ".join(sorted(accepted | {"auto"})),
            "tool_choice.on_unsupported=degrade",
        )
    key = f"tool_choice.unsupported.{choice.type}"
    if on_unsupported == "send":
        text = f"tool_choice {spelled} is sent although {backend} declares that it does not take it"
        notify(Notice(key, text, "tool_choice.on_unsupported=degrade"))
        return choice, None
    allowed: frozenset[str] | None = None
    how = "auto"
    if choice.type == "tool":
        allowed, how = frozenset({choice.name or ""}), f"auto with {choice.name} as the only tool"
    elif choice.type == "none":
        allowed, how = frozenset(), "auto without tools"
    text = f"tool_choice {spelled} is not taken by {backend}: sent as {how}"
    notify(Notice(key, text, "tool_choice.on_unsupported=send"))
    return ToolChoice("auto"), allowed


def _nearest(word: str, known: Collection[str]) -> str:
    found = difflib.get_close_matches(word, sorted(known), n=1)
    return found[0] if found else ""


def _show(value: Any) -> str:
    return "null" if value is None else repr(value)

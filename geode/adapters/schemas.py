"""Tool schemas and response schemas in the dialect of each wire.

`for_messages`, `for_responses` and `for_chat` make a tool's `input_schema` sendable, `for_output_*` a
`response_schema`. Each gives a `Sendable`, whose notes say what was changed, or an `Unsendable` with the reason; none
raises, and none changes what it is given. They are pure: the same schema gives the same bytes.

What is sent guides the model; the contract stays the original schema, which geode checks arguments and answers
against. So a rule that a wire cannot carry is not lost, it is checked later.

- The root is one object (see `schema_fold`); a root that admits no object is wrapped under the property `value`.
- References are written out. A recursive one is kept as `$ref` into `$defs` on Messages and Responses, which take
  it; on Chat Completions, whose many backends differ, its inner use accepts anything of its type.
- Messages: property names outside ^[a-zA-Z0-9_.-]{1,64}$ get aliases (`undo` gives the own names back).
- Responses and Chat Completions: each array schema has `items`, as OpenAI demands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from geode.adapters import schema_fold
from geode.adapters.schema_names import alias_names, rename
from geode.adapters.schema_output import anthropic_output, close_objects, qualifies_strict
from geode.adapters.schema_plain import CannotSend, Notes, plain
from geode.adapters.schema_refs import drop_dangling, resolve_refs
from geode.adapters.schema_repair import arrays_have_items, repair
from geode.schema_kinds import WRAPPER

__all__ = [
    "Sendable",
    "Unsendable",
    "for_chat",
    "for_messages",
    "for_output_chat",
    "for_output_messages",
    "for_output_responses",
    "for_responses",
    "qualifies_strict",
    "redo",
    "undo",
    "undo_text",
]

MAX_CHARS = 1_000_000
"""Longest schema, as JSON text, that is sent: beyond any model's use of it."""


@dataclass(frozen=True, slots=True)
class Sendable:
    """A schema that the wire takes.

    notes: what was changed, one sentence each. renames: {property name on the wire: own name}. wrapped: the property
    under which the own value stands where the own root is no object, else None.
    """

    schema: dict[str, Any]
    notes: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    wrapped: str | None = None


@dataclass(frozen=True, slots=True)
class Unsendable:
    """A schema that cannot be sent, and why: a clause that follows "the schema of X cannot be sent: "."""

    reason: str


Dialect = Literal["messages", "responses", "chat"]


def for_messages(schema: Any) -> Sendable | Unsendable:
    """`input_schema` of a Messages API tool."""
    return _convert(schema, "messages")


def for_responses(schema: Any) -> Sendable | Unsendable:
    """`parameters` of a Responses API function tool."""
    return _convert(schema, "responses")


def for_chat(schema: Any) -> Sendable | Unsendable:
    """`parameters` of a Chat Completions function tool."""
    return _convert(schema, "chat")


def for_output_messages(schema: Any) -> Sendable | Unsendable:
    """`output_config.format.schema` on Messages: every object closed, limits that its grammar lacks in words."""
    return _convert(schema, "messages", output=True)


def for_output_responses(schema: Any) -> Sendable | Unsendable:
    """`text.format.schema` on Responses. `qualifies_strict(result.schema)` says whether `strict: true` may go."""
    return _convert(schema, "responses", output=True)


def for_output_chat(schema: Any) -> Sendable | Unsendable:
    """`response_format.json_schema.schema` on Chat Completions."""
    return _convert(schema, "chat", output=True)


def undo(renames: Mapping[str, str], value: Any, wrapped: str | None = None) -> Any:
    """What the model sent under the wire's schema, as the own schema has it: own names, no wrapper."""
    if wrapped is not None and isinstance(value, Mapping) and set(value) == {wrapped}:
        value = value[wrapped]
    return rename(renames, value)


def redo(renames: Mapping[str, str], value: Any, wrapped: str | None = None) -> Any:
    """The inverse of `undo`, for replaying a call in the wire's names."""
    value = rename({own: alias for alias, own in renames.items()}, value)
    return value if wrapped is None or (isinstance(value, Mapping) and set(value) == {wrapped}) else {wrapped: value}


def undo_text(sent: Sendable, text: str) -> str:
    """A structured answer's text in own names and without the wrapper; unchanged where that changes nothing."""
    if not sent.renames and sent.wrapped is None:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(undo(sent.renames, value, sent.wrapped), ensure_ascii=False)


def _convert(schema: Any, dialect: Dialect, *, output: bool = False) -> Sendable | Unsendable:
    try:
        return _try(schema, dialect, output)
    except CannotSend as problem:
        return Unsendable(str(problem))
    except RecursionError:
        return Unsendable("it is nested too deep")


def _try(schema: Any, dialect: Dialect, output: bool) -> Sendable:
    notes = Notes()
    doc = plain({} if schema is None else schema, notes)
    doc = resolve_refs(doc, "loosen" if dialect == "chat" else "keep", notes)
    doc = drop_dangling(repair(doc, notes), notes)
    defs = doc.pop("$defs", None)
    doc, wrapped = _object_root(doc, dialect, notes)
    if defs:
        doc["$defs"] = defs
    if output:
        doc = anthropic_output(doc, notes) if dialect == "messages" else close_objects(doc, notes)
    if dialect != "messages":
        doc = arrays_have_items(doc)
    renames: dict[str, str] = {}
    if dialect == "messages":
        doc, renames = alias_names(doc, notes)
    size = len(json.dumps(doc, ensure_ascii=False, allow_nan=False))
    if size > MAX_CHARS:
        raise CannotSend(f"it takes {size} characters, more than {MAX_CHARS}")
    return Sendable(doc, tuple(notes), MappingProxyType(renames), wrapped)


def _object_root(doc: dict[str, Any], dialect: Dialect, notes: Notes) -> tuple[dict[str, Any], str | None]:
    kinds = schema_fold.admits(doc)
    if not kinds:
        raise CannotSend("it accepts nothing")
    if "object" not in kinds:
        notes.add(f"the root is no object: it goes as the property {WRAPPER!r} of one")
        wrapper = {"type": "object", "properties": {WRAPPER: doc}, "required": [WRAPPER]}
        return {**wrapper, "additionalProperties": False}, WRAPPER
    if isinstance(doc.get("type"), list):
        others = ", ".join(k for k in doc["type"] if k != "object")
        notes.add(f"the root's type also admits {others}: arguments are always an object")
    folded, rules = schema_fold.fold_root(doc, notes)
    if dialect != "messages":
        for key in ("enum", "const", "not"):
            if key in folded:
                rules.append({key: folded.pop(key)})
                notes.add(f"the root's {key} cannot be sent and is checked locally, against the tool's own schema")
    said = schema_fold.hint(rules)
    if said:
        own = folded.get("description")
        folded["description"] = f"{own}\n\n{said}" if own else said
    return folded, None

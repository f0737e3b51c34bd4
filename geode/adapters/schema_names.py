"""Property names on the wire: aliases for those that a backend refuses, undone in what the model sends.

The Messages API takes property keys that match ^[a-zA-Z0-9_.-]{1,64}$ only ("Property keys should match pattern"),
while OpenAPI-made tools have `filter[name]`, `$top` or `Account Number`. An alias holds wherever the name stands in
the schema and in its example values, so that undoing it needs no look at the schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from geode.adapters.schema_plain import Notes, map_subschemas

__all__ = ["alias_names", "rename"]

_LEGAL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def alias_names(schema: dict[str, Any], notes: Notes) -> tuple[dict[str, Any], dict[str, str]]:
    """(schema with aliases, {alias: own name}). The same schema comes back where all names are legal."""
    names: dict[str, None] = {}
    patterned = False

    def collect(sub: Any, _: str) -> Any:
        nonlocal patterned
        if isinstance(sub, dict):
            patterned = patterned or "patternProperties" in sub or "propertyNames" in sub
            for key in ("properties", "dependentRequired", "dependentSchemas"):
                names.update(dict.fromkeys(sub.get(key, ())))
            names.update(dict.fromkeys(sub.get("required", ())))
            for listed in sub.get("dependentRequired", {}).values():
                names.update(dict.fromkeys(listed))
            map_subschemas(sub, collect)
        return sub

    collect(schema, "")
    foreign = [name for name in names if not _LEGAL.fullmatch(name)]
    if not foreign:
        return schema, {}
    aliases: dict[str, str] = {}
    taken = set(names)
    for name in foreign:
        base = re.sub(r"[^a-zA-Z0-9_.-]", "_", name)[:64].strip("_") or "_"
        alias, number = base, 2
        while alias in taken:
            alias, number = f"{base[:58]}_{number}", number + 1
        taken.add(alias)
        aliases[name] = alias
        notes.add(f"the property {name!r} goes by {alias!r} on the wire")
    if patterned:
        notes.add("patterns over property names see the aliases on the wire: they are checked locally")

    def listed(value: list[str]) -> list[str]:
        return [aliases.get(n, n) for n in value]

    def visit(sub: Any, _: str) -> Any:
        if not isinstance(sub, dict):
            return sub
        sub = map_subschemas(sub, visit)
        for key in ("properties", "dependentSchemas"):
            if key in sub:
                sub[key] = {aliases.get(n, n): v for n, v in sub[key].items()}
        if "required" in sub:
            sub["required"] = listed(sub["required"])
        if "dependentRequired" in sub:
            sub["dependentRequired"] = {aliases.get(n, n): listed(v) for n, v in sub["dependentRequired"].items()}
        for key in ("const", "default", "enum", "examples"):
            if key in sub:
                sub[key] = rename(aliases, sub[key])
        return sub

    return visit(schema, ""), {alias: name for name, alias in aliases.items()}


def rename(names: Mapping[str, str], value: Any) -> Any:
    """`value` (JSON) with each key that stands in `names` replaced, at every depth."""
    if not names:
        return value
    if isinstance(value, Mapping):
        return {names.get(k, k): rename(names, v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rename(names, v) for v in value]
    return value

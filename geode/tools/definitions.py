"""Reads tool definitions: lists of {name, description, category, cost_tier, safety, input_schema}."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geode.config_errors import nearest, shown
from geode.contract import Tier, ToolSpec
from geode.tools.validation import schema_fault

__all__ = ["Definition", "read_definitions", "read_file"]

_TEXTS = ("name", "description", "category", "cost_tier", "safety")
_KEYS = (*_TEXTS, "input_schema", "timeout_s", "alternatives")


@dataclass(frozen=True, slots=True)
class Definition:
    """One tool as defined. `where` is the file (or package) it came from; a tool without `safety` is dangerous."""

    spec: ToolSpec
    where: str
    tier: Tier = Tier.DANGEROUS
    category: str = ""
    cost_tier: str = ""
    timeout_s: float | None = None
    alternatives: tuple[str, ...] = ()


def read_file(path: Path, faults: list[str]) -> list[Definition]:
    """The definitions in a JSON file; what is wrong with it is added to `faults`, one line each."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        faults.append(f"{path}: there is no such file")
    except OSError as error:
        faults.append(f"{path}: cannot be read: {error.strerror or error}")
    except ValueError as error:
        faults.append(f"{path}: is not JSON: {error}")
    else:
        if isinstance(entries, list):
            return read_definitions(entries, str(path), faults)
        faults.append(f"{path}: must hold a list of tool definitions, not {type(entries).__name__}")
    return []


def read_definitions(entries: Iterable[Any], where: str, faults: list[str]) -> list[Definition]:
    """The definitions in a list; of one that is no good only the name is kept, and `faults` says why."""
    found = []
    for index, entry in enumerate(entries):
        own = _faults(entry)
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if own:
            label = f"tool {name!r}" if isinstance(name, str) and name else f"entry {index}"
            faults.extend(f"{where}: {label}: {fault}" for fault in own)
            if isinstance(name, str) and name:  # its name counts: a handler for it is no second fault
                found.append(Definition(ToolSpec(name, "", {}), where))
            continue
        timeout = entry.get("timeout_s")
        found.append(
            Definition(
                spec=ToolSpec(entry["name"], entry["description"], entry["input_schema"]),
                where=where,
                tier=Tier(entry.get("safety") or Tier.DANGEROUS),
                category=entry.get("category") or "",
                cost_tier=entry.get("cost_tier") or "",
                timeout_s=None if timeout is None else float(timeout),
                alternatives=tuple(entry.get("alternatives") or ()),
            )
        )
    return found


def _faults(entry: Any) -> list[str]:
    if not isinstance(entry, Mapping):
        return [f"is {type(entry).__name__}, not an object"]
    faults = [f"unknown key {key!r}{nearest(str(key), _KEYS)}" for key in entry if key not in _KEYS]
    faults += [f"{key} is missing" for key in ("name", "description", "input_schema") if key not in entry]
    for key in _TEXTS:
        value = entry.get(key)
        if value is not None and not isinstance(value, str):
            faults.append(f"{key} must be text, not {shown(value)}")
    if entry.get("name") == "":
        faults.append("name is empty")
    tier = entry.get("safety")
    if isinstance(tier, str) and tier not in set(Tier):
        faults.append(f"safety {tier!r} is not one of {', '.join(Tier)}{nearest(tier, Tier)}")
    timeout = entry.get("timeout_s")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0):
        faults.append(f"timeout_s must be a number of seconds above 0, not {shown(timeout)}")
    others = entry.get("alternatives")
    if others is not None and not (isinstance(others, list) and all(isinstance(n, str) for n in others)):
        faults.append(f"alternatives must be a list of tool names, not {shown(others)}")
    if "input_schema" in entry and (wrong := schema_fault(entry["input_schema"])):
        faults.append(f"input_schema is not a valid JSON Schema: {wrong}")
    return faults

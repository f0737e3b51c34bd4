"""Handlers of the built-in tools. Each is looked up by its tool's name and imported when it is first needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["BUILTIN_HANDLERS", "BuiltinHandlers"]

_WHERE = {
    "read_document": "files",
    "write_file": "files",
    "edit_file": "files",
    "glob_files": "search",
    "grep_files": "search",
    "calculate": "calculate",
    "run_bash": "shell",
    "web_fetch": "web",
    "ask_user": "control",
    "request_action": "control",
}


class BuiltinHandlers(Mapping[str, Callable[..., Any]]):
    """Tool name to callable. Looking a name up imports its module; listing the names imports nothing."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        module = importlib.import_module(f"{__name__}.{_WHERE[name]}")
        handler: Callable[..., Any] = getattr(module, name)
        return handler

    def __iter__(self) -> Iterator[str]:
        return iter(_WHERE)

    def __len__(self) -> int:
        return len(_WHERE)


BUILTIN_HANDLERS: Mapping[str, Callable[..., Any]] = BuiltinHandlers()
"""The built-in handlers; `recall_tool_result`, `tool_search` and `delegate_task` are bound where their state lives."""

"""From a plain Python function to a bound handler, and where such functions are found."""

from __future__ import annotations

import importlib.util
import inspect
import keyword
import sys
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geode.schema_kinds import WRAPPER, admits_object
from geode.tools.types import Handler, ToolContext
from geode.tools.validation import declared_properties

__all__ = ["ENTRY_POINTS", "Binding", "Found", "bind", "from_entry_points", "from_folder"]

ENTRY_POINTS = "geode.tools"

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Binding:
    """A bound handler; `faults` say what of its signature cannot serve the schema."""

    handler: Handler
    is_async: bool
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """Handlers (by tool name), definition files and inline definitions from one place; `faults` where it is broken."""

    where: str
    handlers: Mapping[str, Callable[..., Any]]
    definition_files: tuple[Path, ...] = ()
    definitions: tuple[Any, ...] = ()
    faults: tuple[str, ...] = ()


def bind(function: Callable[..., Any], schema: Mapping[str, Any]) -> Binding:
    """Makes a handler of a callable that takes the input's properties as keyword arguments.

    A parameter annotated `ToolContext`, or one named `context` that the schema does not declare, gets the call's
    `ToolContext`. A property that is a Python keyword (`from`) goes to the parameter with an underscore (`from_`).
    Where the schema's root is no object, the value goes to the parameter `value`, or else to the first one.
    """
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )
    bare = not admits_object(schema)
    declared = {WRAPPER} if bare else declared_properties(schema)
    properties = declared or set()
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return Binding(_handler(function, None, {}), is_async)

    named = {p.name: p for p in parameters if p.kind in _NAMED}
    context = _context_parameter(named, properties)
    renamed = {p: f"{p}_" for p in properties if keyword.iskeyword(p) and f"{p}_" in named}
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    if bare and WRAPPER not in named and (first := next((n for n in named if n != context), None)) is not None:
        renamed[WRAPPER] = first
    served = {renamed.get(p, p) for p in properties}

    faults = [
        f"its handler needs the argument {p.name!r}, which the schema does not declare"
        for p in named.values()
        if p.default is p.empty and p.name != context and p.name not in served and declared is not None
    ]
    if not takes_any:
        faults += [
            f"its handler takes no argument {p!r}, which the schema declares"
            for p in sorted(properties)
            if renamed.get(p, p) not in named
        ]
    return Binding(_handler(function, context, renamed), is_async, tuple(faults))


def _handler(function: Callable[..., Any], context: str | None, renamed: Mapping[str, str]) -> Handler:
    if renamed:

        def call_renamed(given: Mapping[str, Any], ctx: ToolContext) -> Any | Awaitable[Any]:
            arguments = {renamed.get(name, name): value for name, value in given.items()}
            if context is not None:
                arguments[context] = ctx
            return function(**arguments)

        return call_renamed
    if context is None:
        return lambda given, ctx: function(**given)
    return lambda given, ctx: function(**{**given, context: ctx})


def _context_parameter(named: Mapping[str, inspect.Parameter], properties: set[str]) -> str | None:
    for name, parameter in named.items():
        annotation = parameter.annotation
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        if annotation is ToolContext or text.split("|")[0].strip().rpartition(".")[2] == "ToolContext":
            return name
    return "context" if "context" in named and "context" not in properties else None


def from_folder(folder: Path) -> Iterator[Found]:
    """Handlers from each module of a folder, and the folder's own `definitions.json` where it has one.

    A module gives its `HANDLERS` mapping (tool name to callable); without one, the functions named in `__all__`;
    without that, every public function that it defines.
    """
    if not folder.is_dir():
        yield Found(str(folder), {}, faults=(f"tools.folders: {folder} is not a folder",))
        return
    own = folder / "definitions.json"
    if own.is_file():
        yield Found(str(own), {}, definition_files=(own,))
    for path in sorted(folder.glob("*.py")):
        if path.name.startswith("_"):
            continue
        name = f"geode_user_tools.{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            continue
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and pickle look a module up by its name
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            sys.modules.pop(name, None)
            yield Found(str(path), {}, faults=(f"{path}: cannot be imported: {type(error).__name__}: {error}",))
            continue
        yield Found(str(path), _module_handlers(module, name))


def _module_handlers(module: object, name: str) -> dict[str, Callable[..., Any]]:
    explicit = getattr(module, "HANDLERS", None)
    if isinstance(explicit, Mapping):
        return dict(explicit)
    listed: Sequence[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return {n: getattr(module, n) for n in listed if inspect.isroutine(getattr(module, n, None))}
    return {
        n: value
        for n, value in vars(module).items()
        if not n.startswith("_") and inspect.isfunction(value) and value.__module__ == name
    }


def from_entry_points(group: str = ENTRY_POINTS) -> Iterator[Found]:
    """Handlers of installed packages. An entry point is named after its tool and is the handler; or it is a module
    (or any object) with `HANDLERS` (tool name to callable) and `DEFINITIONS` (a list of definitions, or a path).
    """
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=group), key=lambda p: (p.name, p.value)):
        where = f"entry point {point.name} ({point.value})"
        try:
            target = point.load()
        except Exception as error:
            fault = f"{where}: cannot be loaded: {type(error).__name__}: {error}"
            yield Found(where, {}, faults=(fault,))
            continue
        handlers = getattr(target, "HANDLERS", None)
        if isinstance(handlers, Mapping):
            definitions = getattr(target, "DEFINITIONS", ())
            if isinstance(definitions, str | Path):
                yield Found(where, dict(handlers), definition_files=(Path(definitions),))
            else:
                yield Found(where, dict(handlers), definitions=tuple(definitions))
        elif callable(target):
            yield Found(where, {point.name: target})
        else:
            yield Found(where, {}, faults=(f"{where}: is neither a callable nor has HANDLERS",))

"""The tools of a run, from its settings: registry, toolset, safety, offload store, processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from geode.config_errors import ConfigFault
from geode.contract import NoticeSink, ToolResultBlock
from geode.data import data_dir
from geode.hooks import HookBus, ToolResultOffloaded
from geode.runner.mcp import absent_prefixes
from geode.runner.rules import rule_faults
from geode.runner.targets import load_target
from geode.settings import Settings
from geode.tools.approval import ApprovalDesk
from geode.tools.handlers import BUILTIN_HANDLERS
from geode.tools.offload import OffloadStore, TokenGuard
from geode.tools.processor import ProcessorOptions, ToolCallProcessor
from geode.tools.recovery import RecoveryOptions
from geode.tools.registry import ToolRegistry
from geode.tools.safety import SafetyPolicy
from geode.tools.sandbox import SandboxOptions, sandbox_fault, scrubbed_environ
from geode.tools.terminal import Terminal
from geode.tools.texts import is_offloaded
from geode.tools.tool_search import SEARCH_TOOL, LoadOnDemand, tool_search
from geode.tools.toolset import Toolset
from geode.tools.types import ASKER, LOADER, OFFLOAD_STORE, ToolConfigError, ToolEnvironment

__all__ = ["TerminalAsker", "Toolbox", "choose_tools", "load_registry"]

DELEGATE_TOOL = "delegate_task"

_OFFLOAD_FROM_TOKENS = 200
"""An older result shorter than this gains nothing by going to the store."""


def load_registry(
    settings: Settings, *, need_handlers: bool = True, more: Mapping[str, Any] | None = None
) -> ToolRegistry:
    """The registry that the config describes. Raises ConfigFault with all faults. `more`: further built-in handlers."""
    tools = settings.tools
    more = {SEARCH_TOOL: tool_search, **_delegation(settings), **(more or {})}
    handlers = {
        name: load_target(f"tools.handlers.{name}", reference)
        for name, reference in (tools.handlers.items() if need_handlers else ())
    }
    try:
        return ToolRegistry.load(
            [data_dir() / "tools" / "definitions.json", *(Path(p).expanduser() for p in tools.definitions)],
            builtin=_Handlers(more),
            absent=() if DELEGATE_TOOL in more else (DELEGATE_TOOL,),
            handlers=handlers,
            folders=[Path(p).expanduser() for p in tools.folders] if need_handlers else [],
            retier=tools.retier,
            timeouts=tools.timeouts,
            alternatives=settings.recovery.alternatives,
            need_handlers=need_handlers,
            more_to_come=bool(settings.mcp.servers),
        )
    except ToolConfigError as error:
        raise ConfigFault(error.faults) from error


class _Handlers(Mapping[str, Callable[..., Any]]):
    """The built-in handlers and those of this run, still looked up only when needed."""

    def __init__(self, more: Mapping[str, Callable[..., Any]]) -> None:
        self._more = more

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._more[name] if name in self._more else BUILTIN_HANDLERS[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._more), **dict.fromkeys(BUILTIN_HANDLERS)})

    def __len__(self) -> int:
        return len(set(self._more) | set(BUILTIN_HANDLERS))


def _delegation(settings: Settings) -> Mapping[str, Any]:
    if not settings.subagents.enabled:
        return {}
    from geode.tools.delegate import delegate_task

    return {DELEGATE_TOOL: delegate_task}


class TerminalAsker:
    """Asks a question at the terminal for `ask_user`."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    async def ask(self, question: str) -> str | None:
        """The answer, None where the terminal is gone or nothing was typed."""
        from geode.tools.terminal import visible

        try:
            async with self._terminal.dialogue() as dialogue:
                await dialogue.write("\n".join(visible(line) for line in question.splitlines()) + "\n")
                answer = await dialogue.ask("> ")
        except OSError:
            return None
        return answer.strip() or None if answer is not None else None


@dataclass(slots=True)
class Toolbox:
    """What a run needs of the tools. `none` is a run whose backend takes no tools."""

    registry: ToolRegistry
    toolset: Toolset
    processor: ToolCallProcessor
    store: OffloadStore
    bus: HookBus
    on_demand: LoadOnDemand | None = None
    """Set where tools may be loaded on demand."""

    def offload(self, result: ToolResultBlock, tool: str, round: int) -> ToolResultBlock | None:
        """An older result, shortened with a ref_id; None where it is short, or was shortened before."""
        from geode.tokens import estimate_tokens

        text = result.text
        if is_offloaded(text) or estimate_tokens(text) <= _OFFLOAD_FROM_TOKENS:
            return None
        content, offloaded = TokenGuard(self.store, _OFFLOAD_FROM_TOKENS, lambda _n: None).apply(result.content)
        if offloaded is None:
            return None
        ref, size, tokens = offloaded.ref_id, offloaded.size_bytes, offloaded.tokens
        self.bus.emit(ToolResultOffloaded(round, result.tool_use_id, tool, ref, size, tokens))
        return replace(result, content=content)


def open_toolbox(
    settings: Settings,
    registry: ToolRegistry,
    *,
    run_dir: Path,
    workspace: Path,
    bus: HookBus,
    notify: NoticeSink,
    desk: ApprovalDesk,
    terminal: Terminal | None,
    services: Mapping[str, Any],
    environ: Mapping[str, str],
    mask: Callable[[str], str] | None = None,
    include: tuple[str, ...] | None = None,
    exclude: tuple[str, ...] | None = None,
    origin: str = "",
    delegates: bool = True,
) -> Toolbox:
    """The toolbox of one run (or sub-agent: `include`, `exclude` of its toolset; `delegates`: it may have some too)."""
    tools = settings.tools
    toolset, on_demand = choose_tools(settings, registry, include=include, exclude=exclude, delegates=delegates)
    if faults := rule_faults(settings, registry):
        raise ConfigFault(faults)
    try:
        safety = SafetyPolicy.from_config(
            settings.safety.tiers.model_dump(),
            [rule.model_dump() for rule in settings.safety.rules],
            read_only_as_safe=settings.safety.sandbox.read_only_as_safe,
        )
    except ToolConfigError as error:
        raise ConfigFault(error.faults) from error
    limits = {"sandbox": settings.safety.sandbox.model_dump(), "web": settings.safety.web.model_dump()}
    if "run_bash" in toolset.names() and (fault := sandbox_fault(SandboxOptions.from_limits(limits["sandbox"]))):
        raise ConfigFault([fault])
    store = OffloadStore(
        run_dir / "offload",
        max_bytes=tools.offload_bytes,
        read_tokens=tools.result_tokens or 5000,
        mask=mask,
    )
    everything = {OFFLOAD_STORE: store, LOADER: on_demand, **services}
    if terminal is not None:
        everything[ASKER] = TerminalAsker(terminal)
    environment = ToolEnvironment(
        workspace,
        notify,
        scrubbed_environ(environ, settings.safety.sandbox.env),
        limits,
        everything,
    )
    r = settings.recovery
    processor = ToolCallProcessor(
        on_demand or toolset,
        safety,
        bus,
        desk,
        store,
        environment=environment,
        options=ProcessorOptions(tools.timeout_s, tools.max_parallel, tools.result_tokens),
        recovery=RecoveryOptions(
            tool_failures=r.tool_failures,
            retry=r.retry,
            retry_delay_s=r.retry_delay_s,
            alternative=r.alternative,
            structured_error=r.structured_error,
            alternatives=r.alternatives,
        ),
        origin=origin,
    )
    return Toolbox(registry, toolset, processor, store, bus, on_demand)


def choose_tools(
    settings: Settings,
    registry: ToolRegistry,
    *,
    include: tuple[str, ...] | None = None,
    exclude: tuple[str, ...] | None = None,
    delegates: bool = True,
) -> tuple[Toolset, LoadOnDemand | None]:
    """The tools that a run is given, and what loads some of them on demand. Raises ConfigFault."""
    include = settings.toolset.include if include is None else include
    exclude = settings.toolset.exclude if exclude is None else exclude
    delegates = delegates and registry.get(DELEGATE_TOOL) is not None
    toolset = _select(registry, include, exclude, recall=settings.tools.result_tokens > 0, delegates=delegates)
    on_demand = _on_demand(settings, registry, toolset, exclude)
    try:
        toolset.check(absent_prefixes(settings.mcp.servers, registry.names()), settings.tools.core)
    except ToolConfigError as error:
        raise ConfigFault(error.faults) from error
    return toolset, on_demand


def _select(
    registry: ToolRegistry, include: tuple[str, ...], exclude: tuple[str, ...], *, recall: bool, delegates: bool
) -> Toolset:
    """The toolset. The tool that delegates belongs to it where there are sub-agents (unless it is excluded, or there
    are no tools at all); the search tool comes and goes with the need for it."""
    include = tuple(name for name in include if name != DELEGATE_TOOL)
    if delegates and include and DELEGATE_TOOL not in exclude:
        include = (*include, DELEGATE_TOOL)
    hidden = (SEARCH_TOOL,) if delegates or registry.get(DELEGATE_TOOL) is None else (SEARCH_TOOL, DELEGATE_TOOL)
    kept = tuple(name for name in exclude if name not in (SEARCH_TOOL, DELEGATE_TOOL) or registry.get(name))
    return registry.select(include, (*kept, *(name for name in hidden if name not in kept)), recall=recall)


def _on_demand(
    settings: Settings, registry: ToolRegistry, toolset: Toolset, exclude: tuple[str, ...]
) -> LoadOnDemand | None:
    """Loading on demand, unless it is off; a named tool choice leaves no room for a search."""
    search, threshold = registry.get(SEARCH_TOOL), settings.tools.defer_threshold
    if search is None or SEARCH_TOOL in exclude or not threshold or settings.tool_choice.type == "tool":
        return None
    return LoadOnDemand(toolset, search, threshold=threshold, core=settings.tools.core)

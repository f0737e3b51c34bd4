"""Looks for faults in the tools of a config: everything that can be known before a run, for all three wires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from geode.adapters.names import NameAliases
from geode.adapters.schemas import Unsendable, for_chat, for_messages, for_responses
from geode.config_errors import ConfigFault
from geode.contract import Notice
from geode.runner.backends import adapter_options
from geode.runner.mcp import list_mcp_tools
from geode.runner.rules import rule_faults
from geode.runner.toolbox import choose_tools, load_registry
from geode.settings import Settings
from geode.tools.sandbox import SandboxOptions, sandbox_fault
from geode.tools.types import Tool

__all__ = ["check"]

_WIRES = {"messages": for_messages, "responses": for_responses, "chat": for_chat}


async def check(settings: Settings, environ: Mapping[str, str]) -> tuple[int, list[str], list[str]]:
    """(number of tools given to the model, faults, notes); a fault is something that would not work as configured."""
    faults: list[str] = []
    notes: list[str] = []
    try:
        registry = load_registry(settings)
    except ConfigFault as fault:
        faults += fault.lines
        try:
            registry = load_registry(settings, need_handlers=False)  # what else there is to say
        except ConfigFault:
            return 0, faults, notes
    notices: list[Notice] = []
    try:
        await list_mcp_tools(settings, registry, environ=environ, notify=notices.append)
    except ConfigFault as fault:
        faults += fault.lines
    faults += [notice.message for notice in notices]
    try:
        toolset, on_demand = choose_tools(settings, registry)
    except ConfigFault as fault:
        return 0, [*faults, *fault.lines], notes
    tools = toolset.tools()
    _wires(tools, faults, notes)
    faults += rule_faults(settings, registry)
    if registry.get("run_bash") in tools:
        unsafe = sandbox_fault(SandboxOptions.from_limits(settings.safety.sandbox.model_dump()))
        faults += [unsafe] if unsafe else []
    options = adapter_options(settings.adapter)
    most, late = options.capabilities.max_tools, len(on_demand.late()) if on_demand is not None else 0
    if late and not options.capabilities.tool_search:
        late, tools = 0, tools[: len(tools) - late]  # geode's own search finds the rest
    if most and len(tools) + bool(late) > most:
        faults.append(f"{options.name}: {len(tools)} tools, allowed: {most}, the search tool counted")
    return len(toolset.names()), list(dict.fromkeys(faults)), notes


def _wires(tools: Sequence[Tool], faults: list[str], notes: list[str]) -> None:
    """What each wire would drop (faults) or loosen and rename (notes); one line where they agree."""
    aliases = NameAliases(tool.name for tool in tools)
    for tool in tools:
        if (alias := aliases.to_wire(tool.name)) != tool.name:
            notes.append(f"tool {tool.name!r}: goes as {alias!r} on the wire")
        dropped: dict[str, list[str]] = {}
        loosened: dict[str, list[str]] = {}
        for wire, convert in _WIRES.items():
            sent = convert(tool.spec.input_schema)
            if isinstance(sent, Unsendable):
                dropped.setdefault(sent.reason, []).append(wire)
                continue
            for note in sent.notes:
                loosened.setdefault(note, []).append(wire)
        said = f"tool {tool.name!r}"
        faults += [f"{said}: {_on(wires)}: its schema cannot be sent: {why}" for why, wires in dropped.items()]
        notes += [f"{said}: {_on(wires)}: {why}" for why, wires in loosened.items()]


def _on(wires: Sequence[str]) -> str:
    return "every wire" if len(wires) == len(_WIRES) else ", ".join(wires)

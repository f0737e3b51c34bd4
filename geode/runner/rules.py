"""Safety rules that could never match: a misspelt one would leave a door open."""

from __future__ import annotations

from fnmatch import fnmatchcase

from geode.config_errors import nearest
from geode.runner.mcp import absent_prefixes
from geode.settings import Settings
from geode.tools.registry import ToolRegistry
from geode.tools.validation import declared_properties

__all__ = ["rule_faults"]


def rule_faults(settings: Settings, registry: ToolRegistry) -> list[str]:
    """One line for each rule that names no tool, or an argument that its tools do not have.

    A rule that may be meant for the tools of an MCP server that is not there is left alone.
    """
    names = registry.names()
    absent = absent_prefixes(settings.mcp.servers, names)
    faults: list[str] = []
    for index, rule in enumerate(settings.safety.rules):
        matching = [tool for tool in registry.tools() if fnmatchcase(tool.name, rule.tool)]
        if not matching:
            if not absent or not (rule.tool.startswith(absent) or set(rule.tool) & set("*?[")):
                faults.append(f"safety.rules.{index}.tool: {rule.tool!r} matches no tool{nearest(rule.tool, names)}")
            continue
        declared = [declared_properties(tool.spec.input_schema) for tool in matching]
        known = {name for properties in declared for name in properties or ()}
        if all(tool.spec.input_schema.get("additionalProperties") is False for tool in matching):
            faults += [
                f"safety.rules.{index}.arguments.{name}: {rule.tool!r} has no such argument{nearest(name, known)}"
                for name in rule.arguments
                if name not in known
            ]
    return faults

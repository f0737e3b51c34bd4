"""Which of the tools a run is given."""

from __future__ import annotations

import pytest
from tools_kit import make_tool

from geode.data import data_dir
from geode.tools.registry import ToolRegistry
from geode.tools.types import ToolConfigError


def serve() -> None: ...


@pytest.fixture
def registry() -> ToolRegistry:
    names = ("glob_files", "grep_files", "write_file", "edit_file")
    tools = [make_tool(serve, name=name) for name in names]
    recall = make_tool(serve, name="recall_tool_result", reads_offload=True, offloads=False)
    return ToolRegistry([*tools, recall, make_tool(serve, name="quiet", offloads=False)])


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        (["*"], [], "glob_files grep_files write_file edit_file recall_tool_result quiet"),
        (["*_files"], [], "glob_files grep_files recall_tool_result"),
        (["*_file", "g*"], ["write_*"], "glob_files grep_files edit_file recall_tool_result"),
        (["edit_file", "glob_files"], [], "glob_files edit_file recall_tool_result"),
        (["glob_files"], ["recall_tool_result"], "glob_files"),
        (["glob_files"], ["recall*"], "glob_files recall_tool_result"),
        (["quiet"], [], "quiet"),
        (["recall_tool_result"], [], ""),
        ([], [], ""),
    ],
)
def test_globs_keep_the_order_of_the_registry(
    registry: ToolRegistry, include: list[str], exclude: list[str], names: str
) -> None:
    toolset = registry.select(include, exclude)
    assert " ".join(toolset.names()) == names
    assert [tool.name for tool in toolset.tools()] == [spec.name for spec in toolset.specs()] == names.split()


def test_without_an_offload_store_there_is_nothing_to_recall(registry: ToolRegistry) -> None:
    assert registry.select(["glob_files"], recall=False).names() == ("glob_files",)


def test_a_tool_outside_the_set_is_not_there(registry: ToolRegistry) -> None:
    toolset = registry.select(["glob_files"])
    assert toolset.get("write_file") is None
    assert toolset.get("glob_files") is registry.get("glob_files")


def test_patterns_that_match_nothing(registry: ToolRegistry) -> None:
    registry.select(["*"], []).check()
    with pytest.raises(ToolConfigError) as caught:
        registry.select(["grep_flies", "glob_*"], ["web_*"]).check()
    assert caught.value.faults == (
        "toolset.include: 'grep_flies' matches no tool; did you mean 'grep_files'?",
        "toolset.exclude: 'web_*' matches no tool",
    )


def test_it_follows_the_registry(registry: ToolRegistry) -> None:
    toolset = registry.select(["mcp__*"])
    version = toolset.version
    assert toolset.names() == ()
    registry.replace_source("mcp:s", [make_tool(serve, name="mcp__a", source="mcp:s")])
    assert toolset.names() == ("recall_tool_result", "mcp__a")
    assert toolset.version > version
    registry.replace_source("mcp:s", [])
    assert toolset.names() == ()


def test_the_shipped_toolsets_name_tools_that_exist() -> None:
    import yaml

    definitions = data_dir() / "tools" / "definitions.json"
    registry = ToolRegistry.load([definitions], need_handlers=False, entry_points=False)
    for path in sorted((data_dir() / "conf" / "toolset").glob("*.yaml")):
        given = yaml.safe_load(path.read_text())
        registry.select(given["include"], given["exclude"]).check()

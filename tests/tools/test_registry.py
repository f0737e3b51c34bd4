"""Definitions joined with handlers: where both may come from, and every fault at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tools_kit import Bench, make_tool

from geode.contract import Tier
from geode.tools.registry import ToolRegistry
from geode.tools.types import ToolConfigError, ToolContext

PLAIN: Mapping[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


def define(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "input_schema": PLAIN, **more}


def write(folder: Path, *entries: Any, name: str = "definitions.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(entries))
    return path


def load(*paths: Path, **more: Any) -> ToolRegistry:
    return ToolRegistry.load(list(paths), **{"entry_points": False, **more})


def faults(*paths: Path, **more: Any) -> list[str]:
    with pytest.raises(ToolConfigError) as caught:
        load(*paths, **more)
    return [line.replace(f"{paths[0]}: ", "") for line in caught.value.faults]


def serve(a: int = 0) -> int:
    return a


def test_a_definition_becomes_a_tool(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        define("one", safety="write", category="files", cost_tier="low", timeout_s=3, alternatives=["two"]),
        define("two"),
    )
    registry = load(path, handlers={"one": serve}, builtin={"two": serve, "three": serve})
    one, two = registry.tools()
    assert (one.name, one.tier, one.category, one.cost_tier, one.timeout_s, one.alternatives, one.source) == (
        "one", "write", "files", "low", 3.0, ("two",), "user",
    )  # fmt: skip
    assert (two.name, two.tier, two.source, two.timeout_s) == ("two", "dangerous", "builtin", None)
    assert [s.input_schema for s in registry.specs()] == [PLAIN, PLAIN]


def test_every_fault_of_the_definitions_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        define("twice"),
        define("twice"),
        define("schema", input_schema={"type": "objekt"}),
        define("tier", safety="save"),
        define("time", timeout_s=0),
        define("keys", descripton="x"),
        {"name": "less"},
        5,
        define(""),
        define("unserved"),
        define("other", alternatives=["twise"]),
    )
    handlers = dict.fromkeys(("twice", "other", "unservd"), serve)
    assert faults(path, handlers=handlers) == [
        "tool 'schema': input_schema is not a valid JSON Schema: at $.type: 'objekt' is not valid under any of the "
        "given schemas",
        "tool 'tier': safety 'save' is not one of safe, expensive, write, dangerous; did you mean 'safe'?",
        "tool 'time': timeout_s must be a number of seconds above 0, not 0",
        "tool 'keys': unknown key 'descripton'; did you mean 'description'?",
        "tool 'less': description is missing",
        "tool 'less': input_schema is missing",
        "entry 7: is int, not an object",
        "entry 8: name is empty",
        "tool 'twice': the name is defined twice",
        "tools.handlers: tool 'unservd': the handler has no definition; did you mean 'unserved'?",
        "tool 'schema': there is no handler",
        "tool 'tier': there is no handler",
        "tool 'time': there is no handler",
        "tool 'keys': there is no handler",
        "tool 'less': there is no handler",
        "tool 'unserved': there is no handler; did you mean 'unservd'?",
        "tool 'other': alternative 'twise' is not defined; did you mean 'twice'?",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", "must hold a list of tool definitions, not dict"),
        ("[", "is not JSON: Expecting value: line 1 column 2 (char 1)"),
        (None, "there is no such file"),
    ],
)
def test_files_that_are_no_definitions(tmp_path: Path, text: str | None, fault: str) -> None:
    path = tmp_path / "definitions.json"
    if text is not None:
        path.write_text(text)
    assert faults(path) == [fault]


def test_handlers_that_do_not_serve_their_schema(tmp_path: Path) -> None:
    def needs(a: int, b: int) -> None: ...

    def lacks() -> None: ...

    path = write(tmp_path, define("needs"), define("lacks"), define("none"))
    assert faults(path, handlers={"needs": needs, "lacks": lacks, "none": 5}) == [
        "tools.handlers: tool 'none': its handler is int, no callable",
        "tool 'needs': its handler needs the argument 'b', which the schema does not declare",
        "tool 'lacks': its handler takes no argument 'a', which the schema declares",
    ]


def test_a_schema_in_branches_declares_what_its_branches_do(tmp_path: Path) -> None:
    schema = {
        "allOf": [{"properties": {"a": {}}}, {"$ref": "#/$defs/b"}],
        "$defs": {"b": {"properties": {"b": {}}, "required": ["b"]}},
    }

    def both(a: int, b: int) -> None: ...

    assert load(write(tmp_path, define("both", input_schema=schema)), handlers={"both": both}).names() == ("both",)


def test_a_definition_alone_is_enough_to_print_requests(tmp_path: Path) -> None:
    assert load(write(tmp_path, define("one")), need_handlers=False).names() == ("one",)


def test_retier_and_timeouts_by_name_or_glob(tmp_path: Path) -> None:
    path = write(tmp_path, define("read_a", safety="safe"), define("read_b"), define("write_a"))
    registry = load(
        path,
        builtin=dict.fromkeys(("read_a", "read_b", "write_a"), serve),
        retier={"read_*": "write", "read_b": "safe"},
        timeouts={"*_a": 5},
    )
    assert [(t.tier, t.timeout_s) for t in registry.tools()] == [
        (Tier.WRITE, 5.0),
        (Tier.SAFE, None),
        (Tier.DANGEROUS, 5.0),
    ]
    assert faults(
        path,
        builtin=dict.fromkeys(("read_a", "read_b", "write_a"), serve),
        retier={"raed_a": "safe"},
        timeouts={"x_*": 1},
        alternatives={"read_a": "read_c"},
    ) == [
        "tools.retier.raed_a: no tool has this name; did you mean 'read_a'?",
        "tools.timeouts.x_*: no tool has this name",
        "recovery.alternatives.read_a: no tool is named 'read_c'; did you mean 'read_b'?",
    ]
    assert faults(path, need_handlers=False, retier={"read_a": "sfae"}) == [
        "tools.retier.read_a: 'sfae' is not one of safe, expensive, write, dangerous; did you mean 'safe'?"
    ]


def test_sources_that_come_and_go(tmp_path: Path) -> None:
    registry = load(write(tmp_path, define("one")), builtin={"one": serve}, retier={"z__*": "safe"}, more_to_come=True)
    registry.replace_source("mcp:z", [make_tool(serve, "write", name="z__a", source="mcp:z")])
    registry.replace_source("mcp:b", [make_tool(serve, name="b__a", source="mcp:b")])
    registry.check_names()
    assert registry.names() == ("one", "b__a", "z__a")
    found = registry.get("z__a")
    assert found is not None
    assert found.tier is Tier.SAFE
    with pytest.raises(ToolConfigError) as caught:
        registry.replace_source("mcp:c", [make_tool(serve, name="b__a", source="mcp:c")])
    assert caught.value.faults == ("mcp:c: tool 'b__a': mcp:b has a tool of this name too",)
    registry.replace_source("mcp:b", [])
    assert registry.names() == ("one", "z__a")


# ------------------------------------------------------------------------------------------------------------- binding


async def test_what_parameters_get() -> None:
    schema = {"type": "object", "properties": {"from": {"type": "string"}, "context": {"type": "string"}}}

    def serve(from_: str, context: str, ctx: ToolContext) -> list[str]:
        return [from_, context, ctx.tool]

    outcome = await Bench(make_tool(serve, schema=schema)).one("serve", **{"from": "a", "context": "b"})
    assert outcome.result.text == '["a", "b", "serve"]'

    def by_name(context) -> str:  # type: ignore[no-untyped-def]
        return context.tool

    def anything(**given: Any) -> Any:
        return given

    bench = Bench(make_tool(by_name), make_tool(anything, schema=PLAIN))
    assert (await bench.one("by_name")).result.text == "by_name"
    assert (await bench.one("anything", a=1, b=2)).result.text == '{"a": 1, "b": 2}'


async def test_callable_objects_and_late_awaitables() -> None:
    class Served:
        async def __call__(self, a: int) -> int:
            return a

    async def later(a: int) -> int:
        return a + 1

    tools = make_tool(Served(), schema=PLAIN, name="served"), make_tool(lambda a: later(a), schema=PLAIN, name="lambda")
    bench = Bench(*tools)
    assert [t.is_async for t in tools] == [True, False]
    assert [(await bench.one(name, a=1)).result.text for name in ("served", "lambda")] == ["1", "2"]

"""Large results: kept whole in the run's store, summed up in the context, read back by a tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tools_kit import Bench, make_tool

from geode.contract import ImageBlock, Notice, TextBlock
from geode.data import data_dir
from geode.hooks import Event, ToolResultOffloaded
from geode.tokens import estimate_tokens
from geode.tools.offload import OffloadStore, StoreFull
from geode.tools.registry import ToolRegistry
from geode.tools.types import ToolError

LINES = "".join(f"line {n} of the file\n" for n in range(1, 501))
DEFINITIONS = [data_dir() / "tools" / "definitions.json"]


def bench_over(tmp_path: Path, value: Any, *, limit: int = 100, **store: Any) -> Bench:
    def give() -> Any:
        return value

    registry = ToolRegistry.load(
        DEFINITIONS, builtin={name: lambda **_: None for name in names() if name != "recall_tool_result"},
        entry_points=False,
    )  # fmt: skip
    registry.replace_source("user", [make_tool(give)])
    kept = OffloadStore(tmp_path / "offload", read_tokens=limit, **store)
    return Bench(registry=registry, store=kept, result_tokens=limit)


def names() -> list[str]:
    return [entry["name"] for entry in json.loads(DEFINITIONS[0].read_text())]


async def test_a_large_result_is_kept_whole_and_recalled(tmp_path: Path) -> None:
    bench = bench_over(tmp_path, LINES)
    outcome = await bench.one("give")
    text = outcome.result.text
    size, tokens = len(LINES), estimate_tokens(LINES)
    assert text.splitlines()[0] == (
        f"[The result is too large to show whole ({size} bytes, about {tokens} tokens, 500 lines). It is kept as "
        'ref_id r0001: read it with recall_tool_result(ref_id="r0001", offset, limit, pattern).]'
    )
    assert "[start]\nline 1 of the file\n" in text
    assert text.endswith("of the file\n")
    assert estimate_tokens(text) < 100
    assert (tmp_path / "offload" / "r0001.txt").read_text() == LINES
    assert bench.told(Event.TOOL_RESULT_OFFLOADED) == [ToolResultOffloaded(1, "id_give", "give", "r0001", size, tokens)]

    recalled = await bench.one("recall_tool_result", ref_id="r0001", offset=100, limit=2)
    assert recalled.result.text == (
        "[r0001: lines 100 to 101 of 500; go on with offset=102]\n100: line 100 of the file\n101: line 101 of the file"
    )
    found = await bench.one("recall_tool_result", ref_id="r0001", pattern="line 49[89]")
    assert found.result.text == ("[r0001: 2 matching lines]\n498: line 498 of the file\n499: line 499 of the file")


async def test_what_is_recalled_is_bounded_and_not_offloaded_again(tmp_path: Path) -> None:
    bench = bench_over(tmp_path, LINES)
    await bench.one("give")
    text = (await bench.one("recall_tool_result", ref_id="r0001", limit=500)).result.text
    assert text.splitlines()[0] == "[r0001: lines 1 to 12 of 500; go on with offset=13]"
    assert len(bench.told(Event.TOOL_RESULT_OFFLOADED)) == 1


async def test_the_shape_of_json_is_said(tmp_path: Path) -> None:
    text = (await bench_over(tmp_path, {"rows": ["x" * 99] * 99, "total": 1}).one("give")).result.text
    assert "; a JSON object with the keys rows, total)." in text
    text = (await bench_over(tmp_path, ["x" * 99] * 99).one("give")).result.text
    assert "; a JSON list of 99). It is kept as ref_id r0002" in text


async def test_images_stay_and_errors_are_kept_too(tmp_path: Path) -> None:
    image = ImageBlock("image/png", "aGk=" * 5000)
    outcome = await bench_over(tmp_path, [TextBlock(LINES), image]).one("give")
    shown, same = outcome.result.content
    assert isinstance(shown, TextBlock)
    assert shown.text.startswith("[The result is too large")
    assert same == image
    assert (await bench_over(tmp_path, [TextBlock("short"), image]).one("give")).result.content == (
        TextBlock("short"),
        image,
    )

    def fail() -> None:
        raise ToolError(LINES)

    bench = bench_over(tmp_path, "")
    bench.registry.replace_source("user", [make_tool(fail)])
    outcome = await bench.one("fail")
    assert (outcome.status, outcome.result.is_error) == ("error", True)
    assert "ref_id r0002" in outcome.result.text


@pytest.mark.parametrize(("limit", "whole"), [(0, True), (100_000, True), (100, False)])
async def test_the_limit(tmp_path: Path, limit: int, whole: bool) -> None:
    bench = bench_over(tmp_path, LINES, limit=limit)
    assert ((await bench.one("give")).result.text == LINES) is whole


async def test_a_full_store_cuts_and_says_so(tmp_path: Path) -> None:
    bench = bench_over(tmp_path, LINES, max_bytes=1000)
    text = (await bench.one("give")).result.text
    assert text.startswith(
        f"[The result is too large to show whole ({len(LINES)} bytes, about {estimate_tokens(LINES)} tokens) and was "
        "not kept: the offload store is full (1000 bytes). Ask for less of it.]\n[start]\nline 1 of the file\n"
    )
    assert bench.notices == [
        Notice(
            "offload",
            "a large tool result was cut: the offload store is full (1000 bytes)",
            "tools.offload_bytes=BYTES",
        )
    ]


async def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "offload").write_text("a file, no folder")
    bench = bench_over(tmp_path, LINES)
    assert "was not kept: it could not be written (File exists)" in (await bench.one("give")).result.text


# ---------------------------------------------------------------------------------------------------------- the store


def test_names_are_geodes_own_and_go_on_after_a_resume(tmp_path: Path) -> None:
    store = OffloadStore(tmp_path)
    assert [store.put("a"), store.put("b")] == ["r0001", "r0002"]
    again = OffloadStore(tmp_path, max_bytes=3)
    assert again.put("c") == "r0003"
    with pytest.raises(StoreFull):
        again.put("d")
    assert [again.text(ref) for ref in ("r0001", "r0002", "r0003")] == ["a", "b", "c"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r0001.txt", "r0002.txt", "r0003.txt"]


@pytest.mark.parametrize("ref", ["r0002", "../x", "r1", "", "r0001.txt", "/etc/passwd", "r0001\n"])
def test_only_names_that_geode_gave_are_read(tmp_path: Path, ref: str) -> None:
    store = OffloadStore(tmp_path)
    store.put("a")
    with pytest.raises(ToolError, match="There is no offloaded result"):
        store.read(ref)


def test_paging_comes_to_an_end(tmp_path: Path) -> None:
    store = OffloadStore(tmp_path, read_tokens=60)
    ref = store.put(LINES + "no line end")
    seen: list[str] = []
    offset = 1
    while True:
        head, *lines = store.read(ref, offset, 1000).splitlines()
        seen += [line.partition(": ")[2] for line in lines]
        if "go on" not in head:
            break
        offset = int(head.rpartition("offset=")[2].rstrip("]"))
    assert "\n".join(seen) == LINES + "no line end"
    assert store.read(ref, 502) == f"[{ref} has no line 502]"


def test_a_long_line_is_paged_in_pieces(tmp_path: Path) -> None:
    store = OffloadStore(tmp_path)
    ref = store.put("x" * 1500 + "needle" + "y" * 1000)
    assert store.read(ref, 2, 1).splitlines()[0] == f"[{ref}: lines 2 to 2 of 3; go on with offset=3]"
    assert store.read(ref, pattern="needle").splitlines()[1].startswith("2: " + "x" * 500 + "needle")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(", "the pattern is no valid regular expression: missing ), unterminated subpattern at position 0"),
        ("(a+)+$", "the pattern took longer than 0.3 s: use a simpler one"),
    ],
)
def test_patterns_that_are_no_good(tmp_path: Path, pattern: str, text: str) -> None:
    store = OffloadStore(tmp_path, pattern_s=0.3 if "+" in pattern else 10)
    ref = store.put("a" * 60 + "b")
    with pytest.raises(ToolError) as caught:
        store.read(ref, pattern=pattern)
    assert str(caught.value) == text


def test_no_match(tmp_path: Path) -> None:
    store = OffloadStore(tmp_path)
    assert store.read(store.put("abc"), pattern="x") == "[r0001: no line from 1 on matches]"


def test_text_that_utf8_cannot_carry(tmp_path: Path) -> None:
    store = OffloadStore(tmp_path)
    assert store.text(store.put("a\ud800é")) == "a?é"

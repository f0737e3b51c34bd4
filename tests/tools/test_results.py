"""What a handler returned, as the model gets it: JSON without NaN, images as image blocks, never as base64 text."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import math
from collections import OrderedDict, deque
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import pytest
from tools_kit import Bench, make_tool

from geode.contract import ImageBlock, TextBlock
from geode.tools.results import convert, image_type, to_json
from geode.tools.types import ToolReturn

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
PNG64 = base64.b64encode(PNG).decode()
IMAGE = ImageBlock("image/png", PNG64)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: float


class Odd:
    def __str__(self) -> str:
        return "an odd one"


class Worse:
    def __str__(self) -> str:
        raise RuntimeError


def cycle() -> list[Any]:
    items: list[Any] = [1]
    items.append(items)
    return items


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("text as it is\n", "text as it is\n"),
        ("\ud83d\ude00 \ud800", "😀 \ufffd"),
        (True, "true"),
        (0, "0"),
        ({}, "{}"),
        ([], "[]"),
        ({"ä": [1, None, 1.5]}, '{"ä": [1, null, 1.5]}'),
        (math.nan, "null"),
        ([math.inf, -math.inf, {"n": math.nan}], '[null, null, {"n": null}]'),
        ({1: "a", None: "b", False: "c"}, '{"1": "a", "null": "b", "false": "c"}'),
        ((1, 2), "[1, 2]"),
        ({3, 1, 2}, "[1, 2, 3]"),
        (deque([1, 2]), "[1, 2]"),
        (OrderedDict(a=1), '{"a": 1}'),
        (MappingProxyType({"a": 1}), '{"a": 1}'),
        (Colour.RED, '"red"'),
        (Point(1, 2.5), '{"x": 1, "y": 2.5}'),
        (datetime.date(2020, 2, 3), '"2020-02-03"'),
        (PurePosixPath("a/b"), '"a/b"'),
        ([ValueError("bad")], '["ValueError: bad"]'),
        (Odd(), '"an odd one"'),
        ({"a": Worse()}, '{"a": "<Worse>"}'),
        ([int], '["<int>"]'),
        (cycle(), '[1, "<refers to itself>"]'),
        (b"plain", "plain"),
        (b"\xff\xfe\x00", "<3 bytes of binary data>"),
        (10**5000, '"<integer of 16610 bits>"'),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_text(value: Any, text: str) -> None:
    def give() -> Any:
        return value

    outcome = await Bench(make_tool(give)).one("give")
    assert (outcome.result.content, outcome.result.is_error) == (text, False)


def test_depth_is_bounded() -> None:
    value: Any = 0
    for _ in range(5000):
        value = [value]
    text = convert(value).content
    assert isinstance(text, str)
    assert "<nested too deeply>" in text
    json.loads(text)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (IMAGE, (IMAGE,)),
        ([TextBlock("a"), IMAGE], (TextBlock("a"), IMAGE)),
        ([TextBlock("a"), TextBlock("b")], "a\nb"),
        (PNG, (IMAGE,)),
        ({"url": "x", "screenshot": PNG64}, (TextBlock('{"url": "x", "screenshot": "[image 1]"}'), IMAGE)),
        ({"screenshot": f"data:image/png;base64,{PNG64}"}, (TextBlock('{"screenshot": "[image 1]"}'), IMAGE)),
        ({"screenshot": PNG}, (TextBlock('{"screenshot": "[image 1]"}'), IMAGE)),
        (
            {"a": [{"screenshot": PNG64}, IMAGE]},
            (TextBlock('{"a": [{"screenshot": "[image 1]"}, "[image 2]"]}'), IMAGE, IMAGE),
        ),
        ({"src": f"data:image/png;base64,{PNG64}"}, (TextBlock('{"src": "[image 1]"}'), IMAGE)),
        ({"screenshot": "not base64!"}, '{"screenshot": "not base64!"}'),
        ({"screenshot": None}, '{"screenshot": null}'),
        (
            [{"type": "text", "text": "a"}, {"type": "image", "data": PNG64, "mimeType": "image/png"}],
            (TextBlock("a"), IMAGE),
        ),
        (
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG64}}],
            (IMAGE,),
        ),
        (ToolReturn([TextBlock("a"), IMAGE]), (TextBlock("a"), IMAGE)),
    ],
    ids=range(14),
)  # fmt: skip
def test_images(value: Any, content: Any) -> None:
    converted = convert(value).content
    assert converted == content
    text = converted if isinstance(converted, str) else "".join(b.text for b in converted if isinstance(b, TextBlock))
    assert PNG64 not in text


def test_image_types() -> None:
    heads = [PNG, b"\xff\xd8\xff\xe0", b"GIF89a..", b"RIFF....WEBPVP8 ", b"BM....", b"", b"RIFF....WAVE"]
    assert [image_type(head) for head in heads] == [
        "image/png", "image/jpeg", "image/gif", "image/webp", None, None, None,
    ]  # fmt: skip


def test_to_json_gives_plain_values() -> None:
    assert to_json({"a": {2, 1}, "b": Point(1, math.nan)}) == {"a": [1, 2], "b": {"x": 1, "y": None}}


def test_pydantic_and_arrays() -> None:
    import pydantic

    class Model(pydantic.BaseModel):
        when: datetime.date

    class Array:
        def tolist(self) -> list[float]:
            return [1.0, math.nan]

    assert convert([Model(when=datetime.date(2020, 1, 1)), Array()]).content == '[{"when": "2020-01-01"}, [1.0, null]]'

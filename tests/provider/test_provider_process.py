"""`python -m geode.provider` as a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import sys

import httpx2
import pytest
from provider_kit import BODIES, HEADERS, http_client

SCRIPT = "turns:\n  - text: from a file\n    repeat: forever\n"


async def started(tmp_path, *arguments: str) -> asyncio.subprocess.Process:
    path = tmp_path / "script.yaml"
    path.write_text(SCRIPT)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "geode.provider",
        "--script",
        str(path),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_prints_its_urls_serves_and_ends_on_a_signal(tmp_path, number):
    process = await started(tmp_path)
    assert process.stdout is not None
    urls = json.loads(await process.stdout.readline())
    assert set(urls) == {"port", "messages", "responses", "chat"}
    assert urls["chat"] == f"http://127.0.0.1:{urls['port']}/v1"
    async with http_client() as client:
        url = urls["chat"] + "/chat/completions"
        answer = await client.post(url, json=BODIES["chat"], headers=HEADERS)
    assert answer.json()["choices"][0]["message"]["content"] == "from a file"
    process.send_signal(number)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


async def test_problems_are_told_at_the_end(tmp_path):
    process = await started(tmp_path, "--strict", "pairing")
    assert process.stdout is not None
    urls = json.loads(await process.stdout.readline())
    async with http_client() as client:
        answer: httpx2.Response = await client.post(urls["messages"] + "/v1/messages", json=BODIES["messages"])
    assert answer.status_code == 401
    process.terminate()
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert errors.decode() == "POST /v1/messages: headers: no key (x-api-key or authorization: Bearer)\n"


async def test_a_bad_script_is_told_in_one_line(tmp_path):
    process = await started(tmp_path, "--script", str(tmp_path / "none.yaml"))
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert errors.decode() == f"{tmp_path}/none.yaml: cannot be read: No such file or directory\n"

"""`python -m geode.provider --script FILE`: the loopback provider as a process of its own.

Prints one JSON line with its base URLs, then one line for each problem; ends on SIGINT or SIGTERM. The exit status is
1 where a request had a problem, else 0.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys

from geode.provider.handler import Strict
from geode.provider.server import LoopbackProvider
from geode.script import Script, ScriptFormatError


async def _serve(script: Script, options: argparse.Namespace) -> int:
    strict: Strict = "pairing" if options.strict == "pairing" else options.strict == "true"
    provider = LoopbackProvider(script, strict=strict, host=options.host, port=options.port, keep=options.keep)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with provider:
        urls = {wire: provider.base_url(wire) for wire in ("messages", "responses", "chat")}
        print(json.dumps({"port": provider.port, **urls}), flush=True)
        await ended.wait()
    for problem in provider.problems:
        print(problem, file=sys.stderr)
    return 1 if provider.problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m geode.provider", description=__doc__.split("\n\n")[0])
    parser.add_argument("--script", required=True, help="script file (YAML), see docs/scripts.md")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--strict", choices=("true", "pairing", "false"), default="true", help="request checks")
    parser.add_argument("--keep", type=int, default=100, help="how many requests are kept in memory")
    options = parser.parse_args()
    try:
        script = Script.load(options.script)
        return asyncio.run(_serve(script, options))
    except ScriptFormatError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

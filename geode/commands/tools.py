"""`geode tools`: lists the tools that a config gives the model; `geode tools check` looks for faults in them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence

from geode.config_errors import ConfigFault
from geode.contract import Notice

__all__ = ["main"]

_HELP = """\
usage: geode tools [--json] [OVERRIDES]
       geode tools check [--strict] [OVERRIDES]

Lists the tools that the config gives the model: tier, source, estimated tokens, what approval a call needs, and
whether a tool is sent at once or loaded on demand. MCP servers that the config names are started for it, and ended.

  --json     as JSON: {tools: [...], left_out: [names], tokens}
  check      looks for faults: definitions, handlers, schemas, toolset, safety rules, MCP servers, and what each of the
             three wires would drop, one line each; notes say what a wire loosens. Exit code: 0 none, 2 faults.
  --strict   notes are faults too

  geode tools safety=read_only
  geode tools check 'tools.folders=[my_tools]'
"""


def main(argv: Sequence[str]) -> int:
    """Runs `geode tools` and returns its exit code. Raises ConfigFault."""
    words = list(argv)
    if "--help" in words or "-h" in words:
        print(_HELP, end="")
        return 0
    flags = {flag for flag in ("--json", "--strict") if flag in words}
    words = [word for word in words if word not in flags]
    checking = words[:1] == ["check"]
    allowed = {"--strict"} if checking else {"--json"}
    if wrong := sorted(flags - allowed):
        raise ConfigFault([f"{wrong[0]}: unknown flag here, allowed: {', '.join(sorted(allowed))}, KEY=VALUE"])
    from geode.compose import compose_settings

    if checking:
        from geode.commands.tool_check import check

        return _report(asyncio.run(check(compose_settings(words[1:]), os.environ)), strict=bool(flags))
    from geode.commands.tool_table import Listing, listing

    notices: list[Notice] = []
    found: Listing = asyncio.run(listing(compose_settings(words), os.environ, notices.append))
    for notice in notices:
        more = f" ({notice.override})" if notice.override else ""
        print(f"geode: note: {notice.message}{more}", file=sys.stderr)
    print(json.dumps(found.to_dict(), ensure_ascii=False, indent=2) if flags else found.table())
    return 0


def _report(checked: tuple[int, Sequence[str], Sequence[str]], *, strict: bool) -> int:
    count, faults, notes = checked
    if strict:
        faults, notes = [*faults, *notes], ()
    for note in notes:
        print(f"note: {note}")
    if faults:
        raise ConfigFault(faults)
    print(f"{count} tools, no faults")
    return 0

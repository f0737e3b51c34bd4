"""`geode wire`: prints the requests that a config would send, or what differs between two configs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geode.config_errors import ConfigFault

__all__ = ["main"]

_HELP = """\
usage: geode wire [OVERRIDES]
       geode wire --diff A B [OVERRIDES]

Prints the exact requests that the config would send, as a JSON array of {method, url, headers, body}: from the SDK's
own transport, with secrets masked, with no key and no network. For a command-line adapter {argv, stdin, env}, with
the names of variables only; for the scripted adapter {adapter, body}.

  wire.rounds=N   the requests of N rounds; the script (adapter.script, provider.script) plays the provider. Tools are
                  not run: a call comes to the `result` that the script gives it, or to a fixed text.
  --diff A B      what differs, one line for each JSON path. A and B are each a quoted list of overrides, or a file that
                  holds the output of an earlier `geode wire`; OVERRIDES come on top of both.
                  Exit code: 0 the same, 1 different, 2 a fault.

  geode wire adapter=glm-payg tool_choice=required
  geode wire adapter=openai-payg tool_choice=named tool_choice.name=grep_files
  geode wire --diff "adapter=glm-payg" "adapter=glm-payg response=answer"
  geode wire adapter=anthropic-payg > saved.json; geode wire --diff saved.json adapter=anthropic-payg
"""


def main(argv: Sequence[str]) -> int:
    """Runs `geode wire` and returns its exit code. Raises ConfigFault."""
    words = list(argv)
    if "--help" in words or "-h" in words:
        print(_HELP, end="")
        return 0
    if "--diff" in words:
        return _diff(words)
    print(json.dumps(_requests(words), ensure_ascii=False, indent=2))
    return 0


def _requests(words: Sequence[str]) -> list[dict[str, Any]]:
    from geode.wire import requests_of

    found = requests_of(words)
    for notice in found.notices:
        more = f" ({notice.override})" if notice.override else ""
        print(f"geode: note: {notice.message}{more}", file=sys.stderr)
    if found.ended:
        print(f"geode: note: {len(found.requests)} requests: {found.ended}", file=sys.stderr)
    return found.requests


def _diff(words: list[str]) -> int:
    from geode.wire.diff import differences

    place = words.index("--diff")
    sides, common = words[place + 1 : place + 3], words[:place] + words[place + 3 :]
    if len(sides) < 2:
        raise ConfigFault(['--diff: needs two sides, e.g. geode wire --diff "adapter=glm-payg" saved.json'])
    left, right = (_side(side, common) for side in sides)
    lines = differences(left, right)
    for line in lines:
        print(line)
    return 1 if lines else 0


def _side(side: str, common: Sequence[str]) -> list[Any]:
    """A side of a comparison: a saved file, or overrides."""
    path = Path(side)
    if "=" not in side and (path.is_file() or path.suffix == ".json"):
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigFault([f"--diff: cannot read {side!r}: {error.strerror}"]) from error
        except ValueError as error:
            raise ConfigFault([f"--diff: {side!r} is no JSON: {error}"]) from error
        if not isinstance(saved, list):
            raise ConfigFault([f"--diff: {side!r} holds no JSON array of requests"])
        return saved
    try:
        words = shlex.split(side)
    except ValueError as error:
        raise ConfigFault([f"--diff: {side!r}: {error}"]) from error
    return _requests([*words, *common])

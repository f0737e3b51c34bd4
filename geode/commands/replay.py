"""`geode replay RUN_DIR [OVERRIDES]`: plays a run's recorded answers again, and says where it now goes another way."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from geode.config_errors import ConfigFault
from geode.recorded_config import recorded_settings, run_folder

__all__ = ["main"]

_USAGE = "RUN_DIR [replay.tools=record|run] [replay.dir=FOLDER] [OVERRIDES]"


def main(argv: Sequence[str]) -> int:
    """0 where the run goes as it was recorded, 1 where it does not. Raises ConfigFault.

    replay.tools: `record` (default) answers calls from the record, `run` runs them. replay.dir: keeps the new run
    there; else it is thrown away.
    """
    from geode.experiments.replay import first_input, replay
    from geode.journal import JOURNAL_FILE, JournalError, read_run

    folder, words = run_folder("replay", argv, _USAGE)
    own = {"replay.tools": "record", "replay.dir": ""}
    rest = []
    for word in words:
        key, _, value = word.lstrip("+").partition("=")
        if key in own:
            own[key] = value
        else:
            rest.append(word)
    tools: Any = own["replay.tools"]
    if tools not in ("record", "run"):
        raise ConfigFault([f"replay.tools: given {tools!r}, allowed: record, run"])
    with ExitStack() as stack:
        target = Path(own["replay.dir"] or stack.enter_context(tempfile.TemporaryDirectory(prefix="geode-replay-")))
        if target.resolve() == folder:
            raise ConfigFault(["replay.dir: given the recorded run itself, allowed: another folder"])
        try:
            records = read_run(folder / JOURNAL_FILE)
            header = [r for r in first_input(records) if r["event"] == "journal"][-1]  # a resumption's settings hold
            settings = recorded_settings(header, rest, folder)
            lines = asyncio.run(replay(settings, folder, target, tools))
        except JournalError as error:
            raise ConfigFault([f"replay: {error}"]) from error
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigFault([f"replay: the journal cannot be read: {type(error).__name__}: {error}"]) from error
    for line in lines:
        print(line)
    calls = sum(r["event"] == "LLM_CALL_ENDED" for r in first_input(records))
    verdict = f"{len(lines)} difference{'s' * (len(lines) != 1)}" if lines else "no difference"
    about = "recorded results" if tools == "record" else "tools run again"
    print(f"[replayed {calls} LLM calls, {about}: {verdict}]")
    return 1 if lines else 0

"""A run with its console display, as `geode` and `geode resume` make it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from geode.config_errors import OutputError

if TYPE_CHECKING:
    from geode.loop.result import AgenticResult
    from geode.runner.resume import ResumePoint
    from geode.settings import Settings

__all__ = ["CANCELLED", "exit_code", "run_displayed"]

CANCELLED = 130
"""Exit code of a run that was cancelled."""


def exit_code(result: AgenticResult) -> int:
    """0 for an answer, 130 for a cancelled run, 1 for the rest."""
    from geode.contract import TerminationReason

    codes = {
        TerminationReason.NATURAL: 0,
        TerminationReason.FORCED_TEXT: 0,
        TerminationReason.USER_CANCELLED: CANCELLED,
    }
    return codes.get(result.termination_reason, 1)


def run_displayed(
    settings: Settings, folder: Path, *, in_sweep: bool = False, resume: ResumePoint | None = None
) -> AgenticResult:
    """Runs settings with the console display that they ask for. Raises ConfigFault, OutputError,
    KeyboardInterrupt."""
    from geode.display import Display, summary_line
    from geode.runner import run_settings

    mode = settings.display.mode
    display = Display("quiet" if in_sweep and mode == "auto" else mode)

    async def main() -> AgenticResult:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):  # before and after the loop, which has its own for its time
            if signal.getsignal(number) is not signal.SIG_IGN:
                with contextlib.suppress(NotImplementedError, RuntimeError):
                    asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await run_settings(
            settings,
            folder,
            observers=(display.observe,),
            on_notice=display.notice,
            on_prompt=display.pause,
            on_mask=display.hide,
            resume=resume,
        )

    try:
        result = asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        display.close()
    try:
        if in_sweep and mode == "auto":
            print(f"  {summary_line(result, folder)}", file=sys.stderr, flush=True)
        else:
            display.finish(result, folder)
            sys.stdout.flush()
    except OSError as error:  # nobody reads, or the disk is full: the rest of the output has no place to go either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        where = folder / "result.json"
        raise OutputError(f"the answer cannot be printed: {error.strerror or error}; it is in {where}") from error
    return result

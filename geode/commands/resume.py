"""`geode resume RUN_DIR [OVERRIDES]`: goes on with a run that was cut off, cancelled, or reached a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from geode.config_errors import ConfigFault
from geode.contract import TerminationReason
from geode.recorded_config import given_keys, recorded_settings, run_folder

if TYPE_CHECKING:
    from geode.runner.resume import ResumePoint
    from geode.settings import Settings

__all__ = ["main"]

RESULT_FILE = "result.json"
_ANSWERED = (TerminationReason.NATURAL, TerminationReason.FORCED_TEXT)
_ASKED = TerminationReason.USER_CLARIFICATION_NEEDED


def main(argv: Sequence[str]) -> int:
    """Goes on with a run in its own folder; the exit code is the run's. Raises ConfigFault."""
    from geode.displayed_run import exit_code, run_displayed
    from geode.journal import JournalError
    from geode.runner.records import write_result
    from geode.runner.resume import read_resume_point

    folder, words = run_folder("resume", argv, "RUN_DIR [OVERRIDES]")
    try:
        point = read_resume_point(folder)
    except JournalError as error:
        raise ConfigFault([f"resume: {error}"]) from error
    settings = recorded_settings(point.header, words, folder)
    ready = _with_input(point, settings, "task.prompt" in given_keys(words))
    if ready is None:
        if not (folder / RESULT_FILE).is_file():  # the process ended between the journal's last line and this file
            write_result(folder / RESULT_FILE, point.result(settings), str)
        reason = (point.ended or {}).get("termination_reason")
        print(f"geode: nothing to do: the run ended {reason}. To go on with it: task.prompt='...'")
        return 0
    return exit_code(run_displayed(settings, folder, resume=ready))


def _with_input(point: ResumePoint, settings: Settings, prompted: bool) -> ResumePoint | None:
    """The point with the user's next input, None where there is nothing to go on with. Raises ConfigFault."""
    ended = point.ended
    if prompted or not (point.messages or point.additions):
        return replace(point, text=settings.task.prompt)
    if ended is None:
        return point
    reason = TerminationReason(ended["termination_reason"])
    if reason in _ANSWERED and not point.open_end:
        return None
    question = " ".join(str(ended.get("text") or "").split())[:300]
    if reason is _ASKED:
        raise ConfigFault([f"task.prompt: given nothing, allowed: an answer to what the run asked: {question}"])
    if not point.open_end:
        raise ConfigFault([f"task.prompt: given nothing, allowed: what to go on with, since the run ended {reason}"])
    return point

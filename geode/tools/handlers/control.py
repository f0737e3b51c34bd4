"""ask_user and request_action: the two ways in which a model hands the turn to a person."""

from __future__ import annotations

from typing import Any

from geode.contract import TerminationReason
from geode.tools.types import ASKER, EndRequest, ToolContext, ToolReturn

__all__ = ["ask_user", "request_action"]


async def ask_user(
    question: str, context: ToolContext, options: list[str] | None = None
) -> dict[str, Any] | ToolReturn:
    """The person's answer; where nobody can answer, the run ends with the question as its text."""
    text = question if not options else question + "\n" + "\n".join(f"{n}. {o}" for n, o in enumerate(options, 1))
    asker = context.services.get(ASKER)
    answer: str | None = await asker.ask(text) if asker is not None else None
    if answer is None:
        detail = {"question": question, "options": list(options or [])}
        return ToolReturn(
            "There is nobody to answer now. The run ends here with your question.",
            end=EndRequest(TerminationReason.USER_CLARIFICATION_NEEDED, text, detail),
        )
    chosen = answer.strip()
    if options and chosen.isascii() and chosen.isdigit() and 1 <= int(chosen) <= len(options):
        chosen = options[int(chosen) - 1]
    return {"question": question, "answer": chosen}


def request_action(action: str, context: ToolContext, reason: str = "") -> ToolReturn:
    """Ends the run: something outside of it must be done before it can go on."""
    text = action if not reason else f"{action}\n\nReason: {reason}"
    return ToolReturn(
        "The request was handed on. The run ends here and can be resumed when it is done.",
        end=EndRequest(TerminationReason.MODEL_ACTION_REQUIRED, text, {"action": action, "reason": reason}),
    )

"""What geode itself says to a model in a tool result: fixed texts, no clock, no random, so prefixes stay stable."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence

from geode.contract import InputFault, Tier

__all__ = [
    "CANCELLED_ITSELF",
    "DISABLED",
    "INTERRUPTED",
    "NO_HANDLER",
    "OUT_OF_TIME",
    "REWRITTEN",
    "SILENT_ERROR",
    "alternative_result",
    "blocked",
    "denied_by_policy",
    "denied_by_user",
    "denied_no_terminal",
    "input_fault",
    "internal",
    "is_offloaded",
    "null_byte",
    "offload_failed",
    "offloaded",
    "structured_error",
    "timed_out",
    "unknown_tool",
    "violations",
]

CANCELLED_ITSELF = "CancelledError: the tool's own work was cancelled."
DISABLED = "Tools are disabled in this round: the call was not run. Answer in text."
INTERRUPTED = "The call was interrupted before it came back: it has no result."
NO_HANDLER = "This tool has no handler here: it can be described, not run."
OUT_OF_TIME = "The time budget ended before this call came back: it was stopped and has no result."
REWRITTEN = "An interceptor rewrote the arguments."
SILENT_ERROR = "The tool failed and gave no message."

_OFFLOADED = re.compile(r"\[The result is too large to show whole \(.*\)\. It is kept as ref_id ")
_SHOWN_ARGUMENTS = 200
_SHOWN_NAMES = 50


def input_fault(fault: InputFault, arguments: str | None) -> str:
    """Why the arguments of a call could not be used."""
    sent = arguments or ""
    if fault is InputFault.CUT:
        return (
            "The call was not run: the response reached its output limit before the call was complete. "
            "Make the call again with shorter arguments, or split the work over several calls."
        )
    if fault is InputFault.TOO_LONG:
        return f"The call was not run: its arguments are too long ({len(sent)} characters). Send shorter ones."
    if fault is InputFault.NOT_AN_OBJECT:
        return (
            "The call was not run: its arguments are valid JSON but no object. "
            f"Send one JSON object with named arguments. You sent: {_start(sent)}"
        )
    return (
        f"The call was not run: its arguments are invalid JSON ({_json_error(sent)}). "
        f"Send one valid JSON object. You sent: {_start(sent)}"
    )


def _json_error(sent: str) -> str:
    try:
        json.loads(sent)
    except ValueError as error:
        return str(error)
    except RecursionError:
        return "nested too deeply"
    return "it cannot be read"


def _start(sent: str) -> str:
    return sent if len(sent) <= _SHOWN_ARGUMENTS else f"{sent[:_SHOWN_ARGUMENTS]}... ({len(sent)} characters in all)"


def internal(error: BaseException) -> str:
    return f"The call could not be handled: {type(error).__name__}: {error}"


def unknown_tool(name: str, available: Sequence[str]) -> str:
    """Names the tools that there are, the nearest first where one is near."""
    if not available:
        return f"There is no tool {_start(name)!r}, and no tools are available. Answer in text."
    near = difflib.get_close_matches(name, available, n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    more = f", and {len(available) - _SHOWN_NAMES} more" if len(available) > _SHOWN_NAMES else ""
    return f"There is no tool {_start(name)!r}.{hint} Available tools: {', '.join(available[:_SHOWN_NAMES])}{more}."


def violations(name: str, lines: Sequence[str]) -> str:
    """The validator's paths and texts."""
    return f"The call was not run: the arguments do not fit the schema of {name}:\n" + "\n".join(
        f"- {line}" for line in lines
    )


def null_byte(path: str) -> str:
    return f"The call was not run: the arguments hold a null byte (at {path}). Send them without it."


def timed_out(seconds: float, *, stopped: bool) -> str:
    """stopped: False where the handler could not be ended (a thread): what it does may still have effects."""
    end = " and was stopped." if stopped else ". It was given up, but may still be running."
    return f"The tool did not finish within {seconds:g} s{end}"


def denied_by_policy(name: str, tier: Tier, rule: bool) -> str:
    cause = "a safety rule denies this call" if rule else f"the safety policy denies {tier} tools"
    return f"Denied: {cause}. {name} was not run. Do not call it again like this; go on another way."


def denied_by_user(name: str, reason: str) -> str:
    said = f" They said: {reason}" if reason else ""
    return f"Denied: the user did not approve this call. {name} was not run.{said} Do not repeat it; go on another way."


def denied_no_terminal(name: str, tier: Tier) -> str:
    return (
        f"Denied: {name} ({tier}) needs a person's approval and there is nobody to ask. It was not run. "
        "Do not call it again; go on another way."
    )


def blocked(name: str, reason: str) -> str:
    return f"Denied: {name} was blocked and not run: {reason}"


def alternative_result(name: str, other: str) -> str:
    return f"[{name} failed again; this is the result of {other} with the same input]"


def structured_error(name: str, error: str, failures: int, tried: Sequence[str], others: Sequence[str]) -> str:
    """The last step of the recovery chain, as a JSON text."""
    advice = f"Do not call {name} with this input again. Check the input against the error, or take another way"
    advice += f" ({', '.join(others)})." if others else "."
    report = {
        "error": error,
        "tool": name,
        "failures_in_a_row": failures,
        "tried": list(tried),
        "what_to_do_instead": advice,
    }
    return json.dumps(report, ensure_ascii=False)


def offloaded(ref: str, size_bytes: int, tokens: int, lines: int, shape: str, head: str, tail: str) -> str:
    """The summary that stands in the context for a result that went to the offload store."""
    about = f"{size_bytes} bytes, about {tokens} tokens, {lines} {'line' if lines == 1 else 'lines'}"
    parts = [
        f"[The result is too large to show whole ({about}{'; ' + shape if shape else ''}). It is kept as ref_id {ref}: "
        f'read it with recall_tool_result(ref_id="{ref}", offset, limit, pattern).]',
        f"[start]\n{head}",
    ]
    if tail:
        parts.append(f"[end]\n{tail}")
    return "\n".join(parts)


def is_offloaded(text: str) -> bool:
    """Whether a result's text is such a summary."""
    return _OFFLOADED.match(text) is not None


def offload_failed(why: str, size_bytes: int, tokens: int, head: str, tail: str) -> str:
    """As `offloaded`, where the store could not take the result."""
    parts = [
        f"[The result is too large to show whole ({size_bytes} bytes, about {tokens} tokens) and was not kept: {why}. "
        "Ask for less of it.]",
        f"[start]\n{head}",
    ]
    if tail:
        parts.append(f"[end]\n{tail}")
    return "\n".join(parts)

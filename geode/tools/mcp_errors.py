"""Why an MCP server cannot be used, in one line."""

from __future__ import annotations

from geode.tools.mcp_process import ServerProcess

__all__ = ["McpStartError", "leaf", "one_line", "start_fault"]


class McpStartError(Exception):
    """A server could not be started: one line that says why."""


def leaf(error: BaseException) -> BaseException:
    """The first single error in a group."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def one_line(error: BaseException) -> str:
    """An error's message, short."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"its answer is not of the protocol: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return (" ".join(str(error).split()) or type(error).__name__)[:500]


def start_fault(
    error: BaseException | None, command: str | None, process: ServerProcess | None, timeout_s: float
) -> str:
    """Why a start failed. error: None where there was no answer in time. command: None for a server over HTTP."""
    if isinstance(error, McpStartError):
        return str(error)
    if isinstance(error, FileNotFoundError) and command is not None:
        return f"there is no command {command!r}"
    if error is None:
        text = f"no answer within {timeout_s:g} s"
    elif process is not None and process.by_itself:
        status = process.exit_status
        text = "it ended before it answered" + (f" (exit status {status})" if status is not None else "")
    elif isinstance(error, OSError) and command is not None:
        return f"cannot run {command!r}: {error.strerror or error}"
    else:
        text = one_line(error)
    return f"{text}: {process.log.last[:200]}" if process is not None and process.log.last else text

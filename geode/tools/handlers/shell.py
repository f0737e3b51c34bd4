"""run_bash: a command line in the workspace, in the sandbox that the config asks for."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from geode.tools.sandbox import SandboxOptions, run_command
from geode.tools.types import ToolContext, ToolError

__all__ = ["run_bash"]


async def run_bash(command: str, context: ToolContext, timeout_s: float | None = None) -> dict[str, Any]:
    """Exit code and bounded output. A command that fails is a result; one that cannot be started is an error."""
    if "\0" in command:
        raise ToolError("the command holds a null byte")
    options = SandboxOptions.from_limits(context.limits.get("sandbox") or {})
    limits = [value for value in (timeout_s, options.timeout_s or None, _time_left(context)) if value is not None]
    limit = min(limits) if limits else None
    try:
        result = await run_command(
            command,
            workspace=context.workspace,
            environ=context.environ or os.environ,
            options=options,
            timeout_s=limit,
            notify=context.notify,
        )
    except (OSError, RuntimeError) as error:
        raise ToolError(f"the command could not be started: {error}") from None
    if result.failure:
        raise ToolError(f"the command could not be started: {result.failure}")
    out: dict[str, Any] = {
        "exit_code": result.exit_code,
        "stdout": result.stdout.text(),
        "stderr": result.stderr.text(),
        "stdout_bytes": result.stdout.total,
        "stderr_bytes": result.stderr.total,
        "truncated": result.stdout.truncated or result.stderr.truncated,
        "timed_out": result.ended == "timeout",
    }
    if result.ended == "timeout":
        out["note"] = f"ended after {limit:g} s, with everything it had started"
    elif result.ended == "processes":
        out["note"] = f"ended: it had started more than {options.processes} processes"
    elif result.ended == "lost":
        out["note"] = "ended: it killed the process that watched over it"
    elif result.background:
        out["note"] = f"{result.background} processes that it had left in the background were ended with it"
    return out


def _time_left(context: ToolContext) -> float | None:
    """Seconds to the call's deadline, less what handing the output back takes."""
    if context.deadline is None:
        return None
    left = context.deadline - asyncio.get_running_loop().time()
    return max(0.1, left - 1.0 if left > 3 else left * 0.7)

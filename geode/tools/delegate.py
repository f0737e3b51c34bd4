"""`delegate_task`: hands a task to a sub-agent. The nested run itself is the runner's, behind a service."""

from __future__ import annotations

from typing import Protocol

from geode.tools.types import SUBAGENTS, ToolContext, ToolError, ToolReturn

__all__ = ["Delegation", "delegate_task"]


class Delegation(Protocol):
    """Runs sub-agents for a run."""

    async def delegate(
        self, task: str, *, toolset: str | None, background: bool, round: int, deadline: float | None
    ) -> ToolReturn:
        """The sub-agent's answer, or that it runs in the background. Raises ToolError where it cannot be started."""
        ...


async def delegate_task(
    task: str, toolset: str | None = None, background: bool = False, *, context: ToolContext
) -> ToolReturn:
    """The handler. Raises ToolError where the run has no sub-agents."""
    service: Delegation | None = context.services.get(SUBAGENTS)
    if service is None:
        raise ToolError("This run has no sub-agents: do the task yourself.")
    return await service.delegate(
        task, toolset=toolset, background=background, round=context.round, deadline=context.deadline
    )

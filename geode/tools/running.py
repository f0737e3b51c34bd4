"""Running a handler: on the event loop or in a thread, within its deadline, with every fault made a result."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from geode.tools import texts
from geode.tools.recovery import Attempt
from geode.tools.results import Converted, convert
from geode.tools.threads import DaemonPool
from geode.tools.types import Tool, ToolContext, ToolEnvironment, ToolError

__all__ = ["HandlerRunner", "own_copy"]


_NESTED = (dict, list)


class HandlerRunner:
    """Runs handlers for one processor. timeout_s: seconds a call may take where its tool says nothing; 0 is no limit.

    cancel_grace_s: seconds that a cancelled async handler has for its clean-up; past that it is abandoned.
    """

    def __init__(
        self, environment: ToolEnvironment, *, timeout_s: float, cancel_grace_s: float, max_threads: int
    ) -> None:
        self._environment = environment
        self._timeout_s = timeout_s
        self._cancel_grace_s = cancel_grace_s
        self._max_threads = max_threads
        self._pool: DaemonPool | None = None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    async def attempt(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        round: int,
        tool_use_id: str,
        deadline: float | None,
        abandon: Callable[[Attempt], None],
    ) -> Attempt:
        """One run of a handler. Raises CancelledError where it is cancelled from outside, nothing else.

        deadline: the batch's, for the handler to know; it is enforced by the batch. abandon: called with the result
        where the handler ignores its cancellation at the tool's own deadline.
        """
        loop = asyncio.get_running_loop()
        arguments = own_copy(arguments)
        seconds = self._timeout_s if tool.timeout_s is None else tool.timeout_s
        at = loop.time() + seconds if seconds > 0 else None
        stopped = None if tool.is_async else threading.Event()
        common = self._environment
        context = ToolContext(
            workspace=common.workspace,
            round=round,
            tool_use_id=tool_use_id,
            tool=tool.spec.name,
            deadline=at if deadline is None else deadline if at is None else min(at, deadline),
            notify=common.notify,
            environ=common.environ,
            limits=common.limits,
            services=common.services,
            stopped=stopped,
        )
        task = asyncio.current_task()
        assert task is not None
        cancels = task.cancelling()
        limit = _Limit(loop, task, at, self._cancel_grace_s, lambda: abandon(_timed_out(seconds, stopped=False)))
        try:
            result = await self._call(tool, arguments, context)
        except ToolError as error:
            return Attempt(Converted(_message(error) or texts.SILENT_ERROR, True), "error", "ToolError")
        except asyncio.CancelledError:
            if limit.expired and task.cancelling() - 1 <= cancels:
                return _timed_out(seconds, stopped=stopped is None)
            if task.cancelling() > cancels:
                raise
            return Attempt(Converted(texts.CANCELLED_ITSELF, True), "error", "CancelledError")
        except (Exception, SystemExit) as error:
            return _timed_out(seconds, stopped=True) if limit.expired else _raised(error)
        finally:
            limit.end()
            if stopped is not None:
                stopped.set()
        if result.is_error and not result.content:
            result = Converted(texts.SILENT_ERROR, True, result.end)
        return Attempt(result, "error" if result.is_error else "ok")

    async def _call(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Converted:
        if tool.is_async:
            value = tool.handler(arguments, context)
        else:
            if self._pool is None:
                self._pool = DaemonPool(self._max_threads)
            value = await self._pool.run(partial(_in_thread, tool, arguments, context))
            if isinstance(value, Converted):
                return value
        return convert(await value if inspect.isawaitable(value) else value)


class _Limit:
    """A deadline on the running task: it is cancelled then, and if that does not help within the grace, `abandon` runs.

    As `asyncio.timeout`, but one timer serves both, which is most of what a quick call would spend on it.
    """

    __slots__ = ("_abandon", "_grace_s", "_loop", "_task", "_timer", "expired")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        task: asyncio.Task[Any],
        at: float | None,
        grace_s: float,
        abandon: Callable[[], None],
    ) -> None:
        self.expired = False
        self._loop = loop
        self._task = task
        self._grace_s = grace_s
        self._abandon = abandon
        self._timer = None if at is None else loop.call_at(at, self._expire)

    def _expire(self) -> None:
        self.expired = True
        self._task.cancel()
        self._timer = self._loop.call_later(self._grace_s, self._abandon)

    def end(self) -> None:
        """The task has come back: takes back the cancel, if one was made."""
        if self._timer is not None:
            self._timer.cancel()
        if self.expired:
            self._task.uncancel()


def _in_thread(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Any:
    """What the handler gave, made ready here: a large result is no work for the event loop."""
    value = tool.handler(arguments, context)
    return value if inspect.isawaitable(value) else convert(value)


def own_copy(value: Any) -> Any:
    """A JSON value that may be changed without a change in the history, which holds the original."""
    if type(value) is dict or isinstance(value, Mapping):
        return {key: own_copy(item) if type(item) in _NESTED else item for key, item in value.items()}
    if isinstance(value, list):
        return [own_copy(item) for item in value]
    return value


def _timed_out(seconds: float, *, stopped: bool) -> Attempt:
    return Attempt(Converted(texts.timed_out(seconds, stopped=stopped), True), "timeout", "TimeoutError")


def _raised(error: BaseException) -> Attempt:
    name = type(error).__name__
    message = _message(error)
    return Attempt(Converted(f"{name}: {message}" if message else name, True), "error", name)


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        return ""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")

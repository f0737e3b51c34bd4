"""A pool of daemon threads for sync handlers: a hung one neither starves the others nor keeps the process alive.

`concurrent.futures.ThreadPoolExecutor` is no good here: the interpreter joins its threads at exit.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["DaemonPool"]

_IDLE_S = 10.0


class _Job:
    __slots__ = ("context", "finished", "future", "given_up", "loop", "work")

    def __init__(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.context = contextvars.copy_context()
        self.given_up = False
        self.finished = False


class DaemonPool:
    """At most `size` calls at a time, not counting those that were given up and still run. Threads start on demand."""

    def __init__(self, size: int, name: str = "geode-tool") -> None:
        self._size = size
        self._name = name
        self._changed = threading.Condition()
        self._jobs: collections.deque[_Job] = collections.deque()
        self._threads = 0
        self._idle = 0
        self._stuck = 0
        self._closed = False

    async def run(self, work: Callable[[], Any]) -> Any:
        """What `work()` gives or raises. On cancellation the thread is left to itself, and another takes its place."""
        job = _Job(work, asyncio.get_running_loop())
        with self._changed:
            self._jobs.append(job)
            self._staff()
        try:
            return await job.future
        except asyncio.CancelledError:
            with self._changed:
                if job in self._jobs:
                    self._jobs.remove(job)
                elif not job.finished:
                    job.given_up = True
                    self._stuck += 1
                    self._staff()
            raise

    def close(self) -> None:
        """Ends the idle threads now; by themselves they would end after some seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _staff(self) -> None:
        """Sees to it that somebody serves the jobs; called with the lock held."""
        if len(self._jobs) > self._idle and self._threads - self._stuck < self._size:
            self._threads += 1
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._jobs:
                    if self._closed or not self._changed.wait(_IDLE_S):
                        break
                self._idle -= 1
                surplus = self._threads - self._stuck > self._size
                if not self._jobs or surplus:
                    self._threads -= 1
                    return
                job = self._jobs.popleft()
            outcome = _perform(job)
            with self._changed:
                job.finished = True
                if job.given_up:
                    self._stuck -= 1
            _deliver(job, *outcome)


def _perform(job: _Job) -> tuple[Callable[[Any], None], Any]:
    try:
        return job.future.set_result, job.context.run(job.work)
    except StopIteration as error:  # a future cannot carry it
        return job.future.set_exception, RuntimeError(f"StopIteration: {error}")
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        return job.future.set_exception, error
    except BaseException as error:  # KeyboardInterrupt and its like end the event loop: here no user pressed a key
        return job.future.set_exception, RuntimeError(f"{type(error).__name__}: {error}")


def _deliver(job: _Job, setter: Callable[[Any], None], value: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits any more
        job.loop.call_soon_threadsafe(_settle, job.future, setter, value)


def _settle(future: asyncio.Future[Any], setter: Callable[[Any], None], value: Any) -> None:
    if not future.done():
        setter(value)

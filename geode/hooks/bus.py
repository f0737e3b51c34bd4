"""The bus: carries a run's payloads to its observers and interceptors, and holds off those that raise or hang."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from geode.contract import Notice, NoticeSink
from geode.hooks.events import INTERCEPTABLE, Event
from geode.hooks.payloads import Payload

__all__ = ["Block", "HookBus"]


@dataclass(frozen=True, slots=True)
class Block:
    """An interceptor's verdict that stops what was about to happen."""

    reason: str


P = TypeVar("P", bound=Payload)
Observer = Callable[[Any], Awaitable[None] | None]
Interceptor = Callable[[Any], Any]


@dataclass(slots=True)
class _Lane:
    """A user's observer with a queue of its own, so that a slow one delays nobody and keeps its order."""

    name: str
    observer: Observer
    queue: asyncio.Queue[Payload] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None
    broken: bool = False


_GRACE_S = 0.25
"""Seconds past a hook's own limit that the end of a run waits, so that a slow hook is told of in its own words."""


class _TooSlow(Exception):
    """A hook took longer than it may."""


class HookBus:
    """Carries payloads to observers and interceptors of one run.

    timeout_s: seconds one user hook may take for one event; past that it is switched off (observer) or blocks
    (interceptor). `notify` gets one notice per faulty hook.
    """

    def __init__(self, *, timeout_s: float = 5.0, notify: NoticeSink | None = None) -> None:
        self._inline: list[tuple[frozenset[Event] | None, Callable[[Payload], None]]] = []
        self._lanes: list[tuple[frozenset[Event] | None, _Lane]] = []
        self._interceptors: list[tuple[Event, str, Interceptor]] = []
        self._timeout_s = timeout_s
        self._notify = notify or (lambda _notice: None)
        self._reported: set[str] = set()

    def inline(self, observer: Callable[[Payload], None], events: frozenset[Event] | None = None) -> None:
        """Adds one of geode's own observers, called at once: it must be quick and may not raise."""
        self._inline.append((events, observer))

    def observe(self, observer: Observer, events: frozenset[Event] | None = None, name: str = "") -> None:
        """Adds a user's observer (sync or async) for `events` (None is all)."""
        self._lanes.append((events, _Lane(name or _name(observer), observer)))

    def intercept_with(self, event: Event, interceptor: Interceptor, name: str = "") -> None:
        """Adds an interceptor: it returns None (go on), a payload of the same event (rewritten) or a `Block`."""
        if event not in INTERCEPTABLE:
            allowed = ", ".join(sorted(INTERCEPTABLE))
            raise ValueError(f"{event} cannot be intercepted (allowed: {allowed})")
        self._interceptors.append((event, name or _name(interceptor), interceptor))

    def ask_as_well(self, other: HookBus) -> None:
        """Adds another bus's interceptors: what a sub-agent does passes those of its run."""
        self._interceptors += other._interceptors

    def has_interceptors(self, event: Event) -> bool:
        """Whether anybody would be asked at `event`."""
        return any(e is event for e, _, _ in self._interceptors)

    def emit(self, payload: Payload) -> None:
        """Tells every observer. Never raises, never waits."""
        for events, observer in self._inline:
            if events is None or payload.event in events:
                try:
                    observer(payload)
                except Exception:  # it must not raise, and if it does the run goes on
                    continue
        for events, lane in self._lanes:
            if not lane.broken and (events is None or payload.event in events):
                lane.queue.put_nowait(payload)
                if lane.task is None:
                    lane.task = asyncio.get_running_loop().create_task(self._drain(lane))

    async def intercept(self, payload: P) -> P | Block:
        """Asks the interceptors in their order; the result is the payload to go on with, or a Block."""
        for event, name, interceptor in self._interceptors:
            if event is not payload.event:
                continue
            try:
                verdict = await self._bounded(interceptor, payload)
            except asyncio.CancelledError:
                raise
            except _TooSlow:
                return Block(f"interceptor {name} did not answer within {self._timeout_s:g} s")
            except Exception as error:
                return Block(f"interceptor {name} raised {type(error).__name__}: {error}")
            if isinstance(verdict, Block):
                return verdict
            if verdict is None:
                continue
            if type(verdict) is not type(payload):
                return Block(f"interceptor {name} returned {type(verdict).__name__}, not {type(payload).__name__}")
            for item in fields(payload):
                was, now = getattr(payload, item.name), getattr(verdict, item.name)
                kind = next((k for k in (str, Mapping) if isinstance(was, k)), None)
                if kind is not None and not isinstance(now, kind):
                    return Block(f"interceptor {name} returned {item.name} as {type(now).__name__}")
            payload = verdict
        return payload

    async def aclose(self) -> None:
        """Lets the observers finish what is queued, each for at most `timeout_s`, then ends them."""
        lanes = [lane for _, lane in self._lanes if lane.task is not None]
        if lanes:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_s + _GRACE_S):
                    await asyncio.gather(*(lane.queue.join() for lane in lanes))
        for lane in lanes:
            assert lane.task is not None
            if not lane.broken and not lane.queue.empty():
                self._report(lane.name, f"was ended with the run: {lane.queue.qsize()} events had to wait too long")
            lane.task.cancel()
        await asyncio.gather(*(lane.task for lane in lanes if lane.task), return_exceptions=True)

    async def _drain(self, lane: _Lane) -> None:
        while True:
            payload = await lane.queue.get()
            try:
                if not lane.broken:
                    await self._bounded(lane.observer, payload)
            except asyncio.CancelledError:
                raise
            except _TooSlow:
                lane.broken = True
                self._report(lane.name, f"took over {self._timeout_s:g} s at {payload.event} and was switched off")
            except Exception as error:
                self._report(lane.name, f"raised {type(error).__name__} at {payload.event}: {error}")
            finally:
                lane.queue.task_done()

    async def _bounded(self, hook: Callable[[Any], Any], payload: Payload) -> Any:
        """What the hook returns, at once or in the end. Raises `_TooSlow` past `timeout_s`."""
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__):
                    return await hook(payload)
                value = await _in_daemon_thread(hook, payload)
                return await value if inspect.isawaitable(value) else value
        except SystemExit as error:  # a hook does not end the run
            raise RuntimeError(f"SystemExit: {error}") from error
        except TimeoutError as error:
            if limit.expired():
                raise _TooSlow from error
            raise

    def _report(self, name: str, what: str) -> None:
        if name in self._reported:
            return
        self._reported.add(name)
        self._notify(Notice(f"hook:{name}", f"hook {name} {what}"))


async def _in_daemon_thread(function: Callable[[Any], Any], argument: Any) -> Any:
    """Runs a sync hook where it cannot block the run, nor (a daemon) the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(setter: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            setter(value)

    def work() -> None:
        try:
            value = function(argument)
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, StopIteration):  # a future cannot carry these
                error = RuntimeError(f"{type(error).__name__}: {error}")
            outcome: tuple[Callable[[Any], None], Any] = (future.set_exception, error)
        else:
            outcome = (future.set_result, value)
        with contextlib.suppress(RuntimeError):  # the event loop is gone: nobody waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, name="geode-hook", daemon=True).start()
    return await future


def _name(hook: object) -> str:
    return getattr(hook, "__qualname__", type(hook).__qualname__)

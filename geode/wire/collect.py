"""Runs a config against a capture in place of the network, with the run's own loop, and keeps what it sends."""

from __future__ import annotations

import asyncio
import importlib
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geode.config_errors import ConfigFault
from geode.contract import (
    Adapter,
    AdapterCallRequest,
    AdapterCallResult,
    History,
    Notice,
    NoticeSink,
    StopReason,
    TerminationReason,
    TextBlock,
)
from geode.hooks import HookBus
from geode.loop.result import End
from geode.loop.state import RunState, SessionRecord
from geode.loop.switching import Backend
from geode.runner.assembly import Budgets, assemble, check_request
from geode.runner.backends import DEFAULT_SCRIPT, Backends, load_script
from geode.runner.notices import NoticeBoard
from geode.runner.run import add_hooks
from geode.runner.toolbox import load_registry, open_toolbox
from geode.tools.approval import ApprovalDesk, find_approver
from geode.wire.conversation import CannedProcessor, Conversation

if TYPE_CHECKING:
    from geode.adapters.capture import CaptureTransport
    from geode.script import Script
    from geode.settings import Settings
    from geode.settings_adapter import AdapterSettings

__all__ = ["Collected", "collect", "requests_of"]

WORKSPACE = Path("/workspace")
"""Stands for the run's own folder wherever a prompt names it."""

DATE = "2000-01-01"
"""Stands for the day on which a run is made."""

_SDKS = {"messages": "anthropic", "responses": "openai", "chat": "openai"}


@dataclass(frozen=True, slots=True)
class Collected:
    """requests: in the order in which they were made. bodies: those of HTTP requests, byte for byte. notices: what a
    run of this config would say besides. ended: why there are fewer requests than asked for, "" where there are not.
    """

    requests: list[dict[str, Any]]
    bodies: list[bytes]
    notices: tuple[Notice, ...] = ()
    ended: str = ""


def requests_of(argv: Sequence[str], *, config_dirs: Iterable[str] = ()) -> Collected:
    """The requests of a command line's overrides. Raises ConfigFault. Not to be called inside an event loop."""
    from geode.compose import compose_settings

    return asyncio.run(collect(compose_settings(argv, config_dirs=config_dirs)))


async def collect(settings: Settings) -> Collected:
    """The first `wire.rounds` requests of a run. Raises ConfigFault.

    Assembly, loop and adapters are a run's own. Tools are not run, clocks do not count, nothing is sent.
    """
    from geode.adapters.capture import CaptureTransport

    wanted = settings.wire.rounds
    script = _script(settings) if wanted > 1 else None
    conversation = Conversation(script)
    transport = CaptureTransport(conversation.answer)
    if sdk := _SDKS.get(settings.adapter.wire):
        importlib.import_module(sdk)  # not inside a call, whose deadline would count the seconds that it takes
    notices = NoticeBoard()
    once = settings.llm.model_copy(update={"attempts": 1})
    settings = settings.model_copy(update={"llm": once, "adapter": _addressed(settings.adapter)})
    backends = _Backends(settings, {}, notices.post, transport)
    with tempfile.TemporaryDirectory(prefix="geode-wire-") as folder:
        try:
            ended = await _play(settings, backends, notices, script, transport, Path(folder), wanted)
        finally:
            await backends.aclose()
    requests = transport.requests[:wanted]
    if len(requests) == wanted:
        ended = ""
    return Collected(requests, transport.bodies[:wanted], _told(settings, notices), conversation.ended or ended)


async def _play(
    settings: Settings,
    backends: Backends,
    notices: NoticeBoard,
    script: Script | None,
    transport: CaptureTransport,
    folder: Path,
    wanted: int,
) -> str:
    """Plays the conversation; gives the reason of its end in words."""
    registry = load_registry(settings, need_handlers=False)
    backend = await backends.open()
    bus = HookBus(timeout_s=settings.hooks.timeout_s, notify=notices.post)
    add_hooks(settings, bus, observers=False)
    toolbox = open_toolbox(
        settings,
        registry,
        run_dir=folder,
        workspace=WORKSPACE,
        bus=bus,
        notify=notices.post,
        desk=ApprovalDesk(find_approver(None)),
        terminal=None,
        services={},
        environ={},
    )
    try:
        configured = Budgets.of(settings)
        seconds = [s for s in (configured.time_budget_s, configured.session_s) if s]
        loop = assemble(
            settings,
            backend=backend,
            backends=backends,
            toolbox=toolbox,
            workspace=WORKSPACE,
            history=History(),
            state=RunState(SessionRecord("wire")),
            bus=bus,
            notices=notices,
            budgets=Budgets(configured.max_rounds, 0, 0, configured.cost_budget, configured.token_budget),
            frozen={"date": DATE, "seconds_left": round(min(seconds)) if seconds else None},
        )
        check_request(loop, settings)
        loop.processor = CannedProcessor(script)
        loop.guards = (*loop.guards, _Enough(transport.requests, wanted))
        result = await loop.run(settings.task.prompt)
    finally:
        toolbox.processor.close()
        await bus.aclose()
    reason = f"the conversation ended {result.termination_reason.value}"
    if result.error is not None:
        reason += f": {result.error.get('message')}"
        if not transport.requests:
            raise ConfigFault([str(result.error.get("message"))])
    return reason


@dataclass(frozen=True, slots=True)
class _Enough:
    """A guard: ends the loop once the wanted requests were made."""

    requests: Sequence[Any]
    wanted: int

    def check(self, state: RunState) -> End | None:
        return End(TerminationReason.NATURAL) if len(self.requests) >= self.wanted else None


def _addressed(adapter: AdapterSettings) -> AdapterSettings:
    """A server of the run's own has no address before it starts: one without its port stands for it."""
    if adapter.local is None:
        return adapter
    return adapter.model_copy(update={"base_url": "http://127.0.0.1" + ("" if adapter.wire == "messages" else "/v1")})


def _script(settings: Settings) -> Script:
    name = settings.provider.script or settings.adapter.script or DEFAULT_SCRIPT
    return load_script(name, "provider.script" if settings.provider.script else "adapter.script")


def _told(settings: Settings, notices: NoticeBoard) -> tuple[Notice, ...]:
    told = tuple(notice for notice in notices.all() if notice.key != "scripted")
    if settings.mcp.servers:
        names = ", ".join(settings.mcp.servers)
        told += (Notice("wire.mcp", f"MCP servers are not started here, so their tools are missing: {names}"),)
    return told


class _Backends(Backends):
    """A run's backends. Adapters without HTTP are recorded where they are called."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], notify: NoticeSink, transport: CaptureTransport
    ) -> None:
        super().__init__(settings, environ, notify, transport)
        self._requests = transport.requests
        named = {settings.adapter.name: settings.adapter}
        self._wires = {name: adapter.wire for name, adapter in {**settings.adapters, **named}.items()}

    async def open(self) -> Backend:
        return self._recorded(await super().open())

    def switch(self, name: str, model: str | None) -> Backend:
        return self._recorded(super().switch(name, model))

    def _recorded(self, backend: Backend) -> Backend:
        from geode.adapters import HTTP_WIRES

        if self._wires[backend.adapter.name] in HTTP_WIRES:
            return backend
        return Backend(_Recorded(backend.adapter, self._requests), backend.window, backend.cost)


class _Recorded:
    """An adapter without HTTP: each call is described; a process is not started, its answer is a short text."""

    def __init__(self, inner: Adapter, requests: list[dict[str, Any]]) -> None:
        self.name, self.model = inner.name, inner.model
        self.max_tokens, self.capabilities = inner.max_tokens, inner.capabilities
        self._inner = inner
        self._requests = requests

    def build(self, request: AdapterCallRequest) -> bytes:
        return self._inner.build(request)

    def parse(self, payload: Mapping[str, Any], round: int = 1) -> AdapterCallResult:
        return self._inner.parse(payload, round)

    async def call(self, request: AdapterCallRequest) -> AdapterCallResult:
        describe = getattr(self._inner, "describe", None)
        if describe is not None:
            self._requests.append({key: value for key, value in describe(request).items() if value or key != "files"})
            return AdapterCallResult((TextBlock("captured"),), StopReason.END_TURN)
        self._requests.append({"adapter": self.name, "body": json.loads(self._inner.build(request))})
        return await self._inner.call(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

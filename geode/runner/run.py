"""The life of a run: folder, journal, hooks, backend, tools; the loop; then the result, and everything closed."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geode import __version__
from geode.config_errors import ConfigFault
from geode.contract import Delta, History, Notice, NoticeSink
from geode.hooks import Event, HookBus, Payload
from geode.journal import JOURNAL_FILE, Journal, JournalBusy
from geode.loop.result import AgenticResult
from geode.loop.state import Ledger, RunState, SessionRecord
from geode.runner.assembly import Budgets, assemble, check_request
from geode.runner.backends import Backends
from geode.runner.mcp import McpTools
from geode.runner.notices import NoticeBoard
from geode.runner.records import started_event, write_result
from geode.runner.sessions import open_session
from geode.runner.targets import load_target
from geode.runner.toolbox import load_registry, open_toolbox
from geode.runner.workspace import prepare_workspace
from geode.settings import Settings
from geode.tools.approval import ApprovalDesk, find_approver
from geode.tools.terminal import Terminal
from geode.tools.types import SUBAGENTS

if TYPE_CHECKING:
    from geode.runner.resume import ResumePoint

__all__ = ["add_hooks", "run_settings"]

Observer = Callable[[Payload], None]


async def run_settings(
    settings: Settings,
    run_dir: Path,
    *,
    observers: Sequence[Observer] = (),
    on_notice: Callable[[Notice], None] | None = None,
    on_prompt: Callable[[bool], None] | None = None,
    on_mask: Callable[[Callable[[str], str]], None] | None = None,
    on_delta: Callable[[Delta], None] | None = None,
    environ: Mapping[str, str] | None = None,
    resume: ResumePoint | None = None,
    processor: Callable[[HookBus], Any] | None = None,
) -> AgenticResult:
    """Runs one experiment in `run_dir` and leaves its journal and result there.

    observers: quick functions that see every event at once. on_prompt: told when a question stands on the terminal.
    on_mask: given what takes this run's secrets out of a text, before the first event.
    processor: makes what takes the place of the tools' processor. resume: where an earlier run of this folder stopped.
    Ctrl-C (SIGINT), SIGTERM, SIGHUP or a cancel of the calling task ends the run `user_cancelled`.
    Raises ConfigFault before anything is run.
    """
    environ = os.environ if environ is None else environ
    run_dir.mkdir(parents=True, exist_ok=True)
    notices = NoticeBoard()
    async with AsyncExitStack() as stack:
        backends = Backends(settings, environ, notices.post, played=resume.played if resume is not None else ())
        stack.push_async_callback(backends.aclose)
        registry = load_registry(settings)
        backend = await backends.open()
        servers = McpTools(settings, registry, environ=environ, notify=notices.post, log_dir=run_dir / "mcp")
        stack.push_async_callback(servers.aclose)
        await servers.open()
        masker = backends.masker

        def mask(text: str) -> str:
            return servers.mask(masker.text(text))

        if on_mask is not None:
            on_mask(mask)
        bus = HookBus(timeout_s=settings.hooks.timeout_s, notify=notices.post)
        add_hooks(settings, bus)
        workspace = prepare_workspace(settings.task, run_dir, copy=resume is None)
        terminal = Terminal.find(on_prompt=on_prompt)
        desk = ApprovalDesk(find_approver(terminal))
        run_id = resume.run_id if resume is not None else uuid.uuid4().hex[:12]
        agents = None
        if settings.subagents.enabled:
            from geode.runner.subagents import Shared, Subagents

            shared = Shared(settings, registry, backends, desk, terminal, workspace, environ, mask, run_id)
            agents = Subagents(shared, run_dir, bus, notices)
        toolbox = open_toolbox(
            settings,
            registry,
            run_dir=run_dir,
            workspace=workspace,
            bus=bus,
            notify=notices.post,
            desk=desk,
            terminal=terminal,
            services={SUBAGENTS: agents},
            environ=environ,
            mask=mask,
        )
        if processor is not None:
            toolbox.processor = processor(bus)
        stack.callback(toolbox.processor.close)
        history = History(resume.messages if resume is not None else ())
        session = _session(settings, run_dir, notices.post)
        state = RunState(session, Ledger(before=session.cost))
        if resume is not None:
            resume.restore(state)
        loop = assemble(
            settings,
            backend=backend,
            backends=backends,
            toolbox=toolbox,
            workspace=workspace,
            history=history,
            state=state,
            bus=bus,
            notices=notices,
            budgets=Budgets.of(settings),
            on_delta=on_delta,
            announcements=agents.announcements if agents is not None else tuple,
        )
        if agents is not None:
            agents.bind(loop, toolbox, Budgets.of(settings))
        check_request(loop, settings)

        journal = _open_journal(
            run_dir / JOURNAL_FILE,
            fsync=settings.journal.fsync,
            mask=mask,
            notify=notices.post,
            first=resume.next_number if resume is not None else 0,
            size=resume.size if resume is not None else None,
        )
        stack.callback(journal.close)
        journal.header(
            run_id=run_id,
            session_id=state.session.id,
            geode=__version__,
            resumed=resume is not None,
            workspace=str(workspace),
            settings=_recorded(settings),
        )
        bus.inline(journal.observe)
        history.watch(journal.watch)
        notices.tell(journal.notice)
        for observer in observers:
            bus.inline(observer)
        if on_notice is not None:
            notices.tell(on_notice)
        stack.push_async_callback(bus.aclose)
        bus.emit(started_event(loop, Budgets.of(settings), run_id, scripted=backends.scripted))
        if resume is not None:
            resume.begin(history, loop.calls)
        with _Signals():
            result = await loop.run(settings.task.prompt if resume is None else resume.text)
        try:
            write_result(run_dir / "result.json", result, mask)
        except OSError as error:  # the answer is still to be shown
            notices.post(Notice("result", f"result.json cannot be written: {error.strerror or error}"))
            result = replace(result, notices=notices.all())
    return result


def _recorded(settings: Settings) -> dict[str, Any]:
    """The settings as a journal holds them: the session is found again from any folder."""
    data = settings.model_dump(mode="json", by_alias=True)
    if settings.session.id is not None and settings.session.dir is not None:
        data["session"]["dir"] = str(Path(settings.session.dir).expanduser().absolute())
    return data


def _open_journal(path: Path, **options: Any) -> Journal:
    try:
        return Journal(path, **options)
    except JournalBusy as error:
        raise ConfigFault([str(error)]) from error
    except OSError as error:
        raise ConfigFault([f"the journal cannot be opened: {error.strerror or error} ({path})"]) from error


def _session(settings: Settings, run_dir: Path, notify: NoticeSink) -> SessionRecord:
    if settings.session.id is None or settings.session.dir is None:  # an id without a folder is a fault of the config
        return SessionRecord(run_dir.name)
    return open_session(settings.session.id, Path(settings.session.dir).expanduser(), notify)


def add_hooks(settings: Settings, bus: HookBus, *, observers: bool = True) -> None:
    """Loads the config's hooks into the bus; without `observers`, only what may change a run. Raises ConfigFault."""
    faults: list[str] = []
    for index, observer in enumerate(settings.hooks.observers if observers else ()):
        try:
            hook = load_target(f"hooks.observers.{index}", observer.model_dump(by_alias=True, exclude={"events"}))
        except ConfigFault as fault:
            faults += fault.lines
        else:
            bus.observe(hook, frozenset(Event(name) for name in observer.events) or None, observer.target)
    for index, interceptor in enumerate(settings.hooks.interceptors):
        try:
            hook = load_target(f"hooks.interceptors.{index}", interceptor.model_dump(by_alias=True, exclude={"event"}))
        except ConfigFault as fault:
            faults += fault.lines
        else:
            bus.intercept_with(Event(interceptor.event), hook, interceptor.target)
    if faults:
        raise ConfigFault(faults)


class _Signals:
    """While a run goes: the first SIGINT, SIGTERM or SIGHUP (a closed terminal; not under nohup) cancels it, so that it
    ends in order; a second one is fatal."""

    def __enter__(self) -> None:
        self._installed: set[signal.Signals] = set()
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def cancel(number: signal.Signals) -> None:
            loop.remove_signal_handler(number)
            self._installed.discard(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread: the caller's business
                loop.add_signal_handler(number, cancel, number)
                self._installed.add(number)

    def __exit__(self, *_exc: object) -> None:
        for number in self._installed:
            asyncio.get_running_loop().remove_signal_handler(number)

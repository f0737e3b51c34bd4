"""Adapters: one per wire family, each imported only when a run uses it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from geode.adapters.options import AdapterOptions
from geode.contract import Adapter, NoticeSink

if TYPE_CHECKING:
    import httpx2

    from geode.adapters.credentials import Secrets
    from geode.script import Script, ScriptPlayer

__all__ = ["HTTP_WIRES", "make_adapter"]

HTTP_WIRES: Final = ("messages", "responses", "chat")
"""Wire families that go over HTTP through an SDK."""


def make_adapter(
    options: AdapterOptions,
    *,
    secrets: Secrets,
    notify: NoticeSink,
    on_unsupported: Literal["send", "degrade", "error"] = "send",
    unsendable: Literal["drop", "error"] = "drop",
    transport: httpx2.AsyncBaseTransport | None = None,
    script: Script | None = None,
    player: ScriptPlayer | None = None,
    environ: Mapping[str, str] | None = None,
) -> Adapter:
    """The adapter that `options.wire` names.

    transport: takes the place of the network (HTTP wires). script, player: of the scripted adapter. environ: what a
    CLI's process may get its variables from; None is this process's environment.
    """
    if options.wire in HTTP_WIRES:
        if options.wire == "messages":
            from geode.adapters.messages import MessagesAdapter as Family
        elif options.wire == "responses":
            from geode.adapters.responses import ResponsesAdapter as Family  # type: ignore[assignment]
        else:
            from geode.adapters.chat import ChatAdapter as Family  # type: ignore[assignment]
        return Family(
            options,
            secrets=secrets,
            notify=notify,
            on_unsupported=on_unsupported,
            unsendable=unsendable,
            transport=transport,
        )
    if options.wire == "scripted":
        from geode.adapters.scripted import ScriptedAdapter

        assert script is not None, "a scripted adapter needs its script"
        return ScriptedAdapter(
            script,
            name=options.name,
            model=options.model,
            max_tokens=options.max_tokens,
            capabilities=options.capabilities,
            player=player,
        )
    if options.wire == "replay":
        from geode.adapters.replay import ReplayAdapter

        return ReplayAdapter(
            Path(options.journal or "").expanduser(),
            name=options.name,
            model=options.model,
            max_tokens=options.max_tokens,
            capabilities=options.capabilities,
        )
    given = os.environ if environ is None else environ
    if options.wire == "claude-cli":
        from geode.adapters.claude_cli import ClaudeCliAdapter

        return ClaudeCliAdapter(options, notify=notify, secrets=secrets, environ=given)
    from geode.adapters.codex_cli import CodexCliAdapter

    return CodexCliAdapter(options, notify=notify, secrets=secrets, environ=given)

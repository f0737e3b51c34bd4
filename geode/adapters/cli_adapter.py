"""What the command-line backends have in common: one process per call, prompt on standard input, JSON lines back."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from geode.adapters.cli_process import CliRunner, Command, events, secret_values
from geode.adapters.cli_prompt import check_text_only, flatten
from geode.adapters.credentials import Masker, Secrets
from geode.adapters.options import AdapterOptions
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    Delta,
    ErrorKind,
    NoticeSink,
)

__all__ = ["CliAdapter"]


class CliAdapter(ABC):
    """An adapter (see `contract.Adapter`) that takes text only. Raises AdapterError from `call`: kinds as over HTTP,
    plus PROCESS.

    notify: told once that tools are left out. secrets: given to the process in its environment. environ: this process's
    environment.
    """

    INSTALL: ClassVar[str]
    """How to get the program, for the error where it is missing."""

    def __init__(
        self,
        options: AdapterOptions,
        *,
        notify: NoticeSink,
        secrets: Secrets | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self.options = options
        self.name = options.name
        self.model = options.model
        self.max_tokens = options.max_tokens
        self.capabilities = replace(options.capabilities, tools=False, images=False, json_schema=False)
        self._notify = notify
        self._secrets = secrets or Secrets()
        self._runner = CliRunner(options.name, environ, self.INSTALL)
        self._mask = Masker(self._secrets, *secret_values(options.env, environ)).text

    @abstractmethod
    def command(self, request: AdapterCallRequest) -> Command:
        """What `call` runs."""

    @abstractmethod
    def parse(self, payload: Mapping[str, Any], round: int = 1) -> AdapterCallResult:
        """Reads `{stdout, stderr, exit_status}`."""

    @abstractmethod
    def said(self, event: Mapping[str, Any]) -> str:
        """The model's text in one JSON line of the output, "" where it has none."""

    def describe(self, request: AdapterCallRequest) -> dict[str, Any]:
        """`{argv, stdin, env, files}` without running anything; of the environment only names."""
        return self.command(request).described()

    def build(self, request: AdapterCallRequest) -> bytes:
        """The standard input of the process."""
        return flatten(request).encode("utf-8", "replace")

    async def call(self, request: AdapterCallRequest) -> AdapterCallResult:
        check_text_only(request, self.name, self.options.on_tools, self._notify)
        on_delta = request.on_delta

        def on_line(line: str) -> None:
            if on_delta is not None:
                for event in events(line):
                    if isinstance(event, dict) and (text := self.said(event)):
                        on_delta(Delta("text", text))

        done = await self._runner.run(self.command(request), self.timeout_s(request), on_line if on_delta else None)
        return self.parse(done.payload, request.round)

    async def aclose(self) -> None:
        await self._runner.aclose()

    def timeout_s(self, request: AdapterCallRequest) -> float:
        """Seconds that a call may take."""
        return request.timeout_s if request.timeout_s is not None else self.options.timeout_s

    def error(self, kind: ErrorKind, text: str, partial: AdapterCallResult | None = None) -> AdapterError:
        """An error of this adapter, without any secret in it."""
        return AdapterError(kind, self._mask(text), provider=self.name, partial=partial)

    def bad_line(self, line: str) -> AdapterError:
        """The error for output that is no JSON."""
        return self.error(ErrorKind.BAD_RESPONSE, f"a line of its output is no JSON: {line[:200]}")

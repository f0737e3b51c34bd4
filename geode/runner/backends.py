"""Adapters of a run: credentials checked, loopback provider started, prices looked up."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geode.adapters import HTTP_WIRES, make_adapter
from geode.adapters.credentials import CredentialError, Masker, Secrets, resolve
from geode.adapters.options import AdapterOptions
from geode.adapters.sdk_clients import import_sdk
from geode.config_errors import ConfigFault, nearest
from geode.contract import Adapter, AdapterError, Notice, NoticeSink, Usage
from geode.data import script_path
from geode.journal import JournalError
from geode.loop.switching import Backend, SwitchRule
from geode.pricing import ModelRef, PriceBook, PriceOverride
from geode.settings import Settings
from geode.settings_adapter import AdapterSettings

if TYPE_CHECKING:
    import httpx2
    from pydantic import TypeAdapter

    from geode.adapters.local import LocalServer
    from geode.provider import LoopbackProvider
    from geode.script import Script, ScriptPlayer

__all__ = ["Backends", "Played", "adapter_options", "load_script"]

DEFAULT_SCRIPT = "config-survey"
"""The script that a rehearsal plays where none is named: the one of the built-in task."""


def adapter_options(settings: AdapterSettings) -> AdapterOptions:
    """The adapter's options from its settings: the same names, as plain data."""
    return _options_type().validate_python(settings.model_dump())


@functools.cache
def _options_type() -> TypeAdapter[AdapterOptions]:
    from pydantic import TypeAdapter

    return TypeAdapter(AdapterOptions)


def load_script(name: str, where: str) -> Script:
    """A script by name or path. Raises ConfigFault."""
    from geode.script import Script, ScriptFormatError

    try:
        return Script.load(script_path(name))
    except ScriptFormatError as error:
        raise ConfigFault([f"{where}: {line}" for line in str(error).splitlines()]) from error


_PLACEHOLDER = "placeholder"
"""Stands for a secret where none is needed: no secret itself, so never masked."""


@dataclass(frozen=True, slots=True)
class Played:
    """Turns of a script that an earlier process of this run played: by which adapter, in the conversation that begins
    with this user text."""

    adapter: str
    first_user: str
    turns: int


def _make_adapter(options: AdapterOptions, **parts: Any) -> Adapter:
    try:
        return make_adapter(options, **parts)
    except JournalError as error:
        raise ConfigFault([f"adapter.journal: {error}"]) from error


class Backends:
    """Opens the adapters that a run may use, and closes them.

    transport: in place of the network, for printing requests; credentials are then placeholders. played: where the
    scripts of a resumed run stand.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        notify: NoticeSink,
        transport: httpx2.AsyncBaseTransport | None = None,
        played: Sequence[Played] = (),
    ) -> None:
        self._settings = settings
        self._played = played
        self._environ = environ
        self._notify = notify
        self._transport = transport
        self._prices = PriceBook(
            {name: PriceOverride(**price.model_dump()) for name, price in settings.pricing.overrides.items()},
            settings.pricing.windows,
        )
        self._secrets: dict[str, Secrets] = {}
        self._provider: LoopbackProvider | None = None
        self._players: dict[str, ScriptPlayer] = {}
        self._local: dict[str, LocalServer] = {}
        self._opened: list[Adapter] = []
        self.scripted = settings.provider.kind == "scripted" or settings.adapter.wire == "scripted"

    @property
    def masker(self) -> Masker:
        """Takes the secrets of every adapter of this run out of texts."""
        known = [secret for secret in self._secrets.values() if secret.value != _PLACEHOLDER]
        adapters = (self._settings.adapter, *self._switched().values())
        unused = (self._environ.get(name) for adapter in adapters for name in adapter.credential.env)  # in a rehearsal
        return Masker(*known, *unused)

    async def open(self) -> Backend:
        """The first backend. Raises ConfigFault with a line per missing credential, script or price."""
        settings, faults = self._settings, []
        for adapter in (settings.adapter, *self._switched().values()):
            options = adapter_options(adapter)
            try:
                self._secrets[options.name] = self._secret(options)
            except CredentialError as error:
                faults.append(str(error))
            faults += self._price_faults(options)
        for rule in self.switch_rules():
            if rule.model is not None:
                faults += self._price_faults(replace(adapter_options(self._named(rule.adapter)), model=rule.model))
        if faults:
            raise ConfigFault(dict.fromkeys(faults))
        if settings.provider.kind == "scripted" and self._transport is None:
            await self._start_provider()
        elif self._transport is None:
            for adapter in (settings.adapter, *self._switched().values()):
                if adapter.local is not None:
                    await self._start_local(adapter_options(adapter))
        for adapter in (settings.adapter, *self._switched().values()):
            if adapter.wire in HTTP_WIRES:
                import_sdk(adapter.wire)
        return self._make(adapter_options(settings.adapter))

    def switch_rules(self) -> tuple[SwitchRule, ...]:
        """The run's rules; one that names no adapter keeps the run's own and changes its model."""
        return tuple(
            SwitchRule(
                rule.adapter or self._settings.adapter.name,
                rule.model,
                rule.after_rounds,
                rule.cost_share,
                rule.on == "llm_error",
            )
            for rule in self._settings.switch.rules
        )

    def switch(self, name: str, model: str | None) -> Backend:
        """Another backend in the middle of a run."""
        settings = self._named(name)
        options = adapter_options(settings)
        return self._make(replace(options, model=model) if model else options)

    def another(self, backend: Backend) -> Backend:
        """A second backend like the one in use, for a run inside the run. One that replays a journal is shared."""
        options = adapter_options(self._named(backend.adapter.name))
        if options.wire == "replay":
            return backend
        return self._make(replace(options, model=backend.adapter.model))

    async def aclose(self) -> None:
        """Closes adapters, servers and children. Safe to call twice."""
        for adapter in self._opened:
            await adapter.aclose()
        for server in self._local.values():
            await server.aclose()
        self._opened, self._local = [], {}
        if self._provider is not None:
            await self._provider.aclose()
            self._provider = None

    def _named(self, name: str) -> AdapterSettings:
        if name == self._settings.adapter.name:
            return self._settings.adapter
        return self._settings.adapters[name]

    def _switched(self) -> dict[str, AdapterSettings]:
        found = {}
        for index, rule in enumerate(self._settings.switch.rules):
            if rule.adapter and rule.adapter != self._settings.adapter.name:
                if rule.adapter not in self._settings.adapters:
                    names = self._settings.adapters
                    hint = nearest(rule.adapter, names)
                    raise ConfigFault([f"switch.rules.{index}.adapter: unknown adapter {rule.adapter!r}{hint}"])
                found[rule.adapter] = self._settings.adapters[rule.adapter]
        return found

    def _secret(self, options: AdapterOptions) -> Secrets:
        if self._transport is not None or self._settings.provider.kind == "scripted":
            return Secrets(_PLACEHOLDER, _PLACEHOLDER if options.credential.kind == "codex_file" else None)
        return resolve(options.credential, self._environ, options.name)

    def _price_faults(self, options: AdapterOptions) -> list[str]:
        settings = self._settings
        if not settings.budget.cost_budget or settings.pricing.unknown == "free" or self._transport is not None:
            return []
        if options.wire in ("scripted", "replay") or options.local is not None:
            if self._prices.overrides.get(options.model) is None:
                return []
        elif not self._prices.known(_ref(options)):
            return [
                f"budget.cost_budget: the price of {options.model!r} is unknown, allowed: a known model, "
                f"{_price_override(options.model)} (USD per million tokens), or pricing.unknown=free"
            ]
        if settings.budget.cost_hard and (options.max_tokens_field is None or options.wire.endswith("-cli")):
            return [f"budget.cost_hard: {options.name} takes no output limit, so its worst case has no bound"]
        return []

    async def _start_provider(self) -> None:
        from geode.provider import LoopbackProvider

        name = self._settings.provider.script or self._settings.adapter.script or DEFAULT_SCRIPT
        script = load_script(name, "provider.script")
        self._provider = LoopbackProvider(script, strict=self._settings.provider.strict)
        self._skip(self._provider.player, lambda _adapter: True)
        await self._provider.start()
        self._notify(Notice("scripted", "scripted, no model: the loopback provider answers", "provider=live"))

    async def _start_local(self, options: AdapterOptions) -> None:
        from geode.adapters.local import LocalServer, LocalServerError

        assert options.local is not None
        server = self._local[options.name] = LocalServer(options.local)
        try:
            await server.start()
        except LocalServerError as error:
            raise ConfigFault([str(error)]) from error

    def _make(self, options: AdapterOptions) -> Backend:
        wire_options = options
        if self._provider is not None and options.wire in HTTP_WIRES:
            wire_options = replace(options, base_url=self._provider.base_url(options.wire))
        elif options.name in self._local:
            wire_options = replace(options, base_url=self._local[options.name].base_url(options.wire))
        script = player = None
        if options.wire == "scripted":
            from geode.script import ScriptPlayer

            script = load_script(options.script or DEFAULT_SCRIPT, "adapter.script")
            player = self._players.get(options.script or DEFAULT_SCRIPT)
            if player is None:
                player = self._players[options.script or DEFAULT_SCRIPT] = ScriptPlayer(script)
                self._skip(player, lambda adapter: self._script_of(adapter) == options.script)
            self._notify(Notice("scripted", f"scripted, no model: the script {script.name!r} answers", "adapter=NAME"))
        adapter = _make_adapter(
            wire_options,
            secrets=self._secrets.get(options.name, Secrets()),
            notify=self._notify,
            on_unsupported=self._settings.tool_choice.on_unsupported,
            unsendable=self._settings.tools.unsendable,
            transport=self._transport if options.wire in HTTP_WIRES else None,
            script=script,
            player=player,
            environ=self._environ,
        )
        self._opened.append(adapter)
        return Backend(adapter, self._window(options), self._cost_of(options), streams=options.stream)

    def _skip(self, player: ScriptPlayer, mine: Callable[[str], bool]) -> None:
        for played in self._played:
            if mine(played.adapter):
                try:
                    player.skip(played.first_user, played.turns)
                except AdapterError as error:
                    raise ConfigFault([error.message]) from error

    def _script_of(self, adapter: str) -> str | None:
        known = {self._settings.adapter.name: self._settings.adapter, **self._settings.adapters}
        return known[adapter].script if adapter in known else None

    def _window(self, options: AdapterOptions) -> int:
        if options.capabilities.context_window:
            return options.capabilities.context_window
        if options.model in self._prices.windows or options.wire in HTTP_WIRES:
            return self._prices.window(_ref(options))
        return 0

    def _cost_of(self, options: AdapterOptions) -> Any:
        ref = _ref(options)
        free = options.wire in ("scripted", "replay") or options.local is not None

        def cost(usage: Usage) -> float | None:
            if free and ref.model not in self._prices.overrides:
                return 0.0
            found = self._prices.cost(ref, usage)
            if found is None:
                self._notify(
                    Notice(
                        f"price:{ref.model}",
                        f"the price of {ref.model} is unknown: its calls are counted as free",
                        _price_override(ref.model),
                    )
                )
            return found

        return cost


def _ref(options: AdapterOptions) -> ModelRef:
    return ModelRef(options.model, options.base_url, options.price_as)


def _price_override(model: str) -> str:
    """The override that gives a model a price; its name may hold dots and slashes."""
    return f"'pricing.overrides={{{model}: {{input_mtok: USD, output_mtok: USD}}}}'"

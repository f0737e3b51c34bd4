"""What `geode doctor` looks at: each check gives lines with a status and what to do, and never a secret's value."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from geode.settings import Settings

__all__ = ["Finding", "check_config", "check_machine"]

Status = Literal["OK", "WARN", "FAIL"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. action: what to do about it, empty where nothing is wrong."""

    check: str
    status: Status
    message: str
    action: str = ""


def check_machine(environ: Mapping[str, str]) -> Iterator[Finding]:
    """What does not depend on the config."""
    yield _python()
    yield from _packages()
    yield from _data()
    yield _terminal()
    yield _writable("folder for runs", Path.cwd(), "run geode where you may write, or set hydra.run.dir=FOLDER")


def check_config(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What a run with this config needs."""
    yield from _credentials(settings, environ)
    yield from _binaries(settings)
    yield _sandbox(settings)
    yield from _servers(settings, environ)
    yield from _folders(settings)
    yield from _prices(settings)


def _python() -> Finding:
    version = platform.python_version()
    if os.name != "posix":
        return Finding("python", "FAIL", f"Python {version} on {platform.system()}", "run geode on Linux or macOS")
    return Finding("python", "OK", f"Python {version} on {platform.system()}")


def _packages() -> Iterator[Finding]:
    from packaging.requirements import Requirement

    try:
        requirements = metadata.requires("geode") or []
    except metadata.PackageNotFoundError:
        yield Finding("packages", "WARN", "geode is not installed as a package", "pip install geode")
        return
    missing: dict[str, list[str]] = {}
    for text in requirements:
        wanted = Requirement(text)
        extra = next((e for e in ("otel", "joblib", "local") if wanted.marker and _only_with(wanted.marker, e)), None)
        if wanted.marker is not None and extra is None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            if extra is not None:
                missing.setdefault(extra, []).append(wanted.name)
            else:
                yield Finding("package", "FAIL", f"{wanted.name} is missing", f"pip install '{wanted.name}'")
            continue
        if wanted.specifier.contains(version, prereleases=True):
            if extra is None:
                yield Finding("package", "OK", f"{wanted.name} {version}")
        else:
            need = f"{wanted.name}{wanted.specifier}"
            yield Finding(
                "package", "FAIL", f"{wanted.name} {version}, needed {wanted.specifier}", f"pip install '{need}'"
            )
    for extra, names in missing.items():
        what = {"otel": "hooks=otel", "joblib": "parallel sweeps", "local": "adapter=local"}[extra]
        yield Finding(
            "package", "WARN", f"{', '.join(names)} missing: only {what} needs it", f"pip install 'geode[{extra}]'"
        )


def _only_with(marker: Any, extra: str) -> bool:
    return bool(marker.evaluate({"extra": extra})) and not marker.evaluate({"extra": ""})


def _data() -> Iterator[Finding]:
    from geode.data import conf_dir, data_dir, recipes_dir

    again = "install geode again"
    for what, path in (("config groups", conf_dir() / "config.yaml"), ("recipes", recipes_dir())):
        if path.exists():
            yield Finding("data", "OK", f"{what}: {path}")
        else:
            yield Finding("data", "FAIL", f"{what} missing: {path}", again)
    definitions = data_dir() / "tools" / "definitions.json"
    try:
        count = len(json.loads(definitions.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        yield Finding("data", "FAIL", f"tool definitions cannot be read: {definitions}: {type(error).__name__}", again)
    else:
        yield Finding("data", "OK", f"{count} tool definitions: {definitions}")


def _terminal() -> Finding:
    if sys.stdin is not None and sys.stdin.isatty():
        return Finding("terminal", "OK", "there is one to ask at")
    return Finding(
        "terminal", "WARN", "standard input is none: calls that need approval are denied", "safety.tiers.TIER=allow"
    )


def _credentials(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Of the adapters that this config uses; then, as warnings, of the others that ship with geode."""
    from geode.adapters.credentials import CredentialError, resolve
    from geode.runner.backends import adapter_options

    live = settings.provider.kind == "live"
    used = {settings.adapter.name: settings.adapter}
    used |= {name: settings.adapters[name] for name in settings.adapters}
    for adapter in used.values():
        options = adapter_options(adapter)
        where = ", ".join(options.credential.env) or options.credential.file or "none"
        if options.credential.kind == "none" or not live:
            reason = "needs no credential" if options.credential.kind == "none" else "scripted: no credential is used"
            yield Finding("credential", "OK", f"adapter {adapter.name}: {reason}")
            continue
        try:
            resolve(options.credential, environ, options.name)
        except CredentialError as error:
            yield Finding("credential", "FAIL", str(error), f"set {where} for this shell, or choose another adapter")
        else:
            found = next((name for name in options.credential.env if environ.get(name)), where)
            yield Finding("credential", "OK", f"adapter {adapter.name}: {found} is set")
    for name, variables in _shipped_credentials():
        if name in used:
            continue
        there = next((variable for variable in variables if environ.get(variable)), None)
        if there:
            yield Finding("credential", "OK", f"adapter {name}: {there} is set")
        else:
            wanted = " or ".join(variables)
            yield Finding("credential", "WARN", f"adapter {name}: {wanted} not set", f"only for adapter={name}")


def _shipped_credentials() -> Iterator[tuple[str, list[str]]]:
    import yaml

    from geode.data import conf_dir

    for file in sorted((conf_dir() / "adapter").glob("*.yaml")):
        loaded = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        variables = (loaded.get("credential") or {}).get("env") or []
        if variables:
            yield file.stem, [str(variable) for variable in variables]


def _binaries(settings: Settings) -> Iterator[Finding]:
    wanted = {"claude": "claude-cli", "codex": "codex-cli"}
    used = settings.adapter.command if settings.adapter.wire in wanted.values() else None
    if used is not None and used not in wanted:
        wanted = {used: settings.adapter.name, **wanted}
    for command, adapter in wanted.items():
        path = shutil.which(command)
        if path:
            yield Finding("binary", "OK", f"{command}: {path}")
        elif command == used:
            yield Finding("binary", "FAIL", f"{command} is not on PATH", "install it, or set adapter.command=PATH")
        else:
            yield Finding("binary", "WARN", f"{command} is not on PATH", f"only for adapter={adapter}")


def _sandbox(settings: Settings) -> Finding:
    from geode.tools.bubblewrap import bwrap_fault

    mode = settings.safety.sandbox.mode
    if mode == "none":
        return Finding(
            "sandbox", "WARN", "commands run without one (safety.sandbox.mode=none)", "safety.sandbox.mode=auto"
        )
    program = shutil.which("bwrap")
    fault = bwrap_fault(program) if program else "bubblewrap (bwrap) is not installed"
    if fault is None:
        return Finding("sandbox", "OK", "bubblewrap works")
    how = "install bubblewrap and allow unprivileged user namespaces"
    if mode == "bwrap":
        return Finding("sandbox", "FAIL", fault, f"{how}, or safety.sandbox.mode=auto")
    return Finding("sandbox", "WARN", fault, how)


def _servers(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    for name, server in settings.mcp.servers.items():
        bad: Status = "FAIL" if server.required else "WARN"
        if server.transport == "stdio":
            own = server.command == "python"  # this interpreter, as in a run
            path = sys.executable if own else shutil.which(server.command or "")
            module = server.args[1].split(".")[0] if own and server.args[:1] == ("-m",) and server.args[1:] else None
            if module is not None and importlib.util.find_spec(module) is None:
                package = module.replace("_", "-")
                yield Finding("mcp", bad, f"{name}: {module} is not installed", f"pip install {package}")
            elif path is None:
                yield Finding(
                    "mcp", bad, f"{name}: {server.command} is not on PATH", f"mcp.servers.{name}.command=PATH"
                )
            else:
                yield Finding("mcp", "OK", f"{name}: {path}")
        else:
            yield Finding("mcp", "OK", f"{name}: {server.url}")
        for variable in (*server.env_names, *server.header_env.values()):
            if not environ.get(variable):
                yield Finding("mcp", bad, f"{name}: {variable} not set", f"export {variable}")


def _folders(settings: Settings) -> Iterator[Finding]:
    if settings.task.workspace is not None:
        path = Path(settings.task.workspace).expanduser()
        if path.is_dir():
            yield _writable("workspace", path, "task.workspace=FOLDER")
        else:
            yield Finding("folder", "FAIL", f"workspace: no folder {path}", "task.workspace=FOLDER")
    if settings.session.id is not None and settings.session.dir:
        yield _writable("sessions", Path(settings.session.dir).expanduser(), "session.dir=FOLDER")


def _writable(what: str, path: Path, action: str) -> Finding:
    there = next(p for p in (path, *path.resolve().parents) if p.exists())
    if os.access(there, os.W_OK | os.X_OK):
        return Finding("folder", "OK", f"{what}: {path} is writable")
    return Finding("folder", "FAIL", f"{what}: {path} is not writable", action)


def _prices(settings: Settings) -> Iterator[Finding]:
    from geode.adapters import HTTP_WIRES
    from geode.pricing import ModelRef, PriceBook, PriceOverride

    overrides = {name: PriceOverride(**price.model_dump()) for name, price in settings.pricing.overrides.items()}
    book = PriceBook(overrides, settings.pricing.windows)
    for adapter in (settings.adapter, *settings.adapters.values()):
        if adapter.wire not in HTTP_WIRES or adapter.local is not None:
            continue
        ref = ModelRef(adapter.model, adapter.base_url, adapter.price_as)
        override = f"'pricing.overrides={{{adapter.model}: {{input_mtok: USD, output_mtok: USD}}}}'"
        if book.known(ref):
            yield Finding("price", "OK", f"the price of {adapter.model} is known")
        elif settings.budget.cost_budget and settings.pricing.unknown == "error":
            yield Finding(
                "price", "FAIL", f"the price of {adapter.model} is unknown", f"{override}, or pricing.unknown=free"
            )
        else:
            yield Finding(
                "price", "WARN", f"the price of {adapter.model} is unknown: its calls count as free", override
            )
        window = adapter.capabilities.context_window or book.window(ref)
        if window:
            yield Finding("window", "OK", f"the context window of {adapter.model} is {window:,} tokens")
        else:
            action = f"pricing.windows={{{adapter.model}: TOKENS}}"
            yield Finding("window", "WARN", f"the context window of {adapter.model} is unknown", action)

"""The command line of bubblewrap, the unprivileged sandbox: read-only system, writable workspace, no secrets."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["SECRET_PLACES", "bwrap_argv", "bwrap_fault"]

SECRET_PLACES = (
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".password-store",
    ".bash_history",
    ".zsh_history",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".config/git/credentials",
    ".cache/huggingface/token",
    ".local/share/keyrings",
    ".mozilla",
    ".config/google-chrome",
)
"""Below a home folder: hidden from commands in the sandbox."""

_SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssl/private")
_SECRET_FOLDER_VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GNUPGHOME", "DOCKER_CONFIG", "CLOUDSDK_CONFIG")


@functools.lru_cache(maxsize=8)
def bwrap_fault(program: str | None = None) -> str | None:
    """Why bubblewrap cannot be used on this machine, None where it can. Tried once per process."""
    program = program or shutil.which("bwrap")
    if program is None:
        return "bubblewrap (bwrap) is not installed"
    trial = [program, "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--proc", "/proc"]
    try:
        done = subprocess.run([*trial, "true"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be started: {error}"
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"bubblewrap does not work here: {said[-1] if said else f'exit status {done.returncode}'}"


def bwrap_argv(workspace: Path, environ: Mapping[str, str], *, network: bool) -> list[str]:
    """Everything before the command. `environ` tells where home folders and moved secret folders are."""
    argv = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    argv += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if not network:
        argv.append("--unshare-net")
    argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    # sockets of daemons live in /run; resolv.conf may point into it
    for folder in ("/tmp", "/var/tmp", "/run"):
        if os.path.isdir(folder) and not os.path.islink(folder):
            argv += ["--tmpfs", folder]
    if network:
        argv += ["--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"]
    hidden = [path for path in _secret_places(environ) if path.exists()]
    around = [path for path in hidden if path == workspace or path in workspace.parents]
    for path in around:
        argv += _hide(path)
    argv += ["--bind", str(workspace), str(workspace)]
    for path in hidden:
        if path not in around:
            argv += _hide(path)
    return [*argv, "--chdir", str(workspace), "--"]


def _secret_places(environ: Mapping[str, str]) -> Iterator[Path]:
    homes = {environ.get("HOME", ""), os.path.expanduser("~")}
    with contextlib.suppress(KeyError):
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    for home in sorted(homes):
        if home.startswith("/"):
            for place in SECRET_PLACES:
                yield Path(os.path.realpath(os.path.join(home, place)))
    for name in _SECRET_FOLDER_VARIABLES:
        for folder in {environ.get(name, ""), os.environ.get(name, "")}:
            if folder.startswith("/"):
                yield Path(os.path.realpath(folder))
    for place in _SYSTEM_SECRETS:
        yield Path(place)


def _hide(path: Path) -> list[str]:
    return ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]

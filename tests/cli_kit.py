"""The `geode` command in a process of its own, in an empty folder, without any key."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_SECRETS = ("_KEY", "_TOKEN", "_SECRET", "ANTHROPIC", "OPENAI", "ZAI_", "CODEX", "CLAUDE", "HYDRA_", "GEODE_")
_PERSONAL = ("_PROXY", "XDG_")


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished command: exit code, and what it wrote."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def faults(self) -> list[str]:
        """The lines on standard error that name faults, without the program's name."""
        return [line.removeprefix("geode: ") for line in self.err.splitlines() if line.startswith("geode: ")]

    def run_dir(self) -> Path:
        """The folder of the only run."""
        (found,) = self.folder.glob("outputs/*/*")
        return found


RunGeode = Callable[..., Ran]


def clean_environ(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without credentials and personal settings, with geode importable."""
    environ = {k: v for k, v in os.environ.items() if not any(word in k.upper() for word in _SECRETS + _PERSONAL)}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environ.get("PYTHONPATH", ""))))
    return environ | dict(extra or {})

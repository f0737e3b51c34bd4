"""Where the files are that ship with geode: in the installed package, or at the top of a source checkout."""

from __future__ import annotations

from pathlib import Path

__all__ = ["conf_dir", "data_dir", "recipes_dir", "script_path", "shipped"]

_HERE = Path(__file__).resolve().parent


def data_dir() -> Path:
    """The folder that holds conf/, recipes/ and tools/."""
    packed = _HERE / "_data"
    return packed if packed.is_dir() else _HERE.parent


def conf_dir() -> Path:
    return data_dir() / "conf"


def recipes_dir() -> Path:
    return data_dir() / "recipes"


def shipped(reference: str) -> Path | None:
    """The folder or file that `geode://conf/...` names; None for any other text. Raises ValueError outside the data."""
    prefix = "geode://"
    if not reference.startswith(prefix):
        return None
    parts = Path(reference.removeprefix(prefix)).parts
    if not parts or parts[0] not in ("conf", "recipes", "tools") or ".." in parts:
        raise ValueError(f"{reference!r} names nothing that ships with geode (allowed: geode://conf, recipes, tools)")
    return data_dir().joinpath(*parts)


def script_path(name: str) -> Path:
    """A script by the name of one that ships with geode (conf/scripts/NAME.yaml), or by path."""
    named = conf_dir() / "scripts" / f"{name}.yaml"
    return named if "/" not in name and named.is_file() else Path(name)

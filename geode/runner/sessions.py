"""Sessions that span runs: their elapsed time and cost, kept in one small file each."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from geode.config_errors import ConfigFault
from geode.contract import Notice, NoticeSink
from geode.loop.state import SessionRecord
from geode.runner.files import write_whole

__all__ = ["open_session"]


def open_session(identifier: str, folder: Path, notify: NoticeSink) -> SessionRecord:
    """The session's totals so far, with a way to keep them. Raises ConfigFault where its file cannot be used; one that
    breaks later is a notice.

    Runs of one session that overlap each add what they used: a save writes the difference since the last one, and
    gives back the totals of all.
    """
    path = folder / f"{identifier}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            stored = _read(path)
    except OSError as error:
        raise ConfigFault([f"session.dir: cannot use {path}: {error.strerror}"]) from error
    base = {"elapsed_s": stored["elapsed_s"], "cost": stored["cost"]}

    def save(record: SessionRecord) -> SessionRecord:
        try:
            with _locked(path):
                now = _read(path)
                now["elapsed_s"] += record.elapsed_s - base["elapsed_s"]
                now["cost"] += record.cost - base["cost"]
                now["handed_off"] = now["handed_off"] or record.handed_off
                write_whole(path, json.dumps(now))
        except (OSError, ConfigFault) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            notify(Notice("session", f"the session {identifier} cannot be kept: {reason} ({path})"))
            return record
        base.update(elapsed_s=now["elapsed_s"], cost=now["cost"])
        return SessionRecord(identifier, now["elapsed_s"], now["cost"], now["handed_off"])

    return SessionRecord(identifier, stored["elapsed_s"], stored["cost"], stored["handed_off"], save)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> dict[str, Any]:
    fresh = {"elapsed_s": 0.0, "cost": 0.0, "handed_off": False}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = {key: type(value)(data[key]) for key, value in fresh.items()}
        if not all(0 <= found[key] < float("inf") for key in ("elapsed_s", "cost")):
            raise ValueError("a total that is none")
        return found
    except FileNotFoundError:
        return fresh
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigFault([f"session.id: {path} is not a session's file (remove it to start anew)"]) from error

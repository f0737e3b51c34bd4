"""Reading a journal: its records in order, or those of its newest run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geode.journal.format import FORMAT, JournalError

__all__ = ["read_journal", "read_run"]


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The journal's records, in order. A line that a crash cut short is passed over.

    Raises JournalError where there is no journal, or its format is newer than this reader.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise JournalError(f"no journal at {path}: Not a file")
        file = path.open("rb")
    except OSError as error:
        raise JournalError(f"no journal at {path}: {error.strerror}") from error
    with file:
        try:
            for raw in file:
                try:
                    record = json.loads(raw)
                except (ValueError, RecursionError):
                    continue
                if not isinstance(record, dict) or "event" not in record:
                    continue
                if record["event"] == "journal" and not isinstance(record.get("format", 0), int):
                    raise JournalError(f"{path} is no journal of geode's: its format is {record['format']!r}")
                if record["event"] == "journal" and record.get("format", 0) > FORMAT:
                    raise JournalError(f"{path} has journal format {record['format']}; this geode reads up to {FORMAT}")
                yield record
        except OSError as error:
            raise JournalError(f"cannot read {path}: {error.strerror}") from error


def read_run(path: Path) -> list[dict[str, Any]]:
    """The records of the newest run in a journal, from its header on, all resumptions included.

    Raises JournalError where there is none, or where lines are missing or damaged in the middle.
    """
    records: list[dict[str, Any]] = []
    for record in read_journal(path):
        if record["event"] == "journal" and not record.get("resumed"):
            records = []
        elif not records:
            break
        elif record.get("n") != records[-1].get("n", -1) + 1:
            number = records[-1].get("n", -1) + 1
            raise JournalError(f"{path} is damaged: record {number} is missing or cannot be read")
        records.append(record)
    if not records:
        raise JournalError(f"{path} is no journal of geode's: it has no header")
    return records

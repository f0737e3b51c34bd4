"""`geode report DIR`: what one run, or a folder of them, came to; from their journals alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from geode.config_errors import ConfigFault

__all__ = ["main"]

_USAGE = "geode report DIR [--html FILE] [--csv]"


def main(argv: Sequence[str]) -> int:
    """Prints a table (or CSV), writes an HTML page where one is wanted. Raises ConfigFault."""
    from geode.report.summary import find_runs, read_runs
    from geode.report.tables import text_report, write_csv

    folder, page, as_csv = _arguments(argv)
    runs = read_runs(find_runs(folder))
    if not runs:
        raise ConfigFault([f"report: no run in {str(folder)!r}, allowed: a folder with runs (journal.jsonl) in it"])
    if page is not None:
        from geode.report.html import html_report

        try:
            page.write_text(html_report(runs, folder), encoding="utf-8")
        except OSError as error:
            raise ConfigFault([f"--html: cannot write {str(page)!r}: {error.strerror}"]) from error
    if as_csv:
        write_csv(runs, folder, sys.stdout)
    else:
        print(text_report(runs, folder))
        if page is not None:
            print(f"[{page}]")
    return 0


def _arguments(argv: Sequence[str]) -> tuple[Path, Path | None, bool]:
    page: Path | None = None
    as_csv = False
    folders: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--csv":
            as_csv = True
        elif word == "--html" or word.startswith("--html="):
            value = word.partition("=")[2] if "=" in word else (words.pop(0) if words else "")
            if not value:
                raise ConfigFault(["--html: given nothing, allowed: a file, e.g. --html report.html"])
            page = Path(value).expanduser()
        elif word.startswith("-"):
            raise ConfigFault([f"{word}: unknown flag here, allowed: {_USAGE}"])
        else:
            folders.append(word)
    if len(folders) != 1:
        raise ConfigFault([f"report: given {len(folders)} folders, allowed: one: {_USAGE}"])
    folder = Path(folders[0]).expanduser()
    if folder.is_file():
        folder = folder.parent
    if not folder.is_dir():
        raise ConfigFault([f"report: given {folders[0]!r}, allowed: the folder of a run, or one with runs in it"])
    return folder.resolve(), page, as_csv

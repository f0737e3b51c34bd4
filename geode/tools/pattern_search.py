"""Finds the lines of a stored result that match a regular expression.

Python's `re` cannot be interrupted and holds the interpreter while it backtracks, so a pattern that might be
catastrophic is run by this file as a program of its own, which can be killed: `python pattern_search.py FILE`, with
the request as JSON on standard input and the line numbers as JSON on standard output. Imports the standard library
only.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["WIDTH", "PatternError", "find_lines", "wrapped"]

WIDTH = 1000
"""Characters a line may have: a longer one counts as several, so that a large one-line JSON can be paged."""


class PatternError(Exception):
    """The pattern is no regular expression, or took too long."""


def wrapped(lines: Iterable[str]) -> Iterator[str]:
    """Lines without their ends, the long ones in pieces of `WIDTH` characters."""
    for line in lines:
        line = line.removesuffix("\n")
        if len(line) <= WIDTH:
            yield line
        else:
            for start in range(0, len(line), WIDTH):
                yield line[start : start + WIDTH]


def find_lines(path: Path, pattern: str, first: int, most: int, timeout_s: float) -> list[int]:
    """Numbers (from 1) of the first `most` wrapped lines from line `first` on in which a match starts.

    Raises `PatternError` with a text for whoever wrote the pattern.
    """
    if not set(pattern) & set("*+?{|("):  # nothing to backtrack over: linear in the text
        return _search(path, pattern, first, most)
    request = json.dumps({"pattern": pattern, "first": first, "most": most})
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", __file__, str(path)],
            input=request.encode("ascii"),
            capture_output=True,
            timeout=timeout_s,
            env={},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PatternError(f"the pattern took longer than {timeout_s:g} s: use a simpler one") from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise PatternError("the pattern could not be searched for: use a simpler one") from None
    if isinstance(answer, str):
        raise PatternError(answer)
    return [int(number) for number in answer]


def _search(path: Path, pattern: str, first: int, most: int) -> list[int]:
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"the pattern is no valid regular expression: {error}") from None
    found: list[int] = []
    number = 1
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            line = line.removesuffix("\n")
            for match in compiled.finditer(line):
                at = number + min(match.start(), max(len(line) - 1, 0)) // WIDTH
                if at >= first and (not found or found[-1] != at):
                    found.append(at)
                    if len(found) == most:
                        return found
            number += max(1, -(-len(line) // WIDTH))
    return found


def _main() -> None:
    request = json.load(sys.stdin)
    try:
        answer: list[int] | str = _search(Path(sys.argv[1]), request["pattern"], request["first"], request["most"])
    except PatternError as error:
        answer = str(error)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _main()

"""Why a text to replace was not found: the nearest place in the file, said so that the next attempt can succeed."""

from __future__ import annotations

import difflib
import re

__all__ = ["explain_missing"]

_MAX_LINES = 20_000
_MAX_CHARS = 300
_NUMBERED = re.compile(r"^ *\d+\t")


def explain_missing(text: str, wanted: str) -> str:
    """One or two sentences, with the lines of `text` that come nearest to `wanted`."""
    wanted_lines = wanted.split("\n")
    if all(_NUMBERED.match(line) for line in wanted_lines if line.strip()) and wanted.strip():
        return "It starts with line numbers: leave out the number and the tab that read_document puts before each line."
    lines = text.split("\n")[:_MAX_LINES]
    same = _same_but_space(lines, wanted_lines)
    if same is not None:
        exact = "\n".join(line.removesuffix("\r") for line in lines[same : same + len(wanted_lines)])
        return f"Only white space differs from line {same + 1} on; the exact text there is:\n{exact[:2000]}"
    near = _nearest(lines, next((line for line in wanted_lines if line.strip()), wanted))
    if not near:
        return "Nothing in the file is similar: read it again with read_document."
    return "The nearest lines are:\n" + "\n".join(
        f"{n + 1:>6}\t{lines[n].removesuffix(chr(13))[:_MAX_CHARS]}" for n in near
    )


def _same_but_space(lines: list[str], wanted: list[str]) -> int | None:
    target = ["".join(line.split()) for line in wanted]
    if not any(target):
        return None
    squeezed = ["".join(line.split()) for line in lines]
    first = target[0]
    for at in range(len(squeezed) - len(target) + 1):
        if squeezed[at] == first and squeezed[at : at + len(target)] == target:
            return at
    return None


def _nearest(lines: list[str], wanted: str, most: int = 3, least: float = 0.6) -> list[int]:
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted.strip()[:_MAX_CHARS])
    scored: list[tuple[float, int]] = []
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:_MAX_CHARS])
        if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least and (r := matcher.ratio()) >= least:
            scored.append((-r, number))
            if len(scored) >= 500:
                break
    return sorted(number for _, number in sorted(scored)[:most])

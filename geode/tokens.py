"""A quick estimate of how many tokens a text is, with no tokenizer: for guards, never for bills.

Rule of thumb, from the providers' own guides: about four characters of English a token; Chinese, Japanese and Korean
come to about one token a character; other scripts lie between (two characters a token here), and emoji take more than
one token each. It errs on the high side for what would otherwise be undercounted.
"""

from __future__ import annotations

import re

__all__ = ["IMAGE_TOKENS", "clip_end", "clip_start", "estimate_tokens"]

IMAGE_TOKENS = 1600
"""What an image counts as: about the most that a provider charges for one at its usual size limit."""

_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]+"
)


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` is; 0 for the empty text only. Linear, and fast for ASCII."""
    if text.isascii():
        return (len(text) + 3) // 4
    rest = _CJK.sub("", text)
    cjk = len(text) - len(rest)
    latin = len(rest.encode("ascii", "ignore"))
    other = len(rest) - latin
    astral = len(rest.encode("utf-16-le", "surrogatepass")) // 2 - len(rest)
    return cjk + -(-latin // 4) + -(-other // 2) + astral


def clip_start(text: str, tokens: int) -> str:
    """The longest beginning of at most `tokens` tokens, by `estimate_tokens`."""
    low, high = 0, min(len(text), max(tokens, 0) * 4)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def clip_end(text: str, tokens: int) -> str:
    """The longest end of at most `tokens` tokens, by `estimate_tokens`."""
    size = len(text)
    low, high = 0, min(size, max(tokens, 0) * 4)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[size - middle :]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[size - low :]

"""Handlers whose effect lies outside the run: what a killed run did can be read from a file that it never reads."""

from __future__ import annotations

import os
import time


def append_line(key: str) -> str:
    """Appends the key to the file that EFFECTS names, slowly enough to be killed before, in and after it."""
    time.sleep(0.001)
    handle = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{key}\n".encode())
    os.close(handle)
    time.sleep(0.001)
    return f"appended {key}"


def look(key: str) -> str:
    """Does nothing."""
    return f"looked at {key}"

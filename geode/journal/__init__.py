"""The journal: an append-only record of a run, one JSON object a line, and its reader.

Each event is handed to the operating system as it happens (one `write`), so that kill -9 loses at most the event in
flight; `fsync` says how often it is also forced to disk. Messages are journalled as they enter the history, so that a
run can be resumed, replayed and reported from its journal alone.

Line kinds: `journal` (the header), `message` and `history` (a message appended; all replaced), `notice`, and the
events of `geode.hooks` with their payload's fields. Every line has `n` (running number) and `t` (seconds since 1970).
"""

from geode.journal.format import (
    FORMAT,
    JOURNAL_FILE,
    JournalError,
    decode_message,
    decode_result,
    decode_usage,
    encode_message,
)
from geode.journal.reader import read_journal, read_run
from geode.journal.writer import Journal, JournalBusy

__all__ = [
    "FORMAT",
    "JOURNAL_FILE",
    "Journal",
    "JournalBusy",
    "JournalError",
    "decode_message",
    "decode_result",
    "decode_usage",
    "encode_message",
    "read_journal",
    "read_run",
]

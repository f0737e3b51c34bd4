"""Scripted conversations: one file format for the in-process scripted adapter and the loopback provider.

`Script.load` reads and checks a script, `ScriptPlayer.next` gives the turn that answers a request. The format is
described in docs/scripts.md.
"""

from geode.script.format import Conversation, Expect, Fault, Script, ScriptFormatError, Turn
from geode.script.player import ScriptPlayer
from geode.script.turns import ScriptCall, ScriptReasoning, ScriptTurn, ScriptUsage
from geode.script.view import ScriptResult, ScriptView, is_error_text

__all__ = [
    "Conversation",
    "Expect",
    "Fault",
    "Script",
    "ScriptCall",
    "ScriptFormatError",
    "ScriptPlayer",
    "ScriptReasoning",
    "ScriptResult",
    "ScriptTurn",
    "ScriptUsage",
    "ScriptView",
    "Turn",
    "is_error_text",
]

"""Which shell commands only read: a strict reading of the command line, refused wherever it is not understood.

A full shell grammar is not needed for that, and a parser that recovers from errors would be the wrong tool: here every
character must be one whose meaning is certain. What is accepted: plain words, single and double quotes without
expansions, and the operators `|`, `&&`, `||`, `;` and new line between commands that stand on a list, each with
the options that keep it reading. Everything else (substitutions, variables, assignments, redirections, background,
groups, functions, here-documents, comments, escapes) makes a command not read-only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geode.contract import Tier
from geode.tools.read_only import RULES, Rule

__all__ = ["Verdict", "effective_tier", "is_read_only", "tier_of_call"]

MAX_CHARS = 4000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a command only reads, and in a few words why."""

    read_only: bool
    reason: str


@dataclass(frozen=True, slots=True)
class _Word:
    """A word after quotes are taken off.

    globs: it holds an unquoted pattern, so that it may become several words; expands: it starts with one, so that it
    may become an option.
    """

    text: str
    quoted: bool
    globs: bool
    expands: bool


class _Refused(Exception):
    """The command is not read-only, for the reason given."""


def is_read_only(command: str) -> Verdict:
    """Never raises. The reason names the first thing that was not plain reading."""
    try:
        if len(command) > MAX_CHARS:
            raise _Refused(f"longer than {MAX_CHARS} characters")
        commands = _split(command)
        if not commands:
            raise _Refused("no command")
        names = [_check(words) for words in commands]
        if "cd" in names and "git" in names:
            raise _Refused("git in another folder may run what that folder's settings name")
    except _Refused as refusal:
        return Verdict(False, str(refusal))
    return Verdict(True, "reads only: " + ", ".join(dict.fromkeys(names)))


def effective_tier(command: str, tier: Tier = Tier.DANGEROUS, *, read_only_as_safe: bool = False) -> Tier:
    """`safe` for a command that only reads, where the config says so (`safety.sandbox.read_only_as_safe`)."""
    return Tier.SAFE if read_only_as_safe and is_read_only(command).read_only else tier


def tier_of_call(tool: str, arguments: Mapping[str, Any], tier: Tier, *, read_only_as_safe: bool = False) -> Tier:
    """The tier of one call: as configured, apart from a read-only `run_bash` where the config says so."""
    command = arguments.get("command")
    if tool != "run_bash" or not isinstance(command, str):
        return tier
    return effective_tier(command, tier, read_only_as_safe=read_only_as_safe)


_UNSAFE = {
    "$": "a variable or substitution",
    "`": "a command substitution",
    "\\": "an escape",
    ">": "a redirection",
    "<": "a redirection",
    "(": "a group or function",
    ")": "a group or function",
    "{": "a brace expression",
    "}": "a brace expression",
    "#": "a comment",
    "!": "a history or negation mark",
    "~": "a home folder expansion",
}


def _split(command: str) -> list[list[_Word]]:
    """Commands as lists of words. Raises _Refused at the first character whose meaning is not certain."""
    commands: list[list[_Word]] = [[]]
    pending = False  # an operator that needs a command after it
    at = 0
    while at < len(command):
        char = command[at]
        if char in " \t":
            at += 1
        elif char in "\n;":
            if pending and (char == ";" or not commands[-1]):
                raise _Refused("an operator without a command")
            if char == ";" and not commands[-1]:
                raise _Refused("an empty command")
            if commands[-1]:
                commands.append([])
            at += 1
        elif char in "|&":
            width = 2 if command[at : at + 2] in ("||", "&&") else 1
            if char == "&" and width == 1:
                raise _Refused("a background command")
            if command[at + width : at + width + 1] == "&":
                raise _Refused("an operator that is not plain")
            if not commands[-1]:
                raise _Refused("an operator without a command")
            commands.append([])
            pending = True
            at += width
        else:
            word, at = _word(command, at)
            commands[-1].append(word)
            pending = False
    if pending:
        raise _Refused("an operator without a command")
    return [words for words in commands if words]


def _word(command: str, at: int) -> tuple[_Word, int]:
    text: list[str] = []
    quoted = globs = expands = False
    while at < len(command) and command[at] not in " \t\n;|&":
        char = command[at]
        if char in "'\"":
            end = command.find(char, at + 1)
            if end < 0:
                raise _Refused("an open quote")
            part = command[at + 1 : end]
            if char == '"':
                for mark in "$`\\!":
                    if mark in part:
                        raise _Refused(_UNSAFE[mark])
            _check_characters(part)
            text.append(part)
            quoted = True
            at = end + 1
            continue
        if char in _UNSAFE and (char != "~" or not any(text)):
            raise _Refused(_UNSAFE[char])
        if char in "*?[":
            globs = True
            expands = expands or not any(text)
        _check_characters(char)
        text.append(char)
        at += 1
    return _Word("".join(text), quoted, globs, expands), at


def _check_characters(text: str) -> None:
    for char in text:
        if char not in "\n\t" and not char.isprintable():
            raise _Refused("a control character")


def _check(words: list[_Word]) -> str:
    """The name of a command that its rule accepts."""
    name = words[0]
    if name.quoted or name.globs:
        raise _Refused("the command's name is not a plain word")
    if "=" in name.text:
        raise _Refused("a variable assignment")
    rule = RULES.get(name.text)
    if rule is None:
        raise _Refused(f"{name.text} is not on the list of reading commands")
    arguments = [word.text for word in words[1:]]
    if not rule.harmless:
        for word in words[1:]:
            if word.expands:
                raise _Refused(f"{name.text}: a pattern that could expand to an option (write ./{word.text})")
            if word.globs and not rule.globs and (rule.check is not None or rule.max_operands is not None):
                raise _Refused(f"{name.text}: a pattern that could expand to several arguments")
    fault = _apply(name.text, rule, arguments)
    if fault:
        raise _Refused(fault)
    return name.text


def _apply(name: str, rule: Rule, arguments: list[str]) -> str | None:
    """Why the rule refuses these arguments, None where it does not."""
    if rule.subcommands is not None:
        if not arguments:
            return f"{name} without a subcommand"
        inner = rule.subcommands.get(arguments[0])
        if inner is None:
            return f"{name} {arguments[0]} is not on the list of reading commands"
        return _apply(f"{name} {arguments[0]}", inner, arguments[1:])
    fault = None if rule.any_option else _options(name, rule, arguments)
    if fault is None and rule.check is not None and (found := rule.check(arguments)):
        fault = f"{name}: {found}"
    return fault


def _options(name: str, rule: Rule, arguments: list[str]) -> str | None:
    operands = 0
    for number, argument in enumerate(arguments):
        if argument == "--":
            if number and arguments[number - 1].startswith("-"):
                return f"{name}: -- after an option could be its value"
            operands += len(arguments) - number - 1
            break
        if argument.startswith("-") and argument != "-":
            if not rule.allows(argument):
                return f"{name}: the option {argument} is not on the list"
        else:
            operands += 1
    if rule.max_operands is not None and operands > rule.max_operands:
        return f"{name}: too many arguments"
    return None

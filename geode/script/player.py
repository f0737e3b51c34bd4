"""Plays a script: gives each request its turn, in order, and says what was left over."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from geode.contract import AdapterError, ErrorKind, StopReason, ToolChoice
from geode.script.format import Call, Conversation, Expect, Script, ScriptFormatError, Turn
from geode.script.templates import Templates, has_template
from geode.script.turns import ScriptCall, ScriptReasoning, ScriptTurn, ScriptUsage, dump
from geode.script.view import ScriptView

__all__ = ["ScriptPlayer"]

Render = Callable[[ScriptView, int], ScriptTurn]


@dataclass(slots=True)
class _Place:
    """How far one run through a conversation has come: the turn's index and how often it was played."""

    turn: int = 0
    played: int = 0


@dataclass(slots=True)
class _Track:
    """A conversation with its turns made ready, and where each run through it stands."""

    path: str
    conversation: Conversation
    pattern: re.Pattern[str] | None
    turns: list[ScriptTurn | Render]
    places: dict[str, _Place] = field(default_factory=dict)


class ScriptPlayer:
    """Hands out the turns of a script. One player serves one run with all its sub-agents, retries included.

    A request is answered by the first conversation whose `match` is found in its first user text. Raises
    ScriptFormatError where a template does not compile.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self._tracks: list[_Track] = []
        templates, faults = Templates(), []
        for path, conversation in script.all_conversations:
            ready: list[ScriptTurn | Render] = []
            for index, turn in enumerate(conversation.turns):
                try:
                    ready.append(_prepare(turn, f"{path}[{index}]", templates))
                except _TemplateFault as fault:
                    faults.append(str(fault))
            pattern = re.compile(conversation.match) if conversation.match is not None else None
            self._tracks.append(_Track(path, conversation, pattern, ready))
        if faults:
            raise ScriptFormatError(script.name, faults)

    def next(self, view: ScriptView) -> ScriptTurn:
        """The turn that answers this request.

        Raises AdapterError(SCRIPT): the script is over, its `expect` does not hold, or a template fails. The turn
        counts as played in the last two cases.
        """
        track = self._find(view.first_user)
        place = track.places.setdefault(view.first_user if track.conversation.each else "", _Place())
        turns = track.conversation.turns
        if place.turn >= len(turns):
            total = sum(t.repeat for t in turns if isinstance(t.repeat, int))
            raise self._error(
                f"{track.path} is over: it holds {total} turns, and request {view.request} wants one more"
            )
        index, number = place.turn, place.played
        turn, ready = turns[index], track.turns[index]
        place.played += 1
        if turn.repeat != "forever" and place.played >= turn.repeat:
            place.turn += 1
            place.played = 0
        if turn.expect is not None:
            problem = _mismatch(turn.expect, view)
            if problem:
                raise self._error(f"{track.path}[{index}] expects {problem}")
        if isinstance(ready, ScriptTurn):
            return ready
        try:
            return ready(view, number)
        except _TemplateFault as fault:
            raise self._error(str(fault)) from fault.__cause__

    def skip(self, first_user: str, count: int) -> None:
        """Passes over `count` turns of the conversation with this first user text: an earlier process played them.

        Raises AdapterError(SCRIPT) where no conversation matches.
        """
        track = self._find(first_user)
        place = track.places.setdefault(first_user if track.conversation.each else "", _Place())
        while count > 0 and place.turn < len(track.conversation.turns):
            repeat = track.conversation.turns[place.turn].repeat
            step = count if isinstance(repeat, str) else min(count, repeat - place.played)
            place.played += step
            count -= step
            if not isinstance(repeat, str) and place.played >= repeat:
                place.turn += 1
                place.played = 0

    @property
    def remaining(self) -> int:
        """How many turns are still to be played; `forever` counts as one until it was played once."""
        return sum(count for _, count in self._open())

    def assert_consumed(self) -> None:
        """Raises AssertionError that lists the conversations which were not played to their end."""
        left = [f"{label}: {count} not played" for label, count in self._open() if count]
        if left:
            raise AssertionError(f"script {self.script.name} was not played to its end: " + "; ".join(left))

    def _open(self) -> list[tuple[str, int]]:
        found = []
        for track in self._tracks:
            turns = track.conversation.turns
            places = track.places or ({} if track.conversation.optional else {"": _Place()})
            for key, place in places.items():
                count = 0
                for index in range(place.turn, len(turns)):
                    repeat = turns[index].repeat
                    wanted = 1 if isinstance(repeat, str) else repeat
                    count += max(0, wanted - (place.played if index == place.turn else 0))
                label = f"{track.path}[{place.turn}]" + (f" for {key[:60]!r}" if key else "")
                found.append((label, count))
        return found

    def _find(self, first_user: str) -> _Track:
        for track in self._tracks:
            if track.pattern is None or track.pattern.search(first_user):
                return track
        patterns = ", ".join(repr(t.conversation.match) for t in self._tracks)
        raise self._error(f"no conversation matches the first user text {first_user[:80]!r} (patterns: {patterns})")

    def _error(self, message: str) -> AdapterError:
        return AdapterError(ErrorKind.SCRIPT, f"script {self.script.name}: {message}", provider="scripted")


class _TemplateFault(Exception):
    """A template failed; the text names turn and field."""


def _prepare(turn: Turn, label: str, templates: Templates) -> ScriptTurn | Render:
    """The turn itself where nothing in it is a template, else a function that fills it in."""
    fields: list[Any] = [turn.text, turn.stop_sequence, *(r.text for r in turn.reasoning)]
    for call in turn.tool_calls:
        fields += [call.name, call.input, call.arguments, call.id]
    if not any(map(has_template, fields)):
        return _fill(turn, label, lambda _path, source, _kind: source)

    compiled: dict[str, Callable[[Mapping[str, Any]], Any]] = {}

    def compile_field(path: str, source: Any, native: bool) -> Any:
        with _Naming(label, path):
            compiled[path] = templates.value(source) if native else templates.text(source)
        return {} if native else source

    _fill(turn, label, compile_field)

    def render(view: ScriptView, number: int) -> ScriptTurn:
        context = _context(view, number)

        def fill_field(path: str, source: Any, native: bool) -> Any:
            with _Naming(label, path):
                value = compiled[path](context)
                if path.endswith(".input"):
                    if not isinstance(value, Mapping):
                        raise TypeError(f"gave {type(value).__name__}, not a mapping")
                    dump(value)
                return value

        return _fill(turn, label, fill_field)

    return render


def _fill(turn: Turn, label: str, fill: Callable[[str, Any, bool], Any]) -> ScriptTurn:
    def text(path: str, source: str | None) -> str | None:
        return None if source is None else fill(path, source, False)

    def call(index: int, source: Call) -> ScriptCall:
        path = f"tool_calls[{index}]"
        raw = source.arguments is not None
        if raw:
            arguments = text(f"{path}.arguments", source.arguments) or ""
        else:
            arguments = dump(fill(f"{path}.input", source.input or {}, True))
        name = text(f"{path}.name", source.name) or ""
        return ScriptCall(name, arguments, text(f"{path}.id", source.id), raw)

    reasoning = tuple(
        ScriptReasoning(text(f"reasoning[{i}]", part.text) or "", part.redacted)
        for i, part in enumerate(turn.reasoning)
    )
    calls = tuple(call(i, c) for i, c in enumerate(turn.tool_calls))
    body = text("text", turn.text)
    reasoning_chars = sum(len(part.text) for part in reasoning)
    usage: ScriptUsage | None = None
    if turn.usage == "missing":
        usage = ScriptUsage(missing=True)
    elif turn.usage is not None:
        usage = ScriptUsage(**turn.usage.model_dump())
    filled = ScriptTurn(
        label=label,
        text=body,
        reasoning=reasoning,
        tool_calls=calls,
        stop_sequence=text("stop_sequence", turn.stop_sequence),
        usage=usage,
        refusal=(turn.refusal.category, turn.refusal.explanation) if turn.refusal else None,
        phase=turn.phase,
        delay_s=turn.delay_s,
        fault=turn.fault,
        output_chars=len(body or "") + reasoning_chars + sum(len(c.name) + len(c.arguments) for c in calls),
        reasoning_chars=reasoning_chars,
    )
    return replace(filled, stop=turn.stop or _default_stop(filled))


def _default_stop(turn: ScriptTurn) -> StopReason:
    if turn.refusal:
        return StopReason.REFUSAL
    if turn.tool_calls:
        return StopReason.TOOL_USE
    return StopReason.STOP_SEQUENCE if turn.stop_sequence is not None else StopReason.END_TURN


class _Naming:
    """Turns what a template raises into a text that names turn and field."""

    __slots__ = ("_where",)

    def __init__(self, label: str, path: str) -> None:
        self._where = f"{label}.{path}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception):
            raise _TemplateFault(f"{self._where}: {type(error).__name__}: {error}") from error


def _context(view: ScriptView, number: int) -> dict[str, Any]:
    def results_of(name: str) -> list[Any]:
        return [result for result in view.results if result.name == name]

    def result(name: str) -> Any:
        found = results_of(name)
        if not found:
            names = ", ".join(sorted({r.name for r in view.results})) or "none"
            raise LookupError(f"no result of {name} yet (there are: {names})")
        return found[-1]

    return {
        "results": view.results,
        "result": result,
        "results_of": results_of,
        "system": view.system,
        "user": view.user,
        "first_user": view.first_user,
        "tools": view.tools,
        "tool_choice": spelled(view.tool_choice),
        "wants_json": view.wants_json,
        "request": view.request,
        "repetition": number,
    }


def spelled(choice: ToolChoice | None) -> str:
    """A tool choice in one word, as scripts write it."""
    if choice is None:
        return "absent"
    return f"tool:{choice.name}" if choice.type == "tool" else choice.type


def _mismatch(expect: Expect, view: ScriptView) -> str | None:
    """What does not hold, as `WANTED, got GIVEN`; None where all does."""
    results = view.results
    last = results[-1] if results else None
    checks: list[tuple[bool, str, object]] = []
    if expect.tool_choice is not None:
        given = spelled(view.tool_choice)
        checks.append((given == expect.tool_choice, f"tool_choice {expect.tool_choice}", given))
    if expect.tools is not None:
        checks.append((sorted(expect.tools) == sorted(view.tools), f"tools {sorted(expect.tools)}", sorted(view.tools)))
    checks += [(name in view.tools, f"tool {name}", list(view.tools)) for name in expect.with_tools]
    checks += [(name not in view.tools, f"no tool {name}", list(view.tools)) for name in expect.without_tools]
    if expect.results is not None:
        checks.append((len(results) == expect.results, f"{expect.results} tool results", len(results)))
    if expect.last_is_error is not None:
        got = "no result" if last is None else last.is_error
        checks.append((got == expect.last_is_error, f"last result is_error {expect.last_is_error}", got))
    for name, wanted, text in (
        ("last result", expect.last_result, last.text if last else "no result"),
        ("user text", expect.user, view.user),
        ("system prompt", expect.system, view.system),
    ):
        if wanted is not None:
            checks.append((wanted in text, f"{name} with {wanted!r}", text[:200]))
    if expect.max_tokens is not None:
        checks.append((view.max_tokens == expect.max_tokens, f"max_tokens {expect.max_tokens}", view.max_tokens))
    if expect.thinking is not None:
        checks.append((view.thinking == expect.thinking, f"thinking {expect.thinking}", view.thinking))
    return next((f"{wanted}, got {given!r}" for holds, wanted, given in checks if not holds), None)

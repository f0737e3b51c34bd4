"""The final answer: its schema, and what is asked of the model where an answer is cut or does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CONTINUE_TEXT", "AnswerContract", "Checked", "refusal_text"]

CONTINUE_TEXT = "The answer was cut at the output limit. Continue exactly where it stopped, without repeating anything."

_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)
_MAX_FAULTS = 5


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked answer: its value, or what is wrong with it."""

    parsed: Any = None
    faults: tuple[str, ...] = ()


@dataclass(slots=True)
class AnswerContract:
    """`response_schema`: the final text must be JSON that satisfies it. All keywords are checked locally (jsonschema),
    since each provider's structured output knows only some. `repair`: rounds in which the model may mend it."""

    schema: Mapping[str, Any]
    repair: int = 1
    _validator: Any = field(default=None)

    def check(self, text: str) -> Checked:
        """Parses and validates the text; a JSON code fence around it is taken off."""
        fenced = _FENCE.match(text)
        try:
            value = json.loads(fenced.group(1) if fenced else text)
        except (ValueError, RecursionError) as error:
            return Checked(faults=(f"the answer is not JSON: {error}",))
        if self._validator is None:
            from jsonschema import validators

            cls = validators.validator_for(self.schema, default=validators.Draft202012Validator)
            self._validator = cls(self.schema)
        errors = sorted(self._validator.iter_errors(value), key=lambda e: list(map(str, e.absolute_path)))
        if not errors:
            return Checked(parsed=value)
        return Checked(faults=tuple(f"{e.json_path}: {e.message[:300]}" for e in errors[:_MAX_FAULTS]))

    def repair_text(self, checked: Checked) -> str:
        """What the model is told of its faulty answer."""
        listed = "\n".join(f"- {fault}" for fault in checked.faults)
        return f"The answer does not satisfy the required JSON schema:\n{listed}\nSend the whole corrected JSON alone."


def refusal_text(details: Mapping[str, Any] | None) -> str:
    """An honest message where the provider refused and gave no text."""
    category = (details or {}).get("category")
    explanation = (details or {}).get("explanation")
    text = "The provider's safety system refused this request"
    if category:
        text += f" (category: {category})"
    return f"{text}: {explanation}" if explanation else f"{text}. No answer was given."

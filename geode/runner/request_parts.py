"""What the settings put into a run's requests: tool choice, answer schema, system prompt and a round's additions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from geode.adapters.tool_choice import ToolChoiceError, parse
from geode.config_errors import ConfigFault
from geode.contract import Notice, NoticeSink, ToolChoice
from geode.loop.limits import Deadline
from geode.loop.policy import TurnPolicy
from geode.loop.state import RunState
from geode.loop.switching import Backend
from geode.runner.templates import compile_text
from geode.runner.toolbox import Toolbox
from geode.settings import Settings

__all__ = ["additions", "read_schema", "resolve_tool_choice", "system_prompt"]


def resolve_tool_choice(settings: Settings, names: Sequence[str]) -> ToolChoice:
    """The configured choice, checked against the toolset. Raises ConfigFault."""
    given: Any = {"type": settings.tool_choice.type}
    if settings.tool_choice.name is not None:
        given["name"] = settings.tool_choice.name
    try:
        return parse(given, names)
    except ToolChoiceError as error:
        raise ConfigFault([str(error)]) from error


def read_schema(settings: Settings) -> Mapping[str, Any] | None:
    """The response schema: inline, or from the JSON or YAML file that the config names. Raises ConfigFault."""
    given = settings.response.schema_
    if isinstance(given, str):
        import yaml

        try:
            given = yaml.safe_load(Path(given).expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise ConfigFault([f"response.schema: cannot read {settings.response.schema_!r}: {reason}"]) from error
    if given is None:
        return None
    from jsonschema import SchemaError, validators

    if not isinstance(given, dict):
        raise ConfigFault([f"response.schema: given {type(given).__name__}, allowed: a JSON Schema object"])
    try:
        validators.validator_for(given, default=validators.Draft202012Validator).check_schema(given)
    except SchemaError as error:
        raise ConfigFault([f"response.schema: not a JSON Schema: {error.json_path}: {error.message[:200]}"]) from error
    return given


def system_prompt(settings: Settings, backend: Backend, toolbox: Toolbox, workspace: Path) -> str:
    """The system prompt, filled in once: nothing in it changes from round to round."""
    variables = {
        "adapter": backend.adapter.name,
        "model": backend.adapter.model,
        "tools": list(toolbox.toolset.names()),
        "workspace": str(workspace),
    }
    return compile_text("task.system", settings.task.system)(variables).strip()


def additions(
    settings: Settings,
    state: RunState,
    policy: TurnPolicy,
    deadline: Deadline,
    announcements: Callable[[], Sequence[str]],
    frozen: Mapping[str, Any],
    notify: NoticeSink,
) -> Callable[[], Sequence[str]]:
    """What is appended to the newest message before a round: announcements, and the status where one is configured.

    Raises ConfigFault for a status that cannot be made for the first round; later it is left out, with a notice.
    """
    if settings.task.status is None:
        return announcements
    render = compile_text("task.status", settings.task.status)

    def variables() -> dict[str, Any]:
        at, _ = deadline.at()
        return {
            "round": state.rounds + 1,
            "rounds_left": policy.max_rounds - state.rounds if policy.max_rounds else None,
            "seconds_left": round(at - time.monotonic()) if at is not None else None,
            "usd_left": round(policy.cost_budget - state.ledger.total, 6) if policy.cost_budget else None,
            "tokens": state.usage.total_tokens,
            "date": datetime.now(UTC).date().isoformat(),
            **frozen,
        }

    render(variables())

    def texts() -> Sequence[str]:
        told = list(announcements())
        try:
            told.append(render(variables()).strip())
        except ConfigFault as fault:
            notify(Notice("task.status", f"{fault} (round {state.rounds + 1}: left out)", "task.status=null"))
        return told

    return texts

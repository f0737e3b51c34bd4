"""The whole config as pydantic models: the only place that knows the YAML keys, their defaults and their limits.

Extra keys are forbidden everywhere, and `load` reports every fault of a config at once. Times are in seconds, sizes
in bytes, limits in tokens and money in US dollars, unless a field says otherwise. A limit of 0 means that there is
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from geode.config_errors import ConfigFault, nearest
from geode.settings_adapter import AdapterSettings
from geode.settings_base import STRICT
from geode.settings_loop import Budget, Context, Llm, Pricing, Response, Switch, ToolChoiceSettings
from geode.settings_tools import Mcp, McpServer, Recovery, Rule, Safety, Subagents, Tools, Toolset

if TYPE_CHECKING:
    from omegaconf import DictConfig

__all__ = ["AdapterSettings", "ConfigFault", "McpServer", "Rule", "Settings", "ToolChoiceSettings", "Toolset", "load"]


class Part(BaseModel):
    model_config = STRICT


class FileCopy(Part):
    """A file or folder that is copied into the run's workspace before the first round."""

    model_config = ConfigDict(populate_by_name=True)
    source: str = Field(alias="from")
    """A path, or `geode://conf` for a folder that ships with geode (conf, recipes, tools)."""
    to: str = "."
    """Where in the workspace, relative to it."""


class Task(Part):
    prompt: str
    """What the model is asked."""
    system: str = ""
    """System prompt, a Jinja2 template; rendered once, so that providers can cache it."""
    workspace: str | None = None
    """Folder that the tools work in; null makes a fresh `workspace/` in the run's folder."""
    files: tuple[FileCopy, ...] = ()
    status: str | None = None
    """Jinja2 template appended to the newest message of each round (round, remaining budget, date); null is off."""


class Provider(Part):
    kind: Literal["live", "scripted"] = "live"
    """`scripted` sends the adapter's real requests to a loopback server that answers from a script."""
    script: str | None = None
    """A script's name or path; null with `scripted` takes the adapter's, or the default one."""
    strict: bool = True
    """The loopback server refuses requests that a real provider would refuse."""


class Session(Part):
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=100)] | None = None
    """Name of a session that several runs share; null is one per run."""
    dir: str | None = None
    """Folder where sessions are kept; needed with an id."""


class Journal(Part):
    fsync: Literal["never", "round", "event"] = "round"
    """When the file is forced to disk: a round's end begins it in a thread, an event waits for it."""


class HookRef(Part):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    target: str = Field(alias="_target_")
    """Dotted path of a callable, or of a factory that takes the further keys."""


class ObserverRef(HookRef):
    events: tuple[str, ...] = ()
    """Event names; none means all."""

    @field_validator("events")
    @classmethod
    def _known(cls, events: tuple[str, ...]) -> tuple[str, ...]:
        from geode.hooks import Event

        names = list(Event.__members__)
        for event in events:
            if event not in names:
                raise ValueError(f"given {event!r}, allowed: {', '.join(names)}{nearest(event, names)}")
        return events


class InterceptorRef(HookRef):
    event: Literal["USER_INPUT_RECEIVED", "TOOL_EXEC_STARTED", "CONTEXT_OVERFLOW_ACTION"]
    """What it is asked about."""


class Hooks(Part):
    timeout_s: Annotated[float, Field(gt=0)] = 5
    """A hook may take so long for one event."""
    observers: tuple[ObserverRef, ...] = ()
    """They see events and cannot change the run."""
    interceptors: tuple[InterceptorRef, ...] = ()
    """They are asked before something happens, and may rewrite or block it."""


class Display(Part):
    mode: Literal["auto", "live", "plain", "quiet"] = "auto"
    """`auto` is live on a terminal and plain elsewhere; `quiet` prints the answer alone."""


class Wire(Part):
    rounds: Annotated[int, Field(ge=1)] = 1
    """Requests that `geode wire` prints."""


class Settings(Part):
    """A whole experiment. `load` makes it from a composed config."""

    task: Task
    adapter: AdapterSettings
    provider: Provider = Provider()
    tool_choice: ToolChoiceSettings = ToolChoiceSettings()
    budget: Budget = Budget()
    safety: Safety = Safety()
    recovery: Recovery = Recovery()
    context: Context = Context()
    tools: Tools = Tools()
    toolset: Toolset = Toolset()
    mcp: Mcp = Mcp()
    llm: Llm = Llm()
    pricing: Pricing = Pricing()
    response: Response = Response()
    session: Session = Session()
    journal: Journal = Journal()
    hooks: Hooks = Hooks()
    switch: Switch = Switch()
    subagents: Subagents = Subagents()
    display: Display = Display()
    wire: Wire = Wire()
    adapters: dict[str, AdapterSettings] = {}
    """Adapters that switch rules name; filled in from the adapter group."""
    toolsets: dict[str, Toolset] = {}
    """Toolsets that sub-agents name; filled in from the toolset group."""


def load(config: DictConfig | dict[str, Any]) -> Settings:
    """Checks a composed config and makes the settings of it. Raises ConfigFault with one line per fault."""
    from geode.settings_check import check

    return check(config)

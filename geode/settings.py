"""The whole config as pydantic models: the only place that knows the YAML keys, their defaults and their limits.

Extra keys are forbidden everywhere, and `load` reports every fault of a config at once. Times are in seconds, sizes
in bytes, limits in tokens and money in US dollars, unless a field says otherwise. A limit of 0 means that there is
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from geode.config_errors import ConfigFault
from geode.settings_adapter import AdapterSettings

if TYPE_CHECKING:
    from omegaconf import DictConfig

__all__ = ["AdapterSettings", "ConfigFault", "Settings", "load"]

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Dollars = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
TierName = Literal["safe", "expensive", "write", "dangerous"]
ApprovalName = Literal["allow", "ask", "deny"]


class Part(BaseModel):
    """Base of all parts: frozen, unknown keys refused, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


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


class ToolChoiceSettings(Part):
    """Accepts every spelling of a choice: `any`, `{name: X}`, `{type: function, name: X}`, `{function: {name: X}}`."""

    type: Literal["auto", "none", "required", "any", "tool"] = "auto"
    name: str | None = None
    rounds: Literal["first", "all"] = "first"
    """How long a forced choice holds."""
    on_unsupported: Literal["send", "degrade", "error"] = "send"
    """What to do where the backend declares that it does not take the choice."""

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"type": value}
        if not isinstance(value, dict):
            return value
        value = dict(value)
        function = value.get("function")
        if isinstance(function, dict) and set(function) <= {"name"} and value.get("name") is None:
            del value["function"]
            value["name"] = function.get("name")
            value.setdefault("type", "tool")
        if value.get("name") is not None:
            value.setdefault("type", "tool")
        if value.get("type") == "function":
            value["type"] = "tool"
        return value

    @model_validator(mode="after")
    def _named(self) -> ToolChoiceSettings:
        if self.type == "tool" and not self.name:
            raise ValueError("a named tool choice needs a name: tool_choice=named tool_choice.name=TOOL")
        if self.type != "tool" and self.name is not None:
            raise ValueError(f"name {self.name!r} goes with a named choice only, not with {self.type!r}")
        return self


class Overthinking(Part):
    """Consecutive responses without a call and without an end, each of at least
    min(max(min_tokens, window_share of the context window), max_tokens) output tokens."""

    responses: Count = 2
    min_tokens: Count = 1024
    window_share: Share = 0.01


class Budget(Part):
    max_rounds: Count = 50
    time_budget_s: Seconds = 0
    session_s: Seconds = 7200
    handoff_s: Seconds = 600
    cost_budget: Dollars = 0
    cost_warning: Share = 0.8
    """Share of the cost budget at which a warning is given once."""
    cost_hard: bool = False
    """Reserve the worst case of each call before it is made, so that the sum never passes the budget."""
    cost_margin_tokens: Count = 256
    """Tokens added to that worst case for what the provider adds to a request."""
    token_budget: Count = 0
    token_scope: Literal["all", "output"] = "all"
    wrap_up_rounds: Count = 1
    wrap_up_s: Seconds = 30
    wrap_up_max_tokens: Annotated[int, Field(ge=1)] = 4096
    overthinking: Overthinking = Overthinking()


class Tiers(Part):
    safe: ApprovalName = "allow"
    expensive: ApprovalName = "ask"
    write: ApprovalName = "ask"
    dangerous: ApprovalName = "ask"


class Rule(Part):
    """A rule that fits a call decides, not its tier; of several that fit, the strictest (deny, then ask)."""

    tool: str
    """Glob over tool names."""
    arguments: dict[str, str] = {}
    """Regular expressions by argument: deny and ask look anywhere in it, allow must match it as a whole."""
    approval: ApprovalName


class Sandbox(Part):
    """Where shell commands run."""

    mode: Literal["auto", "bwrap", "none"] = "auto"
    network: bool = False
    timeout_s: Seconds = 120
    output_bytes: Count = 1_000_000
    processes: Count = 256
    """Most processes and threads that a command may start."""
    env: tuple[str, ...] = ()
    """Names of environment variables let through besides the harmless ones."""
    memory_bytes: Count = 0
    """Most memory of one process."""
    file_bytes: Count = 0
    """Largest file that a command may write."""
    cpu_s: Count = 0
    """Seconds of processor time of one process."""
    read_only_as_safe: bool = False
    """A command that only reads (its words are parsed, and what is not understood counts as writing) is a safe call."""


class Web(Part):
    allow_private: bool = False
    """Let web tools reach private and local addresses."""
    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    max_bytes: Count = 5_000_000
    timeout_s: Seconds = 30
    proxy: str | None = None
    """URL of a proxy to go through; the environment's is never used. It then looks addresses up itself."""


class Safety(Part):
    tiers: Tiers = Tiers()
    rules: tuple[Rule, ...] = ()
    sandbox: Sandbox = Sandbox()
    web: Web = Web()


class Recovery(Part):
    tool_failures: Count = 2
    """Failures of one tool in a row after which the chain runs."""
    retry: bool = True
    retry_delay_s: Seconds = 0.5
    alternative: bool = True
    structured_error: bool = True
    alternatives: dict[str, str] = {}
    """Tool to try in place of another."""
    backpressure: Count = 3
    """Tool errors in a row, over all tools, that bring a hint, at this one and each further one."""
    repeats: Count = 5
    """Same tool with the same arguments in consecutive rounds that bring a diversity hint."""
    cycle: Annotated[int, Field(ge=1)] = 3
    """Longest cycle of calls (A, B, A, B) that counts as repetition."""
    convergence: Count = 3
    """Further repetitions after that hint that end the run."""


class Summary(Part):
    enabled: bool = False
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    prompt: str = (
        "Summarise the conversation so far for yourself: the task, what was found (with exact values, paths and "
        "names), what was decided, and what is still to do."
    )


class Context(Part):
    warning: Share = 0.8
    """Share of the window (less max_tokens) at which older tool results are offloaded."""
    critical: Share = 0.9
    """Share at which the oldest messages are pruned."""
    keep_results: Count = 1
    """Rounds whose tool results stay whole, the newest first."""
    summary: Summary = Summary()


class Tools(Part):
    definitions: tuple[str, ...] = ()
    """Further definition files, in the form of tools/definitions.json."""
    handlers: dict[str, dict[str, Any]] = {}
    """Handler of a tool by name: `{_target_: package.module.function}`."""
    folders: tuple[str, ...] = ()
    """Folders whose Python files hold handlers, by function name."""
    retier: dict[str, TierName] = {}
    timeout_s: Seconds = 60
    timeouts: dict[str, Seconds] = {}
    max_parallel: Annotated[int, Field(ge=1)] = 16
    result_tokens: Count = 5000
    """A longer result goes to the offload store, a summary to the model."""
    offload_bytes: Count = 268_435_456
    """Most bytes in a run's offload store."""
    unsendable: Literal["drop", "error"] = "drop"
    """A tool whose schema the wire cannot carry."""
    defer_threshold: Count = 16
    """Above this many tools, those outside the core set load on demand; 0 never defers."""
    core: tuple[str, ...] = ()


class Toolset(Part):
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()


class McpServer(Part):
    transport: Literal["stdio", "http"] = "stdio"
    command: str | None = None
    args: tuple[str, ...] = ()
    env_names: tuple[str, ...] = ()
    """Names of environment variables that the server gets."""
    url: str | None = None
    header_env: dict[str, str] = {}
    """HTTP header to the name of the environment variable that holds its value."""
    prefix: bool = True
    """Tools are named `server__tool`."""
    auto_approve: bool = False
    required: bool = False
    start_timeout_s: Seconds = 20
    timeout_s: Seconds = 60
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _reachable(self) -> McpServer:
        if self.transport == "stdio" and not self.command:
            raise ValueError("a stdio server needs a command")
        if self.transport == "http" and not self.url:
            raise ValueError("an http server needs a url")
        return self


class Mcp(Part):
    servers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], McpServer] = {}


class Llm(Part):
    """Retries of a failed LLM call: exponential back-off from base_delay_s, at most max_delay_s."""

    attempts: Annotated[int, Field(ge=1)] = 4
    base_delay_s: Seconds = 1.0
    max_delay_s: Seconds = 60
    jitter: Share = 0.25
    """Share of a delay that is random."""


class Price(Part):
    """US dollars per million tokens."""

    input_mtok: Dollars
    output_mtok: Dollars
    cache_read_mtok: Dollars | None = None
    cache_write_mtok: Dollars | None = None


class Pricing(Part):
    unknown: Literal["error", "free"] = "error"
    """A model without a known price, with a cost budget set."""
    overrides: dict[str, Price] = {}
    windows: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Context window of a model, tokens."""


class Response(Part):
    model_config = ConfigDict(populate_by_name=True)
    schema_: str | dict[str, Any] | None = Field(default=None, alias="schema")
    """JSON Schema of the final answer: a path, or the schema itself."""
    repair: Count = 1
    """Rounds in which an answer that does not fit may be repaired."""
    continuations: Count = 2
    """How often an answer cut by max_tokens is asked to go on."""


class Session(Part):
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=100)] | None = None
    dir: str | None = None


class Journal(Part):
    fsync: Literal["never", "round", "event"] = "round"


class HookRef(Part):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    target: str = Field(alias="_target_")
    """Dotted path of a callable, or of a factory that takes the further keys."""


class ObserverRef(HookRef):
    events: tuple[str, ...] = ()
    """Event names; none means all."""


class InterceptorRef(HookRef):
    event: Literal["USER_INPUT_RECEIVED", "TOOL_EXEC_STARTED", "CONTEXT_OVERFLOW_ACTION"]


class Hooks(Part):
    timeout_s: Annotated[float, Field(gt=0)] = 5
    observers: tuple[ObserverRef, ...] = ()
    interceptors: tuple[InterceptorRef, ...] = ()

    @field_validator("observers")
    @classmethod
    def _events(cls, observers: tuple[ObserverRef, ...]) -> tuple[ObserverRef, ...]:
        from geode.config_errors import nearest
        from geode.hooks import Event

        for observer in observers:
            for event in observer.events:
                if event not in Event.__members__:
                    raise ValueError(f"unknown event {event!r}{nearest(event, Event.__members__)}")
        return observers


class SwitchRule(Part):
    """Another adapter or model takes over: after a round, from a share of the cost budget, or on an LLM error."""

    adapter: str | None = None
    model: str | None = None
    after_rounds: Annotated[int, Field(ge=1)] | None = None
    cost_share: Annotated[float, Field(gt=0, le=1)] | None = None
    on: Literal["llm_error"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _yaml_on(cls, value: Any) -> Any:
        """YAML 1.1 reads a bare `on` as true: the key is meant all the same."""
        if isinstance(value, dict) and True in value:
            return {"on" if key is True else key: item for key, item in value.items()}
        return value

    @model_validator(mode="after")
    def _whole(self) -> SwitchRule:
        if self.adapter is None and self.model is None:
            raise ValueError("a switch rule needs an adapter or a model to switch to")
        if sum(x is not None for x in (self.after_rounds, self.cost_share, self.on)) != 1:
            raise ValueError("a switch rule needs exactly one of after_rounds, cost_share and on")
        return self


class Switch(Part):
    rules: tuple[SwitchRule, ...] = ()


class Subagents(Part):
    enabled: bool = False
    toolset: str = "read_only"
    """A choice of the toolset group."""
    max_depth: Annotated[int, Field(ge=1)] = 1
    max_agents: Annotated[int, Field(ge=1)] = 4
    max_rounds: Annotated[int, Field(ge=1)] = 10
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of what is left of the parent's budgets that one sub-agent may use."""
    background: bool = True


class Display(Part):
    mode: Literal["auto", "live", "plain", "quiet"] = "auto"


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

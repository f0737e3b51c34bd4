"""Settings of what has to do with tools: the groups `safety`, `recovery`, `tools`, `toolset`, `mcp` and `subagents`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from geode.settings_base import STRICT, Count, Seconds

__all__ = ["Mcp", "McpServer", "Recovery", "Rule", "Safety", "Subagents", "Tools", "Toolset"]

TierName = Literal["safe", "expensive", "write", "dangerous"]
ApprovalName = Literal["allow", "ask", "deny"]


class Part(BaseModel):
    model_config = STRICT


class Tiers(Part):
    safe: ApprovalName = "allow"
    """Calls that only read."""
    expensive: ApprovalName = "ask"
    """Calls that cost time or money: asked about once for all of a response."""
    write: ApprovalName = "ask"
    """Calls that change files in the workspace."""
    dangerous: ApprovalName = "ask"
    """Calls that may do anything, and those of tools without a tier."""


class Rule(Part):
    """A rule that fits a call decides, not its tier; of several that fit, the strictest (deny, then ask)."""

    tool: str
    """Glob over tool names."""
    arguments: dict[str, str] = {}
    """Regular expressions by argument: deny and ask look anywhere in it, allow must match it as a whole."""
    approval: ApprovalName
    """What holds for a call that fits."""


class Sandbox(Part):
    """Where shell commands run."""

    mode: Literal["auto", "bwrap", "none"] = "auto"
    """`auto` takes bubblewrap where it works; `bwrap` insists on it; `none` runs commands unisolated."""
    network: bool = False
    """Let commands reach the network."""
    timeout_s: Seconds = 120
    """A command may take so long."""
    output_bytes: Count = 1_000_000
    """Output kept of a command."""
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
    """Hosts that may be reached; empty is all."""
    deny_hosts: tuple[str, ...] = ()
    """Hosts that may not be reached."""
    max_bytes: Count = 5_000_000
    """Bytes read of a page."""
    timeout_s: Seconds = 30
    """A page may take so long."""
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
    """Step 1 of the chain: the same input again (safe tools only)."""
    retry_delay_s: Seconds = 0.5
    """Wait before it."""
    alternative: bool = True
    """Step 2: the tool's alternative, where one is declared."""
    structured_error: bool = True
    """Step 3: an error that says what was tried and what to do instead."""
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


class Tools(Part):
    definitions: tuple[str, ...] = ()
    """Further definition files, in the form of tools/definitions.json."""
    handlers: dict[str, dict[str, Any]] = {}
    """Handler of a tool by name: `{_target_: package.module.function}`."""
    folders: tuple[str, ...] = ()
    """Folders whose Python files hold handlers, by function name."""
    retier: dict[str, TierName] = {}
    """Tier of a tool by name, in place of its own."""
    timeout_s: Seconds = 60
    """A call may take so long."""
    timeouts: dict[str, Seconds] = {}
    """The same for a tool by name."""
    max_parallel: Annotated[int, Field(ge=1)] = 16
    """Calls that run together."""
    result_tokens: Count = 5000
    """A longer result goes to the offload store, a summary to the model."""
    offload_bytes: Count = 268_435_456
    """Most bytes in a run's offload store."""
    unsendable: Literal["drop", "error"] = "drop"
    """A tool whose schema the wire cannot carry."""
    defer_threshold: Count = 16
    """Above this many tools, those outside the core set load on demand; 0 never defers."""
    core: tuple[str, ...] = ()
    """Names or globs of the tools that are always sent in full."""


class Toolset(Part):
    include: tuple[str, ...] = ("*",)
    """Globs over tool names."""
    exclude: tuple[str, ...] = ()
    """Globs; they beat `include`."""


class McpServer(Part):
    transport: Literal["stdio", "http"] = "stdio"
    """A child process, or streamable HTTP."""
    command: str | None = None
    """Program of a stdio server, on PATH or by path."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env_names: tuple[str, ...] = ()
    """Names of environment variables that the server gets."""
    url: str | None = None
    """Address of an http server."""
    header_env: dict[str, str] = {}
    """HTTP header to the name of the environment variable that holds its value."""
    prefix: bool = True
    """Tools are named `server__tool`."""
    auto_approve: bool = False
    """Run its tools unasked, beside each other."""
    required: bool = False
    """A server that does not start is a fault of the config."""
    start_timeout_s: Seconds = 20
    """To start or connect."""
    timeout_s: Seconds = 60
    """A call may take so long."""
    include: tuple[str, ...] = ("*",)
    """Globs over the server's own tool names."""
    exclude: tuple[str, ...] = ()
    """Globs; they beat `include`."""

    @model_validator(mode="after")
    def _reachable(self) -> McpServer:
        if self.transport == "stdio" and not self.command:
            raise ValueError("a stdio server needs a command")
        if self.transport == "http" and not self.url:
            raise ValueError("an http server needs a url")
        return self


class Mcp(Part):
    servers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], McpServer] = {}
    """Servers by name."""


class Subagents(Part):
    enabled: bool = False
    """Give the model the tool `delegate_task`."""
    toolset: str = "read_only"
    """A choice of the toolset group."""
    max_depth: Annotated[int, Field(ge=1)] = 1
    """Levels below the run."""
    max_agents: Annotated[int, Field(ge=1)] = 4
    """Nested runs in all."""
    max_rounds: Annotated[int, Field(ge=1)] = 10
    """LLM calls of each."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of what is left of the parent's budgets that one sub-agent may use."""
    background: bool = True
    """The model may let one run in the background."""

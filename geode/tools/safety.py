"""The safety policy: may a call run, must a person be asked, or is it denied?

The rules that match a call come first. Where several match, the most restrictive one counts (deny, then ask, then
allow): the order in which rules are written never opens a door. Where none matches, an auto-approved tool is allowed,
and any other tool falls under the policy of its tier.

A rule matches when its glob matches the tool's name and each of its regular expressions matches the argument of that
name; an argument that is not there never matches. `ask` and `deny` rules match anywhere in the argument; an `allow`
rule must match the argument as a whole, or `ls` would also let `ls; rm -rf ~` through. An argument that is no text is
matched as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from geode.config_errors import nearest, shown
from geode.contract import Approval, Tier
from geode.tools.commands import tier_of_call
from geode.tools.types import Tool, ToolConfigError

__all__ = ["DEFAULT_TIERS", "SafetyPolicy", "SafetyRule", "Verdict"]

DEFAULT_TIERS: Mapping[Tier, Approval] = {
    Tier.SAFE: Approval.ALLOW,
    Tier.EXPENSIVE: Approval.ASK,
    Tier.WRITE: Approval.ASK,
    Tier.DANGEROUS: Approval.ASK,
}

_STRICTNESS = {Approval.ALLOW: 0, Approval.ASK: 1, Approval.DENY: 2}


@dataclass(frozen=True, slots=True)
class SafetyRule:
    """One rule: a glob over tool names, regular expressions by argument name, and what holds where all match."""

    tool: str
    approval: Approval
    arguments: Mapping[str, re.Pattern[str]]

    def matches(self, name: str, arguments: Mapping[str, Any]) -> bool:
        if not fnmatchcase(name, self.tool):
            return False
        whole = self.approval is Approval.ALLOW
        for key, pattern in self.arguments.items():
            if key not in arguments:
                return False
            value = arguments[key]
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            if not (pattern.fullmatch(text) if whole else pattern.search(text)):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the policy says. `rule`: a rule said it, not the tier; `override`: the config override that changes it."""

    approval: Approval
    rule: bool = False
    override: str = ""


class SafetyPolicy:
    """Tiers and rules of a config. tiers: any that is missing takes its default. read_only_as_safe: what is decided
    of a shell command that only reads is what is decided of a safe call; it still waits its turn like any command."""

    def __init__(
        self,
        tiers: Mapping[Tier, Approval] | None = None,
        rules: Sequence[SafetyRule] = (),
        *,
        read_only_as_safe: bool = False,
    ) -> None:
        self._tiers = {**DEFAULT_TIERS, **(tiers or {})}
        self._rules = tuple(rules)
        self._read_only_as_safe = read_only_as_safe

    @classmethod
    def from_config(
        cls,
        tiers: Mapping[str, str] | None = None,
        rules: Sequence[Mapping[str, Any]] = (),
        *,
        read_only_as_safe: bool = False,
    ) -> SafetyPolicy:
        """Reads plain config values; raises `ToolConfigError` with all faults at once."""
        faults: list[str] = []
        read: dict[Tier, Approval] = {}
        for name, value in (tiers or {}).items():
            if name not in set(Tier):
                faults.append(f"safety.tiers.{name}: not one of {', '.join(Tier)}{nearest(str(name), Tier)}")
            elif (approval := _approval(value, f"safety.tiers.{name}", faults)) is not None:
                read[Tier(name)] = approval
        parsed = [_rule(rule, f"safety.rules.{index}", faults) for index, rule in enumerate(rules)]
        if faults:
            raise ToolConfigError(faults)
        return cls(read, [rule for rule in parsed if rule is not None], read_only_as_safe=read_only_as_safe)

    def decide(self, tool: Tool, arguments: Mapping[str, Any]) -> Verdict:
        """The verdict on one call with these very arguments; asked anew when an interceptor rewrote them."""
        matching = [rule.approval for rule in self._rules if rule.matches(tool.name, arguments)]
        if matching:
            return Verdict(max(matching, key=_STRICTNESS.__getitem__), True, "safety.rules=[]")
        if tool.auto_approved:
            return _ALLOWED
        tier = tier_of_call(tool.name, arguments, tool.tier, read_only_as_safe=self._read_only_as_safe)
        approval = self._tiers[tier]
        if approval is Approval.ALLOW:
            return _ALLOWED
        server = tool.source.removeprefix("mcp:")
        own = server != tool.source and approval is Approval.ASK
        return Verdict(
            approval, False, f"mcp.servers.{server}.auto_approve=true" if own else f"safety.tiers.{tier}=allow"
        )


_ALLOWED = Verdict(Approval.ALLOW)


def _approval(value: Any, where: str, faults: list[str]) -> Approval | None:
    if isinstance(value, str) and value in set(Approval):
        return Approval(value)
    faults.append(f"{where}: {shown(value)} is not one of {', '.join(Approval)}{nearest(str(value), Approval)}")
    return None


def _rule(rule: Mapping[str, Any], where: str, faults: list[str]) -> SafetyRule | None:
    tool = rule.get("tool", "*")
    if not isinstance(tool, str):
        faults.append(f"{where}.tool: {shown(tool)} is not a tool name or glob")
        tool = "*"
    approval = _approval(rule.get("approval"), f"{where}.approval", faults)
    patterns = {}
    for name, text in (rule.get("arguments") or {}).items():
        try:
            patterns[str(name)] = re.compile(text)
        except (re.error, TypeError) as error:
            faults.append(f"{where}.arguments.{name}: {shown(text)} is not a regular expression: {error}")
    return None if approval is None else SafetyRule(tool, approval, patterns)

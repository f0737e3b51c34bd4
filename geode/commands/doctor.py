"""`geode doctor [OVERRIDES]`: whether this machine has what a config needs; one line per finding."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict

from geode.commands.doctor_checks import Finding, check_config, check_machine
from geode.config_errors import ConfigFault

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """0 unless something fails, then 1. `--json` prints a JSON array of the findings."""
    words = [word for word in argv if word != "--json"]
    findings = list(check_machine(os.environ))
    findings += _config(words)
    if len(words) != len(argv):
        print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False, indent=2))
    else:
        for finding in findings:
            action = f" -> {finding.action}" if finding.action else ""
            print(f"{finding.status:<4} {finding.check:<10} {finding.message}{action}")
        counts = {s: sum(f.status == s for f in findings) for s in ("OK", "WARN", "FAIL")}
        print(f"[{counts['OK']} OK · {counts['WARN']} WARN · {counts['FAIL']} FAIL]")
    return 1 if any(finding.status == "FAIL" for finding in findings) else 0


def _config(words: Sequence[str]) -> list[Finding]:
    from geode.compose import compose_settings

    try:
        settings = compose_settings(words)
    except ConfigFault as fault:
        return [Finding("config", "FAIL", line, "see docs/config.md") for line in fault.lines]
    return [Finding("config", "OK", "the config is valid"), *check_config(settings, os.environ)]

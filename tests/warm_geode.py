"""Imports what a `geode` command may need, in the process that the tests fork commands from (see cli_kit.py)."""

from __future__ import annotations

import gc
from importlib import import_module

from geode.wire import requests_of

for _name in (
    "displayed_run",
    "run_command",
    "experiments.sweep",
    "commands.report",
    "commands.resume",
    "commands.replay",
):
    import_module(f"geode.{_name}")
for _name in ("anthropic-payg", "openai-payg", "glm-payg"):  # the SDKs import most of themselves at their first call
    requests_of([f"adapter={_name}"])
gc.collect()
gc.freeze()  # so that a fork shares it all

"""Texts of a config that are Jinja2 templates: the system prompt, and the status line of each round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from geode.config_errors import ConfigFault

__all__ = ["compile_text"]


def compile_text(where: str, source: str) -> Callable[[Mapping[str, Any]], str]:
    """The template as a function of its variables. Raises ConfigFault for a template that is none; a variable that is
    not there is a ConfigFault of the call. Jinja2 is imported only where there is something to fill in."""
    if "{{" not in source and "{%" not in source and "{#" not in source:
        return lambda _variables: source
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    try:
        template = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False).from_string(source)
    except TemplateError as error:
        raise ConfigFault([f"{where}: not a Jinja2 template: {error}"]) from error

    def render(variables: Mapping[str, Any]) -> str:
        try:
            return template.render(variables)
        except Exception as error:  # an expression may raise anything
            allowed = ", ".join(sorted(variables))
            raise ConfigFault([f"{where}: {error}, allowed: {allowed}"]) from error

    return render

"""Jinja2 templates of a script, sandboxed; Jinja2 is imported only where a script has a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

__all__ = ["Renderer", "Templates", "has_template"]

Renderer = Callable[[Mapping[str, Any]], Any]


def has_template(value: Any) -> bool:
    """Whether a string somewhere in a JSON value is a template."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(map(has_template, value.values()))
    return isinstance(value, list) and any(map(has_template, value))


class Templates:
    """Compiles strings once. Errors are TemplateSyntaxError and UndefinedError of Jinja2, or the expression's own."""

    def __init__(self) -> None:
        self._environment: SandboxedEnvironment | None = None

    def text(self, source: str) -> Renderer:
        """A renderer to text."""
        if not has_template(source):
            return lambda _context: source
        template = self._jinja().from_string(source)
        return lambda context: template.render(context)

    def value(self, source: Any) -> Renderer:
        """A renderer of a JSON value: a string that is one single `{{ expression }}` keeps the expression's type."""
        if isinstance(source, Mapping):
            members = [(key, self.value(item)) for key, item in source.items()]
            return lambda context: {key: render(context) for key, render in members}
        if isinstance(source, list):
            items = [self.value(item) for item in source]
            return lambda context: [render(context) for render in items]
        if not isinstance(source, str) or not has_template(source):
            return lambda _context: source
        if not self._is_one_expression(source):
            return self.text(source)
        inner = source.strip()[2:-2].strip().removeprefix("-").removesuffix("-")
        expression = self._jinja().compile_expression(inner, undefined_to_none=False)
        return lambda context: _defined(expression(context))

    def _is_one_expression(self, source: str) -> bool:
        from jinja2 import nodes

        body = self._jinja().parse(source.strip()).body
        if len(body) != 1 or not isinstance(body[0], nodes.Output):
            return False
        return len(body[0].nodes) == 1 and not isinstance(body[0].nodes[0], nodes.TemplateData)

    def _jinja(self) -> SandboxedEnvironment:
        if self._environment is None:
            self._environment = _environment()
        return self._environment


def _defined(value: Any) -> Any:
    from jinja2 import Undefined

    if isinstance(value, Undefined):
        str(value)  # a strict undefined raises here, with its own message
    return value


def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class ScriptEnvironment(ImmutableSandboxedEnvironment):
        def getattr(self, obj: Any, attribute: str) -> Any:
            """A key of a JSON object comes before a method of dict (`json.items`, `json.values`)."""
            if isinstance(obj, Mapping) and attribute in obj:
                return obj[attribute]
            return super().getattr(obj, attribute)

    return ScriptEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)

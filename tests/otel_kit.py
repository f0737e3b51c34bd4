"""An OpenTelemetry observer that exports into memory, named by a config as any user's hook is."""

from __future__ import annotations

from typing import Any

exported: list[Any] = []


def hook(content: bool) -> Any:
    """Makes the observer."""
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from geode.otel import OpenTelemetry

    class Exporter(InMemorySpanExporter):
        def export(self, spans: Any) -> Any:
            exported.extend(spans)
            return super().export(spans)

    return OpenTelemetry(content=content, exporter=Exporter())

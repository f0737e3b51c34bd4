"""Prices and context windows: the `genai-prices` package's tables, with overrides from config.

The table is imported only when a model is looked up that no override names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from geode.contract import Usage

__all__ = ["ModelRef", "PriceBook", "PriceOverride"]

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class PriceOverride:
    """Prices in US dollars per million tokens. What is not given comes from the input price: a cache read the same, a
    cache write 1.25 times, a one-hour cache write twice (Anthropic's price list, the dearest of the three wires)."""

    input_mtok: float
    output_mtok: float
    cache_read_mtok: float | None = None
    cache_write_mtok: float | None = None
    cache_write_1h_mtok: float | None = None

    def cost(self, usage: Usage) -> float:
        read = self.input_mtok if self.cache_read_mtok is None else self.cache_read_mtok
        write = 1.25 * self.input_mtok if self.cache_write_mtok is None else self.cache_write_mtok
        write_1h = 2 * self.input_mtok if self.cache_write_1h_mtok is None else self.cache_write_1h_mtok
        short = usage.cache_write_tokens - usage.cache_write_1h_tokens
        total = (
            usage.input_tokens * self.input_mtok
            + usage.cache_read_tokens * read
            + short * write
            + usage.cache_write_1h_tokens * write_1h
            + usage.output_tokens * self.output_mtok
        )
        return total / _MILLION


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model as the price table finds it. `price_as`: `MODEL` or `PROVIDER:MODEL` where the table's name is another;
    `base_url` helps to find the provider."""

    model: str
    base_url: str = ""
    price_as: str | None = None


@dataclass(slots=True)
class PriceBook:
    """Looks up costs and windows. overrides: prices by model name; windows: context windows in tokens by model name."""

    overrides: Mapping[str, PriceOverride] = field(default_factory=dict)
    windows: Mapping[str, int] = field(default_factory=dict)
    _unknown: set[ModelRef] = field(default_factory=set)

    def known(self, ref: ModelRef) -> bool:
        """Whether the model has a price."""
        return self.cost(ref, Usage(input_tokens=1, output_tokens=1)) is not None

    def cost(self, ref: ModelRef, usage: Usage) -> float | None:
        """US dollars for the usage; None where the model's price is unknown."""
        override = self.overrides.get(ref.model)
        if override is not None:
            return override.cost(usage)
        if ref in self._unknown:
            return None
        from genai_prices import Usage as TableUsage
        from genai_prices import calc_price

        counted = TableUsage(
            input_tokens=usage.total_input_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            cache_write_1h_tokens=usage.cache_write_1h_tokens,
            output_tokens=usage.output_tokens,
        )
        for provider, url, model in _attempts(ref):
            try:
                if url:
                    return float(calc_price(counted, model, provider_api_url=url).total_price)
                return float(calc_price(counted, model, provider_id=provider).total_price)
            except LookupError:
                continue
        self._unknown.add(ref)
        return None

    def window(self, ref: ModelRef) -> int:
        """The model's context window in tokens; 0 where it is unknown."""
        if ref.model in self.windows:
            return self.windows[ref.model]
        if ref.model in self.overrides:
            return 0
        from genai_prices.data_snapshot import get_snapshot

        for provider, url, model in _attempts(ref):
            try:
                _, found = get_snapshot().find_provider_model(model, None, provider, url)
            except LookupError:
                continue
            return found.context_window or 0
        return 0


def _attempts(ref: ModelRef) -> list[tuple[str | None, str | None, str]]:
    """(provider id, API URL, model) in the order in which they are tried."""
    if ref.price_as:
        provider, _, model = ref.price_as.rpartition(":")
        return [(provider or None, None, model)]
    tries: list[tuple[str | None, str | None, str]] = [(None, None, ref.model)]
    if ref.base_url:
        tries.insert(0, (None, ref.base_url, ref.model))
    return tries

"""Prices and context windows: the table, overrides, what is unknown."""

from __future__ import annotations

import pytest

from geode.contract import Usage
from geode.pricing import ModelRef, PriceBook, PriceOverride

MILLION = Usage(input_tokens=1_000_000)
ZAI = "https://api.z.ai/api/paas/v4"


def book(**override: float) -> PriceBook:
    return PriceBook({"mine": PriceOverride(**{"input_mtok": 2.0, "output_mtok": 8.0, **override})})


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(), 0.0),
        (Usage(input_tokens=1_000_000), 2.0),
        (Usage(output_tokens=1_000_000, reasoning_tokens=500_000), 8.0),
        (Usage(cache_read_tokens=1_000_000), 2.0),
        (Usage(cache_write_tokens=1_000_000), 2.5),
        (Usage(cache_write_tokens=1_000_000, cache_write_1h_tokens=1_000_000), 4.0),
        (Usage(100, 10, 1000, 500, 200, 5), (100 * 2 + 1000 * 2 + 300 * 2.5 + 200 * 4 + 10 * 8) / 1e6),
    ],
)
def test_an_override_prices_each_token_once(usage: Usage, cost: float) -> None:
    assert book().cost(ModelRef("mine"), usage) == pytest.approx(cost)


def test_cache_prices_of_an_override() -> None:
    prices = book(cache_read_mtok=0.2, cache_write_mtok=2.5)
    counted = Usage(cache_read_tokens=1_000_000, cache_write_tokens=2_000_000, cache_write_1h_tokens=1_000_000)
    assert prices.cost(ModelRef("mine"), counted) == pytest.approx(0.2 + 2.5 + 4.0)


@pytest.mark.parametrize(
    ("ref", "known"),
    [
        (ModelRef("claude-sonnet-4-5", "https://api.anthropic.com"), True),
        (ModelRef("gpt-4.1", "https://api.openai.com/v1"), True),
        (ModelRef("gpt-4.1", "http://127.0.0.1:9/v1"), True),
        (ModelRef("no-such-model", "https://api.openai.com/v1"), False),
        (ModelRef("anything", price_as="gpt-4.1"), True),
        (ModelRef("anything", price_as="openai:gpt-4.1"), True),
        (ModelRef("gpt-4.1", price_as="no-such-model"), False),
    ],
)
def test_what_the_table_knows(ref: ModelRef, known: bool) -> None:
    assert PriceBook().known(ref) is known
    assert (PriceBook().cost(ref, MILLION) is None) is not known
    assert (PriceBook().window(ref) > 0) is known


def test_the_table_prices_cached_tokens_apart() -> None:
    ref, prices = ModelRef("claude-sonnet-4-5", "https://api.anthropic.com"), PriceBook()
    plain = prices.cost(ref, Usage(input_tokens=10_000))
    read = prices.cost(ref, Usage(cache_read_tokens=10_000))
    write = prices.cost(ref, Usage(cache_write_tokens=10_000))
    hour = prices.cost(ref, Usage(cache_write_tokens=10_000, cache_write_1h_tokens=10_000))
    assert plain == pytest.approx(0.03)
    assert read == pytest.approx(0.003)
    assert write == pytest.approx(0.0375)
    assert hour == pytest.approx(0.06)


def test_a_configured_window_wins() -> None:
    prices = PriceBook(windows={"gpt-4.1": 5000}, overrides={"mine": PriceOverride(1.0, 1.0)})
    assert prices.window(ModelRef("gpt-4.1")) == 5000
    assert prices.window(ModelRef("mine")) == 0


@pytest.mark.parametrize("ref", [ModelRef(""), ModelRef("x" * 5000), ModelRef("a b/c:d", "not a url")])
def test_odd_names_are_unknown_not_errors(ref: ModelRef) -> None:
    assert PriceBook().cost(ref, MILLION) is None
    assert PriceBook().window(ref) == 0

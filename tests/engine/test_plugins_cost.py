"""Prices as texts, and the points that the plug-in `cost` gives nodes."""

from __future__ import annotations

import pytest

from unisono.api.node_usage import cost_per_hour, parse_prices


@pytest.mark.parametrize(
    ("text", "prices"),
    [("", {}), ("cpu=0.5", {"cpu": 0.5}), (" nvidia.com/gpu = 2 , cpu=0 ,", {"nvidia.com/gpu": 2.0, "cpu": 0.0})],
)
def test_prices(text, prices):
    assert parse_prices(text) == prices


@pytest.mark.parametrize(
    "text", ["cpu", "=1", "cpu=x", "cpu=-1", "cpu=nan", "cpu=inf", ",".join(f"r{n}=1" for n in range(65))]
)
def test_what_is_no_price(text):
    with pytest.raises(ValueError, match="price"):
        parse_prices(text)


def test_costs_of_an_hour():
    request = {"cpu": 2500, "memory": 4 * 1024**3, "nvidia.com/gpu": 8000}
    assert cost_per_hour(request, {"cpu": 0.1, "memory": 0.01, "nvidia.com/gpu": 2.0, "tpu": 9.0}) == pytest.approx(
        16.29
    )
    assert cost_per_hour(request, {}) == 0.0

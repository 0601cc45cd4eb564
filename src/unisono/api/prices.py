"""Prices of resources, as annotations state them: ``nvidia.com/gpu=2.5,cpu=0.04,memory=0.005``.

A price is for one unit and one hour: a core, a GPU, and for what is counted in bytes a gibibyte.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from unisono.api.resources import is_bytes

MOST_PRICES = 64
_GIBIBYTE = 1024**3
_MILLI = 1000


def parse_prices(text: str) -> dict[str, float]:
    """Price by resource name.

    Raises:
        ValueError: the text is no list of ``RESOURCE=PRICE``, or a price is negative or no number.

    """
    found: dict[str, float] = {}
    for pair in text.split(","):
        name, sign, value = (part.strip() for part in pair.partition("="))
        if not pair.strip():
            continue
        try:
            price = float(value)
        except ValueError:
            price = -1.0
        if not sign or not name or not isfinite(price) or price < 0:
            raise ValueError(f"{pair.strip()!r} is not RESOURCE=PRICE with a price of 0 or more")
        found[name] = price
    if len(found) > MOST_PRICES:
        raise ValueError(f"more than {MOST_PRICES} prices")
    return found


def cost_per_hour(request: Mapping[str, int], prices: Mapping[str, float]) -> float:
    """What a request in engine units costs in an hour; resources without a price cost nothing."""
    total = 0.0
    for name, price in prices.items():
        unit = _GIBIBYTE if is_bytes(name) else 1 if name == "pods" else _MILLI
        total += price * request.get(name, 0) / unit
    return total

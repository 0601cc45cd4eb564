"""What is known of nodes and schedulers beside their objects: measured use, prices, and heartbeats (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from unisono.api.annotations import USAGE_CPU, USAGE_MEMORY, USAGE_TIME
from unisono.api.core import Lease
from unisono.api.resources import is_bytes
from unisono.api.times import parse_time, time_or

# How busy nodes really are, as measured.
#
# Two ways lead here: a source of metrics hands the latest values to ``ClusterState.report_usage``, or something on the
# node (or about it) writes them into the node's annotations. What was measured later counts.


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Load of one node.

    Attributes:
        cpu, memory: percent of the node's capacity in use, averaged over some minutes.
        time: when it was measured, seconds since the epoch.
        gpu, gpu_memory: percent in use of the node's GPUs and of their memory; None where that is not measured.
    """

    cpu: float
    memory: float
    time: float
    gpu: float | None = None
    gpu_memory: float | None = None


def usage_in(annotations: Mapping[str, str]) -> NodeUsage | None:
    """Load that a node's annotations tell; None when a part is missing or unreadable."""
    texts = annotations.get(USAGE_CPU), annotations.get(USAGE_MEMORY), annotations.get(USAGE_TIME)
    cpu, memory, time = texts
    if cpu is None or memory is None or time is None:
        return None
    try:
        usage = NodeUsage(float(cpu), float(memory), parse_time(time))
    except ValueError:
        return None
    return usage if math.isfinite(usage.cpu) and math.isfinite(usage.memory) else None


# Prices of resources, as annotations state them: ``nvidia.com/gpu=2.5,cpu=0.04,memory=0.005``.
#
# A price is for one unit and one hour: a core, a GPU, and for what is counted in bytes a gibibyte.

MOST_PRICES = 64
_GIBIBYTE = 1024**3
_MILLI = 1000


def parse_prices(text: str) -> dict[str, float]:
    """Price by resource name.

    Raises:
        ValueError: the text is no list of ``RESOURCE=PRICE``, or a price is negative or no number.
    """
    prices: dict[str, float] = {}
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
        prices[name] = price
    if len(prices) > MOST_PRICES:
        raise ValueError(f"more than {MOST_PRICES} prices")
    return prices


def cost_per_hour(request: Mapping[str, int], prices: Mapping[str, float]) -> float:
    """What a request in engine units costs in an hour; resources without a price cost nothing."""
    total = 0.0
    for name, price in prices.items():
        unit = _GIBIBYTE if is_bytes(name) else 1 if name == "pods" else _MILLI
        total += price * request.get(name, 0) / unit
    return total


# What a scheduler's heartbeat says: the Lease that it renews as long as its cycles end (pure).

DURATION_SECONDS = 30.0


def renewed_at(lease: Lease) -> float:
    """When the Lease was renewed, in seconds since the epoch; 0 where it does not say."""
    return time_or(lease.spec.renew_time)


def silence(lease: Lease, now: float) -> str:
    """Why the scheduler that renews the Lease schedules nothing at ``now``; empty where it is alive."""
    age = max(0.0, now - renewed_at(lease))
    if not lease.spec.holder_identity:
        return f"no scheduler is running: the last one ended {age:.0f} s ago"
    if age > float(lease.spec.lease_duration_seconds or DURATION_SECONDS):
        return f"no running scheduler answers: no cycle has ended for {age:.0f} s"
    return ""

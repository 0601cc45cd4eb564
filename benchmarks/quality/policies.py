"""Configurations of the policies that the suites compare, put together from the same parts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config

Plugin = dict[str, Any]

KEEPING, EVICTING = "enqueue, allocate", "enqueue, allocate, preempt"
"""Actions: running jobs stay, or leave for others."""


def plugin(name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Plugin:
    """An entry of a tier."""
    return {"name": name, **more, **({"arguments": arguments} if arguments else {})}


GANG = plugin("gang")
GANG_MAY_LEAVE = plugin("gang", enablePreemptable=False)
"""The plug-in gang without its say on victims: a whole gang may be evicted."""
EASY = plugin("reservation", {"reservation.after": "0s"})
"""Backfill that does not delay the job that has waited longest."""
SHORTEST = [
    plugin("service-order", {"service-order.by": "time", "service-order.preempt": False}),
    plugin("reservation", {"reservation.after": "24h"}),
]
"""Short jobs first; after a day room is kept for a job that does not come to its turn."""
PREDICATES = plugin("predicates")
PACKED_GPUS = plugin("binpack", {"binpack.resources": "nvidia.com/gpu", "binpack.resources.nvidia.com/gpu": 10})
"""Nodes whose GPUs are taken come first."""


def configuration(policy: str, actions: str, *tiers: Sequence[Plugin]) -> SchedulerConfig:
    """The configuration of a policy with these actions and tiers."""
    value = {"actions": actions, "tiers": [{"plugins": list(tier)} for tier in tiers]}
    return load_config(json.dumps(value), f"policy {policy}")

"""How busy nodes really are, as measured.

Two ways lead here: a source of metrics hands the latest values to ``ClusterState.report_usage``, or something on the
node (or about it) writes them into the node's annotations. What was measured later counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from unisono.api.annotations import USAGE_CPU, USAGE_MEMORY, USAGE_TIME
from unisono.api.times import parse_time


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
        found = NodeUsage(float(cpu), float(memory), parse_time(time))
    except ValueError:
        return None
    return found if math.isfinite(found.cpu) and math.isfinite(found.memory) else None

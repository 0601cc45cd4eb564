"""Which pods hold host ports, on which nodes."""

from __future__ import annotations

from unisono.cluster.podclass import PodClass
from unisono.engine.cycle.context import Cycle


def port_holders(cycle: Cycle) -> dict[str, dict[str, PodClass]]:
    """By node name and pod key: pods with host ports, those that this cycle places included."""
    session = cycle.session
    held = {name: dict(pods) for name, pods in session.snapshot.port_holders.items() if pods}
    names = session.snapshot.nodes.names
    for placement in cycle.bound:
        if placement.pod_class.host_ports:
            for task, column in zip(placement.tasks, placement.columns, strict=True):
                held.setdefault(names[column], {})[task.key] = placement.pod_class
    return held

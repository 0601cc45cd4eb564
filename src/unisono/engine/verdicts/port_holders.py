"""Which pods hold host ports, on which nodes, and whether they would come back there."""

from __future__ import annotations

from unisono.cluster.podclass import PodClass
from unisono.engine.cycle.context import Cycle
from unisono.engine.verdicts.job_holders import is_created_again, is_of_daemonset, owner_of


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


def comes_again(cycle: Cycle, key: str) -> bool:
    """Whether a controller makes another pod in place of this one (by its key), which may take the port first."""
    task = cycle.session.snapshot.tasks.get(key)
    return task is not None and is_created_again(task)


def daemonset_of(cycle: Cycle, key: str) -> str:
    """``ns/name`` of the DaemonSet that has put a pod (by its key) on its node and would again; ``""`` for others."""
    task = cycle.session.snapshot.tasks.get(key)
    return owner_of(task).name if task is not None and is_of_daemonset(task) else ""

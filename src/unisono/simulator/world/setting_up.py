"""What stands in a simulated cluster before the first job comes."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.api.kinds import HYPER_NODES, NODES, PRIORITY_CLASSES, QUEUES
from unisono.api.scheduling import Queue
from unisono.cluster.state import ClusterState
from unisono.errors import UnisonoError
from unisono.simulator.clusters.model import Cluster, make_queue
from unisono.simulator.workload.job import Job
from unisono.simulator.world.objects import priority_object


class SimulationError(UnisonoError):
    """A simulation cannot be run as it was asked for."""


def queues_of(cluster: Cluster, jobs: Sequence[Job]) -> list[Queue]:
    """The queues of the cluster, and those that only jobs name."""
    queues = {queue.metadata.name: queue for queue in cluster.queues}
    for name in ("default", *sorted({job.queue for job in jobs})):
        queues.setdefault(name, make_queue(name))
    return list(queues.values())


def fill(state: ClusterState, cluster: Cluster, jobs: Sequence[Job]) -> None:
    """Add nodes, topology, queues and priority classes.

    Raises:
        SimulationError: one of them is not valid.

    """
    for node in cluster.nodes:
        state.apply("ADDED", NODES, node)
    for hyper_node in cluster.hyper_nodes:
        state.apply("ADDED", HYPER_NODES, hyper_node)
    for queue in queues_of(cluster, jobs):
        state.apply("ADDED", QUEUES, queue)
    for value in sorted({job.priority for job in jobs} - {0}):
        state.apply("ADDED", PRIORITY_CLASSES, priority_object(value))
    for rejected in state.rejected.all():
        raise SimulationError(f"{rejected.kind} {rejected.key}: {rejected.message}")

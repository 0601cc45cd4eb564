"""The switches of a plug-in in Volcano's configuration file, and which hooks each one guards.

The odd mixture of ``enable`` and ``enabled`` is the wire format of Volcano and is kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Flags:
    """Resolved switches of one configured plug-in; the defaults are those of a flag absent from a file."""

    job_order: bool = True
    hierarchy: bool = False
    job_ready: bool = True
    job_pipelined: bool = True
    task_order: bool = True
    preemptable: bool = True
    reclaimable: bool = True
    preemptive: bool = True
    queue_order: bool = True
    cluster_order: bool = False
    predicate: bool = True
    best_node: bool = True
    node_order: bool = True
    target_job: bool = True
    reserved_nodes: bool = True
    job_enqueued: bool = True
    victim: bool = True
    job_starving: bool = True
    overused: bool = True
    allocatable: bool = True
    hyper_node_order: bool = True
    sub_job_ready: bool = True
    sub_job_pipelined: bool = True
    sub_job_order: bool = True
    hyper_node_gradient: bool = True
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(tuple(getattr(self, name) for name in _names(type(self)))))

    def __hash__(self) -> int:
        """Worked out once: each session finds the hooks of its plug-ins by their switches."""
        return self._hash

    @classmethod
    def all_off(cls, switched: Mapping[str, bool]) -> Flags:
        """Every flag off except those of ``switched`` (wire key to value): how recorded cases are meant."""
        values = dict.fromkeys(_names(cls), False)
        values.update({FLAG_KEYS[key].attribute: value for key, value in switched.items()})
        return cls(**values)

    @classmethod
    def scoring(cls) -> Flags:
        """Of a plug-in that only scores nodes."""
        return cls.all_off({"enableNodeOrder": True, "enableBestNode": True, "enabledHyperNodeOrder": True})

    @classmethod
    def from_keys(cls, switched: Mapping[str, bool]) -> Flags:
        """The defaults of a configuration file, overridden by ``switched`` (wire key to value)."""
        return cls(**{FLAG_KEYS[key].attribute: value for key, value in switched.items()})


def _names(cls: type[Flags]) -> list[str]:
    return [each.name for each in fields(cls) if each.init]


@dataclass(frozen=True, slots=True)
class FlagKey:
    """One switch: its key in the file, its attribute of `Flags`, and the hooks it guards (Volcano's names)."""

    key: str
    attribute: str
    guards: str

    @property
    def default(self) -> bool:
        """What holds when the key is absent from a configuration file."""
        return bool(getattr(_DEFAULTS, self.attribute))


_DEFAULTS = Flags()

FLAG_KEYS: dict[str, FlagKey] = {
    flag.key: flag
    for flag in (
        FlagKey("enableJobOrder", "job_order", "JobOrder"),
        FlagKey("enableHierarchy", "hierarchy", "hierarchical queues of drf, capacity and nodegroup"),
        FlagKey("enableJobReady", "job_ready", "JobReady"),
        FlagKey("enableJobPipelined", "job_pipelined", "JobPipelined"),
        FlagKey("enableTaskOrder", "task_order", "TaskOrder"),
        FlagKey("enablePreemptable", "preemptable", "Preemptable"),
        FlagKey("enableReclaimable", "reclaimable", "Reclaimable"),
        FlagKey("enablePreemptive", "preemptive", "Preemptive"),
        FlagKey("enableQueueOrder", "queue_order", "QueueOrder"),
        FlagKey("enabledClusterOrder", "cluster_order", "ClusterOrder"),
        FlagKey("enablePredicate", "predicate", "PrePredicate, Predicate"),
        FlagKey("enableBestNode", "best_node", "BestNode"),
        FlagKey("enableNodeOrder", "node_order", "NodeOrder, BatchNodeOrder"),
        FlagKey("enableTargetJob", "target_job", "TargetJob"),
        FlagKey("enableReservedNodes", "reserved_nodes", "ReservedNodes"),
        FlagKey("enableJobEnqueued", "job_enqueued", "JobEnqueueable, JobEnqueued"),
        FlagKey("enabledVictim", "victim", "VictimTasks"),
        FlagKey("enableJobStarving", "job_starving", "JobStarving"),
        FlagKey("enabledOverused", "overused", "Overused"),
        FlagKey("enabledAllocatable", "allocatable", "Allocatable"),
        FlagKey("enabledHyperNodeOrder", "hyper_node_order", "HyperNodeOrder"),
        FlagKey("enabledSubJobReady", "sub_job_ready", "SubJobReady"),
        FlagKey("enabledSubJobPipelined", "sub_job_pipelined", "SubJobPipelined"),
        FlagKey("enabledSubJobOrder", "sub_job_order", "SubJobOrder"),
        FlagKey("enabledHyperNodeGradient", "hyper_node_gradient", "HyperNodeGradient"),
    )
}

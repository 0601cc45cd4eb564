"""Labels and annotations by which other schedulers and queues are told what to do, and what becomes of them here.

Facts are those of the projects' API types and documentation as of November 2026.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from unisono.api import keys
from unisono.jobkinds.paths import walk


@dataclass(frozen=True, slots=True)
class Word:
    """One key, or all that begin alike.

    Attributes:
        project: whose it is.
        key: of a label or an annotation; a trailing ``*`` stands for any further text.
        meaning: what it says there.
        becomes: ``honoured``: it means the same here; ``needless``: what it asks for is always so; ``warned``: it has
            no effect, and its author is told.
        instead: what to write here, or why it is needless; empty where it is honoured.

    """

    project: str
    key: str
    meaning: str
    becomes: Literal["honoured", "needless", "warned"] = "warned"
    instead: str = ""

    def fits(self, key: str) -> bool:
        """Whether a key is meant."""
        return key.startswith(self.key[:-1]) if self.key.endswith("*") else key == self.key


_QUEUE = "name a Queue in the annotation scheduling.volcano.sh/queue-name"
_PRIORITY = "give the pods a priorityClassName"
_GANG = "write a PodGroup with minMember, and name it in the pods' annotation scheduling.k8s.io/group-name"
_TOPOLOGY = "write spec.networkTopology, or the label volcano.sh/network-topology-mode"
_GPUS = "ask for volcano.sh/vgpu-memory and volcano.sh/vgpu-cores (docs/devices.md)"
_KEEP = 'write the annotation volcano.sh/preemptable: "false"'
_KINDS = "write a node selector, or node affinity, for the label of the nodes' GPU product"


def _honoured(project: str, meanings: Mapping[str, str]) -> Iterator[Word]:
    return (Word(project, key, meaning, "honoured") for key, meaning in meanings.items())


def _warned(project: str, meanings: Mapping[str, tuple[str, str]]) -> Iterator[Word]:
    return (Word(project, key, meaning, "warned", instead) for key, (meaning, instead) in meanings.items())


WORDS: Final[tuple[Word, ...]] = (
    *_honoured(
        "Volcano",
        {
            keys.POD_QUEUE: "queue",
            keys.QUEUE_NAME: "queue, of KubeRay's jobs",
            keys.GROUP_NAME: "PodGroup of a pod",
            keys.GROUP_MIN_MEMBER: "least pods of a gang",
            keys.PREEMPTABLE: "whether it may be evicted",
            keys.REVOCABLE_ZONE: "zone of nodes that it may use for a time",
            keys.COOLDOWN_TIME: "how long it may not be evicted",
            keys.JDB_MIN_AVAILABLE: "least pods that evictions leave",
            keys.JDB_MAX_UNAVAILABLE: "most pods that evictions take",
            keys.SLA_WAITING_TIME: "longest time to wait",
            keys.NUMA_TOPOLOGY_POLICY: "policy of NUMA nodes",
            keys.TASK_TOPOLOGY_AFFINITY: "tasks that stand together",
            keys.TASK_TOPOLOGY_ANTI_AFFINITY: "tasks that stand apart",
            keys.TASK_TOPOLOGY_ORDER: "order of tasks",
            keys.NETWORK_TOPOLOGY_MODE: "hard or soft bound on the network",
            keys.NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED: "highest tier of the network",
            keys.QOS_LEVEL: "level of service of a pod on its node",
            keys.HIERARCHY: "path of a queue for drf",
        },
    ),
    *_honoured("JobSet", {keys.EXCLUSIVE_TOPOLOGY: "a domain for each Job alone"}),
    *_honoured("KubeRay", {keys.RAY_PRIORITY_CLASS: "priority of a Ray cluster"}),
    *_honoured(
        "Kubernetes",
        {
            keys.SAFE_TO_EVICT: "whether scaling down may evict it",
            keys.DO_NOT_DISRUPT: "the same for Karpenter",
            keys.POD_DELETION_COST: "which pods of a set go first",
        },
    ),
    *_honoured("NVIDIA", {keys.GPU_PRODUCT: "model of a node's GPUs"}),
    *_warned(
        "Volcano",
        {
            "volcano.sh/namespace.weight": (
                "weight of a namespace, until Volcano 1.5",
                "give teams queues of their own",
            ),
        },
    ),
    *_warned(
        "Kueue",
        {
            "kueue.x-k8s.io/queue-name": ("LocalQueue", _QUEUE),
            "kueue.x-k8s.io/priority-class": ("WorkloadPriorityClass", _PRIORITY),
            "kueue.x-k8s.io/pod-group-name": ("group of plain pods", _GANG),
            "kueue.x-k8s.io/pod-group-total-count": ("size of such a group", _GANG),
            "kueue.x-k8s.io/podset-required-topology": ("topology that is required", _TOPOLOGY),
            "kueue.x-k8s.io/podset-preferred-topology": ("topology that is preferred", _TOPOLOGY),
            "kueue.x-k8s.io/podset-unconstrained-topology": ("topology that does not matter", _TOPOLOGY),
            "kueue.x-k8s.io/podset-slice-required-topology": ("topology of parts", "write spec.subGroupPolicy"),
            "kueue.x-k8s.io/podset-slice-size": ("size of parts", "write spec.subGroupPolicy"),
            "kueue.x-k8s.io/podset-group-name": ("pods that are placed together", "write spec.subGroupPolicy"),
            "kueue.x-k8s.io/max-exec-time-seconds": ("time limit", "set activeDeadlineSeconds of the job"),
            "kueue.x-k8s.io/retriable-in-group": ("whether pods come again", "let a Job make the pods"),
            "kueue.x-k8s.io/elastic-job": ("jobs that change their size", "see docs/jobs.md on elastic jobs"),
            "kueue.x-k8s.io/job-min-parallelism": (
                "least pods of a batch/v1 Job",
                "use a Job of Volcano",
            ),
            "kueue.x-k8s.io/job-completions-equal-parallelism": ("size of a batch/v1 Job", "use a Job of Volcano"),
        },
    ),
    *_warned(
        "KAI",
        {
            "kai.scheduler/queue": ("queue", _QUEUE),
            "runai/queue": ("queue", _QUEUE),
            "kai.scheduler/topology": ("topology tree", _TOPOLOGY),
            "kai.scheduler/topology-required-placement": ("topology that is required", _TOPOLOGY),
            "kai.scheduler/topology-preferred-placement": ("topology that is preferred", _TOPOLOGY),
            "kai.scheduler/subgroup-name": ("part of a gang", "write spec.subGroupPolicy"),
            "kai.scheduler/preemptibility": ("whether it may be evicted", _KEEP),
            "gpu-fraction": ("share of a GPU", _GPUS),
            "gpu-memory": ("memory of a GPU", _GPUS),
            "gpu-fraction-num-devices": ("number of shared GPUs", "ask for volcano.sh/vgpu-number (docs/devices.md)"),
            "pod-group-name": ("PodGroup of a pod", _GANG),
        },
    ),
    *_warned(
        "YuniKorn",
        {
            "yunikorn.apache.org/queue": ("queue", _QUEUE),
            "yunikorn.apache.org/app-id": ("application of a pod", _GANG),
            "applicationId": ("application of a pod", _GANG),
            "yunikorn.apache.org/task-group-name": ("part of a gang", _GANG),
            "yunikorn.apache.org/task-groups": ("gang", _GANG),
            "yunikorn.apache.org/schedulingPolicyParameters": ("gang or none, and how long it waits", _GANG),
            "yunikorn.apache.org/parentqueue": ("queue above", "write spec.parent of the Queue"),
            "yunikorn.apache.org/allow-preemption": ("whether it may be evicted", _KEEP),
            "yunikorn.apache.org/user.info": ("user of an application", "submit as that user"),
        },
    ),
    *_warned(
        "Koordinator",
        {
            "gang.scheduling.koordinator.sh/*": ("gang", _GANG),
            "quota.scheduling.koordinator.sh/*": ("quota of a tree", _QUEUE),
            "koordinator.sh/qosClass": ("level of service on the node", "write the annotation volcano.sh/qos-level"),
            "koordinator.sh/priority": ("priority within a class", _PRIORITY),
            "scheduling.koordinator.sh/network-topology-spec": ("network topology", _TOPOLOGY),
            "scheduling.koordinator.sh/device-allocate-hint": ("choice of devices", "see docs/devices.md"),
            "scheduling.koordinator.sh/gpu-partition-spec": ("partitions of GPUs", "see docs/devices.md"),
            "scheduling.koordinator.sh/reservation-affinity": ("reserved room", "see docs/reservation.md"),
        },
    ),
    *_warned(
        "scheduler-plugins",
        {
            "scheduling.x-k8s.io/pod-group": ("PodGroup of a pod", _GANG),
            "pod-group.scheduling.sigs.k8s.io": ("PodGroup of a pod", _GANG),
            "pod-group.scheduling.sigs.k8s.io/*": ("gang", _GANG),
        },
    ),
    Word("KubeRay", "ray.io/scheduler-name", "batch scheduler", "needless", "Ray's jobs are always gangs here"),
    Word("KubeRay", "ray.io/gang-scheduling-enabled", "gang", "needless", "Ray's jobs are always gangs here"),
    *_honoured(
        "HAMi",
        {keys.VGPU_USE_TYPE: "models of GPUs", keys.VGPU_NO_USE_TYPE: "models of GPUs that it does not use"},
    ),
    *_warned(
        "JobSet",
        {
            "alpha.jobset.sigs.k8s.io/node-selector": ("nodes labelled by hand", "use exclusive-topology alone"),
        },
    ),
    *_warned(
        "HAMi",
        {
            "hami.io/*": (
                "policy of nodes and cards",
                "set deviceshare.SchedulePolicy of the scheduler",
            ),
            "nvidia.com/use-gpuuuid": ("cards by their number", _KINDS),
            "nvidia.com/nouse-gpuuuid": ("cards by their number", _KINDS),
            "nvidia.com/vgpu-mode": ("how cards are shared", "write the annotation volcano.sh/vgpu-mode"),
        },
    ),
    *_warned(
        "Slinky",
        {
            "slurmjob.slinky.slurm.net/*": ("options of sbatch", "use 'unisono sbatch', or a Job's own fields"),
        },
    ),
    *_warned(
        "descheduler",
        {
            "descheduler.alpha.kubernetes.io/*": ("whether the descheduler may evict it", _KEEP),
        },
    ),
    *_warned(
        "Armada",
        {
            "armadaproject.io/*": ("gang, queue and priority", f"{_GANG}; {_QUEUE}"),
        },
    ),
)
"""The register."""

_EXACT: Final = {word.key: word for word in WORDS if word.becomes == "warned" and not word.key.endswith("*")}
_BEGINNINGS: Final = tuple(word for word in WORDS if word.becomes == "warned" and word.key.endswith("*"))
_PLACES: Final = ("metadata.labels", "metadata.annotations")


def without_effect(obj: Any, templates: tuple[str, ...] = ()) -> list[str]:
    """A sentence for each word of others on an object, or on its pods' templates, that is not read here.

    Args:
        obj: a struct, or JSON values.
        templates: paths of its pod templates.

    """
    told: dict[str, str] = {}
    for at in (*_PLACES, *(f"{template}.{place}" for template in templates for place in _PLACES)):
        for path, found in walk(obj, at):
            for key in found if isinstance(found, Mapping) else ():
                word = _EXACT.get(key) or next((one for one in _BEGINNINGS if one.fits(key)), None)
                if word is not None and key not in told:
                    whose = f"is {word.project}'s ({word.meaning})"
                    told[key] = f"{path}[{key}] {whose}, and has no effect on Unisono: {word.instead}"
    return list(told.values())

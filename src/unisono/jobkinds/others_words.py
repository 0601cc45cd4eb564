"""Words by which schedulers, queues and operators are told what to do, and what becomes of them here.

They are keys of labels and annotations, names of schedulers and of resources. The facts are those of the projects'
sources; `SOURCES` has their versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from unisono.api import keys

Place = Literal["key", "scheduler", "resource", "manager"]
Goal = Literal["pod", "pod label", "member", "group", "PodGroup", "bound", "owner", "JobSet", "Ray", "Queue", "Node"]
"""Where a word is read: on a pod, by a pod's label, on a pod that nobody puts into a gang, on the PodGroup that is made
of a job, on one that a user wrote, as the bound on a gang's network, on the controller of the pods; or on that kind
alone.
"""


@dataclass(frozen=True, slots=True)
class Word:
    """One word, or all keys of a domain.

    Attributes:
        project: whose it is.
        key: of a label or an annotation, or a name; ``domain/*`` stands for all keys of the domain, and of those below
            it, that have no row of their own; in a resource ``*`` stands for any text.
        meaning: what it says there.
        becomes: ``honoured``: it means the same here; ``needless``: what it asks for is always so; ``theirs``: its own
            project's controller acts on it, beside Unisono; ``mark``: components write it for themselves, and it asks
            for nothing; ``warned``: it has no effect, and its author is told.
        instead: what to write here, or why it is needless; empty where it is honoured.
        at: ``key``: of a label or an annotation; ``scheduler``: a ``schedulerName``; ``resource``: of containers;
            ``manager``: a ``managedBy`` of jobs.
        scheduler: the word stands for other things, too, and is meant only beside this ``schedulerName``.
        read_at: of one that is honoured; empty for names of queues, of which `JobKind.unheeded` tells.
    """

    project: str
    key: str
    meaning: str
    becomes: Literal["honoured", "needless", "theirs", "mark", "warned"] = "warned"
    instead: str = ""
    at: Place = "key"
    scheduler: str = ""
    read_at: frozenset[Goal] = frozenset()


SOURCES: Final[Mapping[str, str]] = {
    "Argo Workflows": "4.1.2, 2026-08-21",
    "HAMi": "2.10.0, 2026-08-21",
    "JobSet": "0.12.0, 2026-08-18",
    "KAI": "0.13.0-rc1, 2026-03-07",
    "Koordinator": "1.8.0, 2026-07-24",
    "Kthena": "1.0.0, 2026-08-21",
    "KubeRay": "1.7.0, 2026-08-19",
    "Kubeflow": "Trainer 2.3.0-rc.3, 2026-08-21; training operator 1.9.0-rc.0, 2025-02-24; MPI 0.8.0, 2026-07-02",
    "Kueue": "0.19.2, 2026-08-22",
    "LeaderWorkerSet": "0.10.0, 2026-08-21",
    "MindCluster": "main, 2026-04-27",
    "Slinky": "slurm-bridge 1.2.1, 2026-08-06",
    "Spark": "operator 2.5.2, 2026-08-21",
    "Volcano": "1.16.0-alpha.1, 2026-08-20",
    "YuniKorn": "1.9.0, 2026-08-20",
    "vgpu-manager": "main, 2026-08-21",
    "scheduler-plugins": "0.35.4, 2026-08-16",
}
"""Version and date of the sources in which each project's words were looked up."""

_QUEUE = "name a Queue in the annotation scheduling.volcano.sh/queue-name"
_PRIORITY = "give the pods a priorityClassName"
_GANG = "write a PodGroup with minMember, and name it in the pods' annotation scheduling.k8s.io/group-name"
_TOPOLOGY = "write spec.networkTopology, or the label volcano.sh/network-topology-mode"
_GPUS = "ask for volcano.sh/vgpu-memory and volcano.sh/vgpu-cores (docs/devices.md)"
_KEEP = 'write the annotation volcano.sh/preemptable: "false"'
_ROOM = "give the namespace a ResourceQuota, or its Queue a capability"
_MINIMUM = "write minMember and minResources of the PodGroup"
_AGENT = "see docs/colocation.md"
_KINDS = "write a node selector, or node affinity, for the label of the nodes' GPU product"
_SECCOMP = "write seccompProfile of a securityContext"
_APPARMOR = "write appArmorProfile of a securityContext"
_CNI = "network plug-ins of the nodes act on it, and nodes of Unisono's own agent have none"
_POLICIES = "write policies of the Job, such as RestartJob on PodFailed (docs/jobs.md)"
_CARDS = "ask for whole cards (docs/devices.md)"
_GKE = "what Google's clusters run beside Kubernetes acts on it, and nodes of Unisono's own agent have none of it"
_HYPERPOD = "write policies and maxRetry of a Job, or backoffLimit of other jobs (docs/jobs.md)"


def _honoured(project: str, meanings: Mapping[str, tuple[str, *tuple[Goal, ...]]]) -> Iterator[Word]:
    return (
        Word(project, key, meaning, "honoured", read_at=frozenset(goals)) for key, (meaning, *goals) in meanings.items()
    )


def _theirs(project: str, *domains: str) -> Iterator[Word]:
    return (Word(project, f"{each}/*", "what its own controller does", "theirs") for each in domains)


def _marks(project: str, domain: str, names: str) -> Iterator[Word]:
    return (Word(project, f"{domain}/{each}", "a component's note", "mark") for each in names.split())


def _warned(
    project: str, meanings: Mapping[str, tuple[str, str]], at: Place = "key", scheduler: str = ""
) -> Iterator[Word]:
    return (
        Word(project, key, meaning, "warned", instead, at, scheduler) for key, (meaning, instead) in meanings.items()
    )


def _parts_of_cards(project: str, names: str) -> Iterator[Word]:
    return (Word(project, each, "part of a card", "warned", _CARDS, "resource") for each in names.split())


def _schedulers(names: Mapping[str, str]) -> Iterator[Word]:
    instead = "leave schedulerName out of jobs, and write volcano on pods"
    return (
        Word(project, name, "its scheduler places the pods", "warned", instead, "scheduler")
        for name, project in names.items()
    )


WORDS: Final[tuple[Word, ...]] = (
    *_honoured(
        "Volcano",
        {
            keys.POD_QUEUE: ("queue",),
            keys.QUEUE_NAME: ("queue, of KubeRay's jobs",),
            keys.GROUP_NAME: ("PodGroup of a pod", "member"),
            keys.GROUP_MIN_MEMBER: ("least pods of a gang", "owner"),
            keys.PREEMPTABLE: ("whether it may be evicted", "pod", "pod label", "PodGroup"),
            keys.REVOCABLE_ZONE: ("zone of nodes that it may use for a time", "pod"),
            keys.COOLDOWN_TIME: ("how long it may not be evicted", "pod", "pod label"),
            keys.JDB_MIN_AVAILABLE: ("least pods that evictions leave", "group", "PodGroup"),
            keys.JDB_MAX_UNAVAILABLE: ("most pods that evictions take", "group", "PodGroup"),
            keys.SLA_WAITING_TIME: ("longest time to wait", "group", "PodGroup"),
            keys.NUMA_TOPOLOGY_POLICY: ("policy of NUMA nodes", "pod"),
            keys.TASK_TOPOLOGY_AFFINITY: ("tasks that stand together", "group", "PodGroup"),
            keys.TASK_TOPOLOGY_ANTI_AFFINITY: ("tasks that stand apart", "group", "PodGroup"),
            keys.TASK_TOPOLOGY_ORDER: ("order of tasks", "group", "PodGroup"),
            keys.NETWORK_TOPOLOGY_MODE: ("hard or soft bound on the network", "Ray", "bound"),
            keys.NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED: ("highest tier of the network, of Ray's clusters", "Ray"),
            keys.QOS_LEVEL: ("level of service of a pod on its node", "pod"),
            keys.HIERARCHY: ("path of a queue for drf", "Queue"),
            keys.HIERARCHY_WEIGHTS: ("weights along that path", "Queue"),
            keys.NETWORK_TOPOLOGY_HIGHEST_TIER: ("highest tier of the network", "bound"),
            keys.GROUP_NAME_OF_VOLCANO: ("PodGroup of a pod", "member"),
            keys.QUOTA_BURST: ("whether a pod may use more CPU than its limit for a while", "pod"),
            keys.SCORING_TYPE: ("how nodes are scored for a pod", "pod"),
            keys.SCORING_WEIGHT: ("weights of that score", "pod"),
            keys.VGPU_MODE: ("how cards are shared", "pod"),
            keys.VGPU_USE_UUID: ("cards by their number", "pod"),
            keys.VGPU_NO_USE_UUID: ("cards that it does not use, by their number", "pod"),
            keys.VGPU_GROUP_POLICY: ("cards of a gang", "pod"),
            keys.NODE_GROUP: ("group of a node", "Node"),
            keys.COLOCATION: ("a node's offline pods", "Node"),
            keys.OVERSUBSCRIPTION: ("a node's idle room is lent", "Node"),
            keys.EVICTING_CPU_HIGH: ("CPU use of a node at which offline pods go", "Node"),
            keys.EVICTING_CPU_LOW: ("CPU use of a node at which they come again", "Node"),
            keys.EVICTING_MEMORY_HIGH: ("memory use of a node at which offline pods go", "Node"),
            keys.EVICTING_MEMORY_LOW: ("memory use of a node at which they come again", "Node"),
            keys.TASK_PRIORITY: ("order of a PodGroup's pods", "pod"),
            keys.NODE_GROUP_LIMITS: ("limits of a queue in a group of nodes", "Queue"),
        },
    ),
    *_honoured("JobSet", {keys.EXCLUSIVE_TOPOLOGY: ("a domain for each Job alone", "JobSet")}),
    *_honoured("KubeRay", {keys.RAY_PRIORITY_CLASS: ("priority of a Ray cluster", "Ray")}),
    *_honoured(
        "Kubernetes",
        {
            keys.SAFE_TO_EVICT: ("whether scaling down may evict it", "pod"),
            keys.DO_NOT_DISRUPT: ("the same for Karpenter", "pod"),
            keys.POD_DELETION_COST: ("which pods of a set go first", "pod"),
        },
    ),
    *_honoured("NVIDIA", {keys.GPU_PRODUCT: ("model of a node's GPUs", "Node")}),
    *_warned(
        "Kubernetes",
        {
            "scheduler.alpha.kubernetes.io/critical-pod": ("priority, until Kubernetes 1.15", _PRIORITY),
            "scheduler.alpha.kubernetes.io/*": ("placement, until Kubernetes 1.5", "write fields of the pods' spec"),
            "seccomp.security.alpha.kubernetes.io/*": ("seccomp, until Kubernetes 1.26", _SECCOMP),
            "container.seccomp.security.alpha.kubernetes.io/*": ("seccomp, until Kubernetes 1.26", _SECCOMP),
            "kubernetes.io/ingress-bandwidth": ("bandwidth of a pod", _CNI),
            "kubernetes.io/egress-bandwidth": ("bandwidth of a pod", _CNI),
            "container.apparmor.security.beta.kubernetes.io/*": ("AppArmor, until Kubernetes 1.30", _APPARMOR),
        },
    ),
    *_warned("Multus", {"k8s.v1.cni.cncf.io/*": ("further networks of a pod", _CNI)}),
    *_warned(
        "GKE",
        {
            "networking.gke.io/interfaces": ("further networks of a pod", _CNI),
            "networking.gke.io/default-interface": ("the first network of a pod", _CNI),
            "gke-gcsfuse/*": ("buckets as volumes", _GKE),
            "devices.gke.io/*": ("devices of containers", _GKE),
            "node.gke.io/*": ("settings of a pod's node", _GKE),
        },
    ),
    *_warned("TKE", {"tke.cloud.tencent.com/networks": ("further networks of a pod", _CNI)}),
    *_warned("VKE", {"k8s.volcengine.com/pod-networks": ("further networks of a pod", _CNI)}),
    *_warned(
        "SageMaker",
        {
            "sagemaker.amazonaws.com/enable-job-auto-resume": ("whether a job starts again on other nodes", _HYPERPOD),
            "sagemaker.amazonaws.com/job-max-retry-count": ("how often it starts again", _HYPERPOD),
            "sagemaker.amazonaws.com/*": ("HyperPod's own", "see docs/health.md on nodes that fail"),
        },
    ),
    Word("MindCluster", "ring-controller.atlas", "model of NPUs, for tables of ranks", "theirs"),
    *_warned(
        "MindCluster",
        {
            "fault-scheduling": ("whether a job starts again when its NPUs fail", _POLICIES),
            "fault-retry-times": ("how often it starts again", "write maxRetry of the Job"),
            "pod-rescheduling": ("whether single pods start again", _POLICIES),
            "process-recover-enable": ("whether single processes start again", _POLICIES),
            "subHealthyStrategy": ("what becomes of a job on nodes that are not well", _POLICIES),
            "tor-affinity": ("switches that a job may use", _TOPOLOGY),
            "sp-block": ("size of parts in one super node", "write spec.subGroupPolicy, or partitionPolicy of a task"),
            "npu-310-strategy": ("cards or chips", _CARDS),
            "vnpu-level": ("part of a card", _CARDS),
            "vnpu-dvpp": ("part of a card", _CARDS),
            "podgroup-sched-enable": ("whether a PodGroup is placed whole", "leave it out: gangs are"),
            "huawei.com/schedule_policy": ("shape of a node's NPUs", _KINDS),
            "huawei.com/affinity-config": ("parts in levels of the network", "write spec.subGroupPolicy"),
            "huawei.com/recover_policy_path": ("what is started again first", _POLICIES),
            "huawei.com/schedule_ubmemory": ("memory that is shared over nodes", "leave it out"),
            "huawei.com/schedule.filter.faultCode": ("faults of cards that count", _POLICIES),
            "huawei.com/schedule.filter.faultLevel": ("faults of cards that count", _POLICIES),
            "huawei.com/vnpu-mode": ("how a card is shared", _CARDS),
            "huawei.com/schedule_minAvailable": ("least pods of a gang", "write minAvailable of the Job"),
            "huawei.com/schedule_enable_dequeue": ("whether it leaves the queue for a time", "leave it out"),
            "huawei.com/schedule_dequeue_frequency": ("when it leaves the queue for a time", "leave it out"),
            **dict.fromkeys(
                (f"huawei.com/scheduler.softShareDev.{part}" for part in ("aicoreQuota", "hbmQuota", "policy")),
                ("part of a card", _CARDS),
            ),
        },
    ),
    *_warned(
        "vgpu-manager",
        {
            "nvidia.com/node-scheduler-policy": ("policy of nodes", "set binpack or nodeorder of the scheduler"),
            "nvidia.com/device-scheduler-policy": (
                "policy of cards",
                "set deviceshare.SchedulePolicy of the scheduler",
            ),
            "nvidia.com/memory-scheduler-policy": ("whether memory of cards is oversold", _GPUS),
            "nvidia.com/device-topology-mode": (
                "cards that are near each other",
                "write volcano.sh/numa-topology-policy",
            ),
            "nvidia.com/vgpu-compute-policy": ("how cores of a card are shared", _GPUS),
            "nvidia.com/cross-pod-topology": ("cards of a gang that are near each other", _TOPOLOGY),
            **{
                f"nvidia.com/{how}clude-gpu-{what}": ("cards by their number or model", _KINDS)
                for how in ("in", "ex")
                for what in ("uuid", "type")
            },
        },
    ),
    *_warned(
        "Volcano",
        {
            "volcano.sh/namespace.weight": (
                "weight of a namespace, until Volcano 1.5",
                "give teams queues of their own",
            ),
            "scheduling.volcano.sh/group-min-resources": ("least resources of a gang", _MINIMUM),
            "scheduling.volcano.sh/queue-allocation-gate": (
                "pods are hidden from autoscalers until the queue has room",
                "submit a Job: its pods are made when its queue has admitted it",
            ),
            "volcano.sh/task-topology": ("affinity of tasks", "write arguments of the plug-in task-topology"),
            "volcano.sh/resource-group": ("group of nodes", "write a node selector"),
            "volcano.sh/quota-burst-time": ("how long a burst may last", _AGENT),
            "volcano.sh/network-bandwidth-rate": ("share of a node's network", _AGENT),
            "volcano.sh/colocation-config": ("colocation of a node", _AGENT),
            "volcano.sh/colocation-config-name": ("colocation of nodes", _AGENT),
            "volcano.sh/oversubscription-types": ("what a node lends", _AGENT),
            "volcano.sh/oversubscription-evicting-cpu-high-watermark": ("CPU use", f"write {keys.EVICTING_CPU_HIGH}"),
            "volcano.sh/oversubscription-evicting-cpu-low-watermark": ("CPU use", f"write {keys.EVICTING_CPU_LOW}"),
            "volcano.sh/oversubscription-evicting-memory-high-watermark": (
                "memory use",
                f"write {keys.EVICTING_MEMORY_HIGH}",
            ),
            "volcano.sh/oversubscription-evicting-memory-low-watermark": (
                "memory use",
                f"write {keys.EVICTING_MEMORY_LOW}",
            ),
            "volcano.sh/silo-resource": ("cluster to burst to", "see docs/fleet.md"),
            "volcano.sh/forward-cluster": ("cluster to go to", "see docs/fleet.md"),
            "volcano.sh/*": ("not one that is known here", "see docs/words-of-others.md for those that are read"),
        },
    ),
    *_marks(
        "Volcano",
        "volcano.sh",
        "task-spec task-index job-name job-namespace partition-id job-version job-retry-count template-uid job-type"
        " job-forwarding network-topology-source controller-out-of-sync closed-by-parent topology-decision"
        " createdByJobFlow createdByJobTemplate"
        " cronjob-scheduled-timestamp bind-phase bind-time predicate-time gpu-index gpu-unhealthy-ids vgpu-ids-new"
        " vgpu-node vgpu-time devices-to-allocate node-vgpu-register replicatedjob-name vcjob-template-spec-hash"
        " hyperjob-name offline-job-evicting oversubscription-cpu oversubscription-memory scheduling-priority"
        " scheduling-priority-reason scheduling-priority-timestamp job-allocated-hypernode benchmark burst-name",
    ),
    *_warned(
        "Kueue",
        {
            keys.KUEUE_QUEUE: ("LocalQueue", f"{_QUEUE}; or serve Kueue's jobs (docs/migrating.md)"),
            keys.KUEUE_PRIORITY: ("WorkloadPriorityClass", _PRIORITY),
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
            keys.KUEUE_LEAST: ("least pods of a batch/v1 Job", "use a Job of Volcano"),
            "kueue.x-k8s.io/job-completions-equal-parallelism": ("size of a batch/v1 Job", "use a Job of Volcano"),
            "kueue.x-k8s.io/podset-slice-required-topology-constraints": (
                "topologies of parts",
                "write spec.subGroupPolicy",
            ),
            "kueue.x-k8s.io/pod-group-fast-admission": ("whether a group starts before it is whole", _GANG),
            "kueue.x-k8s.io/pod-group-serving": ("whether a group's pods come again", "let a workload make the pods"),
            "kueue.x-k8s.io/pod-group-pod-index": ("rank of a pod", "let a Job make the pods"),
            "kueue.x-k8s.io/pod-group-pod-index-label": ("where the rank of a pod stands", "let a Job make the pods"),
            "kueue.x-k8s.io/priority-boost": ("more priority", _PRIORITY),
            "kueue.x-k8s.io/prebuilt-workload-name": ("Workload that somebody made", _GANG),
            "kueue.x-k8s.io/workload-allowed-resource-flavors": ("flavors that it may use", _KINDS),
            "kueue.x-k8s.io/concurrent-admission": ("tries several flavors at once", "leave it out"),
            "kueue.x-k8s.io/safe-to-forcefully-delete": (
                "whether pods of lost nodes are deleted",
                "see docs/workloads.md",
            ),
            "kueue.x-k8s.io/managed": ("whether Kueue sees it", _QUEUE),
            "provreq.kueue.x-k8s.io/*": ("arguments of a ProvisioningRequest", "see docs/autoscaling.md"),
            "kueue.x-k8s.io/*": ("Kueue's own", "see docs/words-of-others.md"),
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
            "gpu-fraction-container-name": ("container that shares a GPU", _GPUS),
            "mps": ("shares a GPU by MPS", _GPUS),
            "runai/*": ("Run:ai's own", _QUEUE),
            "kai.scheduler/task-priority": ("order of a gang's pods", "write the annotation volcano.sh/task-priority"),
            "kai.scheduler/node-pool": ("pool of nodes", "write a node selector"),
            "kai.scheduler/segment-size": ("size of parts", "write spec.subGroupPolicy"),
            "kai.scheduler/segment-topology-required-placement": ("topology of parts", "write spec.subGroupPolicy"),
            "kai.scheduler/segment-topology-preferred-placement": ("topology of parts", "write spec.subGroupPolicy"),
            "kai.scheduler/*": ("KAI's own", "see docs/words-of-others.md"),
        },
    ),
    *_warned(
        "KAI",
        {
            "priorityClassName": ("priority of a job", _PRIORITY),
            "project": ("queue", _QUEUE),
            "user": ("user of a job", "submit as that user"),
        },
        scheduler="kai-scheduler",
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
            "yunikorn.apache.org/namespace.quota": ("limit of a namespace", _ROOM),
            "yunikorn.apache.org/namespace.max.cpu": ("limit of a namespace", _ROOM),
            "yunikorn.apache.org/namespace.max.memory": ("limit of a namespace", _ROOM),
            "yunikorn.apache.org/namespace.guaranteed": (
                "guarantee of a namespace",
                "write spec.guarantee of the namespace's Queue",
            ),
            "yunikorn.apache.org/namespace.maxApps": ("most jobs of a namespace", "give the namespace a ResourceQuota"),
            "yunikorn.apache.org/*": ("YuniKorn's own", "see docs/words-of-others.md"),
        },
    ),
    *_warned(
        "YuniKorn",
        {"queue": ("queue", _QUEUE), "spark-app-selector": ("application of a pod", _GANG)},
        scheduler="yunikorn",
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
            "scheduling.koordinator.sh/exact-match-reservation": ("reserved room", "see docs/reservation.md"),
            "scheduling.koordinator.sh/device-joint-allocate": ("devices that lie together", "see docs/devices.md"),
            "scheduling.koordinator.sh/resource-spec": ("how CPUs are bound", "write volcano.sh/numa-topology-policy"),
            "scheduling.koordinator.sh/numa-topology-spec": (
                "policy of NUMA nodes",
                "write volcano.sh/numa-topology-policy",
            ),
            "scheduling.koordinator.sh/disable-preemptible": ("whether it may be evicted", _KEEP),
            "scheduling.koordinator.sh/eviction-cost": ("who is evicted first", _PRIORITY),
            "koordinator.sh/*": ("Koordinator's own", "see docs/words-of-others.md"),
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
    *_warned(
        "scheduler-plugins",
        {
            "preemption-toleration.scheduling.x-k8s.io/*": (
                "how long it may not be evicted",
                "write unisono.io/min-run-time",
            ),
            "scheduling.x-k8s.io/*": ("the plug-ins' own", _GANG),
            "appgroup.diktyo.x-k8s.io": ("application whose pods are near each other", _TOPOLOGY),
            "appgroup.diktyo.x-k8s.io.workload": ("part of such an application", _TOPOLOGY),
        },
    ),
    *_warned(
        "KubeRay",
        {
            "ray.io/ft-enabled": ("the head's state outlives it", "see docs/training.md: a lost head starts anew"),
            "ray.io/external-storage-namespace": ("where that state is", "leave it out"),
            "ray.io/gcs-ft-deletion-timeout": ("how long that state is waited for", "leave it out"),
            "ray.io/overwrite-container-cmd": ("the container's own command runs", "leave it out"),
            "ray.io/initializing-timeout": ("how long a RayService may take to start", "see docs/training.md"),
            "ray.io/disable-provisioned-head-restart": ("a lost head ends the cluster", "set backoffLimit of a RayJob"),
            "ray.io/enable-serve-service": ("whether a pod serves", "leave it out"),
            "ray.io/*": ("not one that is known here", "see docs/words-of-others.md for those that are read"),
        },
    ),
    *_marks(
        "KubeRay",
        "ray.io",
        "cluster group node-type is-ray-node identifier serve originated-from-crd originated-from-cr-name version user"
        " kuberay-version num-worker-groups hash-without-replicas-and-workers-to-delete cluster-dashboard"
        " upgrade-strategy-recreate-hash job-submission-mode headless-worker-svc cluster-name health-state"
        " worker-group-replica-name worker-group-replica-index replica-host-index cronjob-name environment"
        " cronjob-scheduled-timestamp creation-timestamp update-timestamp compute-template compute-image config-type",
    ),
    Word("KubeRay", "ray.io/scheduler-name", "batch scheduler", "needless", "Ray's jobs are always gangs here"),
    Word("KubeRay", "ray.io/gang-scheduling-enabled", "gang", "needless", "Ray's jobs are always gangs here"),
    *_honoured(
        "HAMi",
        {
            keys.VGPU_USE_TYPE: ("models of GPUs", "pod"),
            keys.VGPU_NO_USE_TYPE: ("models of GPUs that it does not use", "pod"),
        },
    ),
    *_warned(
        "JobSet",
        {
            "alpha.jobset.sigs.k8s.io/node-selector": ("nodes labelled by hand", "use exclusive-topology alone"),
            "alpha.jobset.sigs.k8s.io/no-schedule": ("nodes labelled by hand", "use exclusive-topology alone"),
            "jobset.sigs.k8s.io/disable-in-place-restart": ("how it restarts", "leave it out: Jobs are made anew"),
        },
    ),
    *_theirs("LeaderWorkerSet", "leaderworkerset.sigs.k8s.io", "disaggregatedset.x-k8s.io"),
    *_theirs("Kthena", "serving.volcano.sh", "modelserving.volcano.sh"),
    *_theirs("Spark", "sparkoperator.k8s.io"),
    *_theirs("Argo Workflows", "workflows.argoproj.io"),
    *_warned(
        "HAMi",
        {
            "hami.io/*": ("policy of nodes and cards", "set deviceshare.SchedulePolicy of the scheduler"),
            "nvidia.com/use-gpuuuid": ("cards by their number", _KINDS),
            "nvidia.com/nouse-gpuuuid": ("cards by their number", _KINDS),
            "nvidia.com/vgpu-mode": ("how cards are shared", "write the annotation volcano.sh/vgpu-mode"),
            "nvidia.com/numa-bind": ("cards of one NUMA node", "write volcano.sh/numa-topology-policy"),
            "nvidia.com/priority": ("priority on a card", _PRIORITY),
            "metax-tech.com/sgpu-app-class": ("whether a pod is served online", _PRIORITY),
            "metax-tech.com/sgpu-qos-policy": ("how a card is shared", _CARDS),
            "metax-tech.com/sgpu-topology-aware": (
                "cards that are near each other",
                "write volcano.sh/numa-topology-policy",
            ),
            **{
                f"{vendor}/{no}use-{what}": ("cards by their number or model", _KINDS)
                for vendor, what in (
                    ("amd.com", "gputype"),
                    ("amd.com", "gpu-uuid"),
                    ("aws.amazon.com", "neuron-uuid"),
                    ("birentech.com", "gpuuuid"),
                    ("cambricon.com", "mlutype"),
                    ("cambricon.com", "gpuuuid"),
                    ("enflame.com", "gpuuuid"),
                    ("hygon.com", "dcutype"),
                    ("hygon.com", "gpuuuid"),
                    ("metax-tech.com", "gpuuuid"),
                    ("vastaitech.com", "va"),
                    ("mthreads.ai", "gpuuuid"),
                    ("vastaitech.com", "gpuuuid"),
                )
                for no in ("", "no")
            },
        },
    ),
    *_warned(
        "HAMi",
        {
            "nvidia.com/gpumem": ("memory of a GPU", _GPUS),
            "nvidia.com/gpumem-percentage": ("memory of a GPU", _GPUS),
            "nvidia.com/gpucores": ("share of a GPU", _GPUS),
        },
        at="resource",
    ),
    *_parts_of_cards(
        "HAMi",
        "amd.com/gpumem cambricon.com/*.smlu.vmemory cambricon.com/*.smlu.vcore enflame.com/vgcu-percentage "
        "enflame.com/gcu-memory enflame.com/gcu-core hygon.com/dcumem hygon.com/dcucores "
        "huawei.com/Ascend*-memory iluvatar.ai/*.vMem iluvatar.ai/*.vCore kunlunxin.com/vxpu-memory "
        "metax-tech.com/vmemory metax-tech.com/vcore mthreads.com/sgpu-memory mthreads.com/sgpu-core",
    ),
    *_warned(
        "Koordinator",
        {
            f"koordinator.sh/{what}": ("share of a GPU", _GPUS)
            for what in ("gpu-core", "gpu-memory", "gpu-memory-ratio", "gpu.shared")
        },
        at="resource",
    ),
    *_warned(
        "vgpu-manager",
        {f"nvidia.com/vgpu-{what}": ("share of a GPU", _GPUS) for what in ("number", "memory", "cores")},
        at="resource",
    ),
    *_schedulers(
        {
            "kai-scheduler": "KAI",
            "yunikorn": "YuniKorn",
            "koord-scheduler": "Koordinator",
            "hami-scheduler": "HAMi",
            "slurm-bridge-scheduler": "Slinky",
            "scheduler-plugins-scheduler": "scheduler-plugins",
            "kube-batch": "kube-batch",
            "runai-scheduler": "KAI",
            "godel-scheduler": "Godel",
            "vgpu-scheduler": "vgpu-manager",
            "network-aware-scheduler": "scheduler-plugins",
            "topo-aware-scheduler": "scheduler-plugins",
            "capacityscheduler": "scheduler-plugins",
            "trimaran": "scheduler-plugins",
        }
    ),
    *_warned(
        "Kueue",
        {keys.MULTIKUEUE: ("a job runs in another cluster", "leave managedBy out, or see docs/fleet.md")},
        at="manager",
    ),
    *_warned(
        "Slinky",
        {
            "slurmjob.slinky.slurm.net/*": ("options of sbatch", "use 'unisono sbatch', or a Job's own fields"),
            "slinky.slurm.net/*": ("Slinky's own", "use 'unisono sbatch', or a Job's own fields"),
        },
    ),
    *_warned("descheduler", {"descheduler.alpha.kubernetes.io/*": ("whether the descheduler may evict it", _KEEP)}),
    *_warned("Armada", {"armadaproject.io/*": ("gang, queue and priority", f"{_GANG}; {_QUEUE}")}),
)
"""The register."""

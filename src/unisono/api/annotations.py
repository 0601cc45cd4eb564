"""Annotations and labels of Unisono's own; Volcano's and Kubernetes' keys stand in ``api.keys``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from unisono.api import kind_families
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, POD_GROUPS

# Names of users: what a service account is called, and who counts as one tenant.

SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


def split_service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name; None for other users."""
    if not user.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return (namespace, name) if colon and namespace and name else None


def tenant(user: str) -> str:
    """Whose share a user takes, of the server and of queues: of a service account its namespace's, of others their own.

    Who may write in a namespace makes as many accounts there as they like, and acts as each of them.
    """
    account = split_service_account(user)
    return user if account is None else f"{SERVICE_ACCOUNTS}:{account[0]}"


WORKING_DIRECTORY: Final = "unisono.io/working-directory"
"""On a pod: folder in which containers without ``workingDir`` start, on a node that runs them as processes."""

READABLE_DIRECTORIES: Final = "unisono.io/readable-directories"
"""On a namespace: folders, separated by colons, that its pods see although only root may enter the way to them."""

WRITABLE_DIRECTORIES: Final = "unisono.io/writable-directories"
"""On a namespace: folders, separated by colons, in which its pods have the rights of the folder's owner."""

SERVE: Final = "unisono.io/serve"
"""On a namespace: ``kueue`` lets jobs with Kueue's labels run unchanged; their queues release and suspend them."""

KUEUE_QUEUES: Final = "unisono.io/local-queues"
"""On such a namespace: the Queue behind each LocalQueue, such as ``team=research, other=products``."""

RELEASED: Final = "unisono.io/released"
"""On a job of such a namespace: the Queue that has released it; it is taken away when the job is suspended again."""

WAITS_SUSPENDED: Final = "unisono.io/waits-suspended"
"""On the PodGroup of such a job: it stays while the job is suspended, and waits for its admission."""

VERDICT: Final = "unisono.io/verdict"
"""On a PodGroup: the latest verdict as JSON."""

GANG_PARTS: Final = "unisono.io/gang-parts"
"""On a PodGroup: what each role of its gang asks for, as JSON; a controller writes it before the pods exist."""

LATER_PARTS: Final = "unisono.io/later-parts"
"""On a RayCluster that a RayJob has made: what the job makes beside it when it runs, as JSON like gang parts."""

SCHEDULER_CYCLES: Final = "unisono.io/scheduler-cycles"
"""On a Lease (label): a scheduler renews it when its cycles end."""

SCHEDULER_NAMES: Final = "unisono.io/scheduler-names"
"""On such a Lease: the names that pods give as ``schedulerName``, separated by commas."""

CONFIGURATION_ERROR: Final = "unisono.io/configuration-error"
"""On such a Lease: why the scheduler refuses its newest configuration; the one before it stays in force."""

CONFIGURATION_SOURCE: Final = "unisono.io/configuration-source"
"""On such a Lease: where the scheduler's newest configuration stands."""

CONFIGURATION_NOTES: Final = "unisono.io/configuration-notes"
"""On such a Lease: what its writer should know of a configuration that is in force, one sentence on each line."""

CONFIGURATION_DIGEST: Final = "unisono.io/configuration-digest"
"""On such a Lease: SHA-256 of the text of the newest configuration that the scheduler has read; empty for none."""

ENFORCED_QUEUE_FIELDS: Final = "unisono.io/enforced-queue-fields"
"""On such a Lease: fields of Queues that the scheduler's configuration enforces, separated by commas."""

CONFIGURATION_PARTS: Final = "unisono.io/configuration-parts"
"""On such a Lease: the actions and plug-ins that are in force, by name, separated by commas (`unisono.api.bounds`)."""

SET_ASIDE: Final = "unisono.io/SetAside"
"""Type of a condition of Nodes: the scheduler cannot read the node and ignores it until it changes."""

RUN_SECONDS: Final = "unisono.io/run-seconds"
"""On a pod: how long a simulated node runs it."""

PROGRESS: Final = "unisono.io/progress"
"""On a job or a pod: how many of its steps are done, such as ``30/100``."""

MIN_RUN_TIME: Final = "unisono.io/min-run-time"
"""On a pod, a PodGroup or a Queue: how long a pod must have run before it may be evicted, such as ``10m``."""

CHECKPOINT_TIME: Final = "unisono.io/checkpoint-time"
"""On a pod or a PodGroup: when it last saved its work, as in ``2026-01-02T00:00:00Z``."""

MAX_EVICTIONS: Final = "unisono.io/max-evictions"
"""On a Queue: how many of its pods may be evicted within the window of plug-in ``eviction-guard``."""

MAX_RUN_TIME: Final = "unisono.io/max-run-time"
"""On a Queue: how long pods of its jobs run at most, such as ``4h``, also by PriorityClass: ``4h,urgent=12h``; they are
evicted then. It holds for the queues below, too."""

DEFAULT_RUN_TIME: Final = "unisono.io/default-run-time"
"""On a Queue, of the same form: how long pods are expected to run that do not say it."""

IDLE_GPUS: Final = "unisono.io/idle-gpus"
"""On a Queue: how long its jobs may hold GPUs that they do not use, such as ``below=5%,after=2h,notice=15m,then=Stop``
(`unisono.api.idle_gpus`). It holds for the queues below that say nothing, too."""

IDLE_AFTER: Final = "unisono.io/idle-after"
"""On a job or a PodGroup: how long its GPUs may be idle, as far as its queue grants more than it gives to all."""

EXIT_CODE: Final = "unisono.io/exit-code"
"""On a pod: how it ends on a simulated node."""

USAGE_CPU: Final = "unisono.io/usage-cpu"
"""On a node: percent of its CPUs that was in use lately, such as ``62.5``."""

USAGE_MEMORY: Final = "unisono.io/usage-memory"
"""On a node: percent of its memory that was in use lately."""

USAGE_TIME: Final = "unisono.io/usage-time"
"""On a node: when that was measured, as in ``2026-01-02T00:00:00Z``."""

CARDS: Final = "unisono.io/gpu-cards"
"""On a pod: numbers of the cards that each of its containers shares, ``0;1,2``, where the vendor has no such key."""

LICENSES: Final = "unisono.io/licenses"
"""On a job or a PodGroup: floating resources that it holds once while any of its pods runs, ``matlab=2, ansys``."""

SHARED_NETWORK: Final = "unisono.io/shared-network"
"""On a node (label): its pods share the machine's ports, instead of each having its own."""

PRICE: Final = "unisono.io/price"
"""On a MachineDeployment: price of one machine per hour."""

BOOT_SECONDS: Final = "unisono.io/boot-seconds"
"""On a MachineDeployment or a NodePool: seconds from the order of a machine until its node takes pods."""

SCALED_AT: Final = "unisono.io/scaled-at"
"""On a MachineDeployment: when its number of machines was changed last."""

PROVISION_RETRIES: Final = "unisono.io/provision-retries"
"""On a MachineDeployment: how often machines may fail to come in time before others are asked for instead."""

PROVISION_FAILURES: Final = "unisono.io/provision-failures"
"""On a MachineDeployment: how often in a row its machines did not come in time."""

BACKOFF_UNTIL: Final = "unisono.io/backoff-until"
"""On a MachineDeployment: until when no machines are asked of it, because they did not come."""

SCALE_DOWN: Final = "unisono.io/scale-down"
"""On a node (taint): its machine is about to be given back."""

INTERRUPTED_AT: Final = "unisono.io/interrupted-at"
"""On a node: when its cloud takes the machine back, for clouds whose notices are not known otherwise."""

INTERRUPTED: Final = "unisono.io/interrupted"
"""On a node (taint): its cloud is about to take the machine back."""

CHECKPOINT_BEFORE: Final = "unisono.io/checkpoint-before"
"""On a pod: it is evicted, or a machine of its gang goes, at that time; what is to be kept must be saved before."""

EVICTABLE: Final = "unisono.io/evictable"
"""On a job, a pod or a PodGroup: which pods may be evicted for others: ``all``, ``surplus`` (those that the gang can
spare) or ``none``. On a Queue the same for its jobs, also by priority: ``surplus,10000=none``."""

RELOCATE_AFTER: Final = "unisono.io/relocate-after"
"""On a job, the template of its pods, or a PodGroup: how long a gang that lost members waits for places in its domain
before all its pods are made again elsewhere, such as ``5m``."""

TIER: Final = "topology.unisono.io/"
"""In a topology key of a pod's terms, before ``tier-N`` or the name of a tier: a node's value of such a key is the name
of the HyperNode of that tier which holds it. No object has the label."""

NEAR: Final = "unisono.io/near"
"""On a job, the template of its pods, or a PodGroup: in the same domain as pods with labels, ``app=prefill@tier-1``
(`unisono.api.gang_affinity`)."""

APART: Final = "unisono.io/apart"
"""There too: in no domain with such pods of other gangs, ``app=trainer@tier-2``."""

SPREAD: Final = "unisono.io/spread"
"""There too: evenly over domains, ``@tier-1:min=3``."""

RESERVATION: Final = "unisono.io/reservation"
"""On a job, the template of its pods, or a PodGroup: the Reservation on whose nodes, and within whose windows alone, it
runs."""

ONE_OF: Final = "unisono.io/one-of"
"""On a job, the template of its pods, or a PodGroup: labels of kinds of nodes, the best first, of which all its pods
get one and the same, such as ``node.example.com/gpu=h100, node.example.com/gpu=a100@0.5`` (`unisono.api.one_of`)."""

ONE_OF_BY: Final = "unisono.io/one-of-by"
"""Beside it: by what the kinds are tried: ``order`` as they stand there, ``price`` or ``speed``."""

GOT: Final = "unisono.io/got"
"""On such a pod and its PodGroup: the kind of nodes that it got, such as ``node.example.com/gpu=a100``; the scheduler
writes it with the pod's node."""

GOT_VARIABLE: Final = "UNISONO_GOT"
"""Environment variable in which containers of such pods find it."""

FAILED_NODES: Final = "unisono.io/failed-nodes"
"""On a PodGroup: on which nodes pods of the job have failed, how often and when (`unisono.api.failed_nodes`)."""

HOT_SPARES: Final = "unisono.io/hot-spares"
"""On a Queue: how many empty nodes wait for pods that replace lost ones of its running gangs."""

NODE_CHECKS: Final = "unisono.io/node-checks"
"""On a node: how it stands with each NodeCheck, and since when (`unisono.api.node_checks`)."""

QUARANTINE: Final = "unisono.io/quarantine"
"""On a node (taint): it takes no jobs until somebody lifts that; the value is the NodeCheck that it failed, or
``by-hand``. As an annotation: why, in words."""

NODE_FAULTS: Final = "unisono.io/node-faults"
"""On a node: what went wrong there, how often and when (`unisono.api.node_faults`)."""

NODE_CHECK: Final = "unisono.io/node-check"
"""On a pod (label): it checks its node for the NodeCheck of this name."""

RETRY_ELSEWHERE: Final = "unisono.io/retry-elsewhere"
"""On a Job: when a pod of it fails within that time of its start, such as ``5m``, and the job has not been restarted,
it is restarted once, whatever its policies say, and keeps away from the node."""

EVICT_NOTICE: Final = "unisono.io/evict-notice"
"""On a pod or a PodGroup: how long a pod is told before it is evicted, such as ``2m``."""

MOST_NOTICE_SECONDS: Final = 1800.0
"""The longest notice; longer ones are shortened, because another job waits for the resources."""

MOST_GRACE_SECONDS: Final = 1800
"""The longest ``terminationGracePeriodSeconds`` of a pod that is evicted, for the same reason."""

NOTICE_GIVEN: Final = "unisono.io/EvictionNotice"
"""Type of a pod's condition: it will be evicted. The condition is the scheduler's; what users may write has no part in
it, as the pod counts as one that leaves."""

SIMULATED: Final = "unisono.io/simulated"
"""On a node (label): it runs no containers; its pods end after ``unisono.io/run-seconds``."""

CYCLES_LEASE: Final = "unisono-scheduler-cycles"
"""Name of the Lease that a scheduler renews as long as its cycles end."""

CLUSTER: Final = "unisono.io/cluster"
"""On a job of a hub (annotation): the member that runs it. On nodes and pods of a hub's state (label): their member."""

DISPATCH: Final = "unisono.io/dispatch"
"""On a job of a hub (annotation) and on its copies (label): how often it was sent or taken back; the highest wins."""

SEAL: Final = "unisono.io/dispatch-seal"
"""On a copy of a job (annotation): proves that the hub has sent it to this member under this number."""

HUB: Final = "unisono.io/hub"
"""On what a hub brings to a member (label): the hub's identity."""

APPLICATION: Final = "unisono.io/application"
"""On what an Application brings to a member (annotation): ``NAMESPACE/NAME`` of the Application on its hub."""

ORIGIN_UID: Final = "unisono.io/origin-uid"
"""On copies and their pods (label): uid of the object of the hub."""

ORIGIN_GROUP: Final = "unisono.io/origin-group"
"""On pods of copies (annotation): the PodGroup of the hub that stands for the job."""

USE: Final = "unisono.io/decayed-use"
"""On a Queue (annotation): JSON of what its users or namespaces have used, which the scheduler keeps there for its
successor: ``{"at": TIME, "use": {NAME: CLUSTER_SECONDS}}``."""

PRICES: Final = "unisono.io/prices"
"""On an AttachedCluster: price of one unit of a resource per hour, such as ``nvidia.com/gpu=2.5,cpu=0.04``."""

FLEET: Final = "unisono.io/fleet"
"""On a job of a hub: the Fleet, ``NAME`` or ``NAMESPACE/NAME``, to whose members it goes and to no other."""

MACHINES: Final = "unisono.io/machines"
"""On a job of a hub: machines of its member that it was sent there for, as JSON, for the dispatch that it names."""

PROMISED_TO: Final = "unisono.io/promised-to"
"""On nodes of a hub's state that stand for machines which may come (label and taint): uid of the job they are for."""

LAST_CLUSTER: Final = "unisono.io/last-cluster"
"""On a job of a hub: the member from which it was taken back last; what it saved may be there."""

GIGABYTES: Final = "unisono.io/gigabytes"
"""On a DataSource: how much there is to bring to a cluster that does not have it; without it, it cannot be brought."""

BANDWIDTH: Final = "unisono.io/bandwidth"
"""On an AttachedCluster: gigabits per second at which it gets data of others; 1 without it."""

CLUSTER_POINTS: Final = "unisono.io/cluster-points"
"""On pods of a hub's state: points from 0 to 100 by reason and cluster, as JSON, for plug-in ``cluster-preference``."""

DIVISION: Final = "unisono.io/division"
"""On a Deployment, StatefulSet or batch Job of a hub: replicas by member, as JSON; it is written before any member is.
Without it, they are divided again."""

APPLIED: Final = "unisono.io/applied"
"""On a member's copy of a Deployment or StatefulSet: a digest of the spec that the hub has brought."""

GANG: Final = "unisono.io/gang"
"""On a HyperJob of a hub: where its parts are, as JSON; it is written before anything is written to a member."""

SPLIT: Final = "unisono.io/split"
"""On a HyperJob of a hub: parts of each replicated job with ``splitPolicy.mode: auto``, as JSON; the hub writes it."""

DIVIDED: Final = "unisono.io/divided"
"""On a job of a hub: ``true`` where no member takes it whole, and a HyperJob that the hub makes stands for it;
``false`` where its owner does not want that."""

NETWORK: Final = "unisono.io/network"
"""On an AttachedCluster (label): name of the network in which its pods reach those of all members of the same name."""

CLUSTER_ID: Final = "unisono.io/cluster-id"
"""On an AttachedCluster (label): its name in the ClusterSet of Multi-Cluster Services, to which Services of gangs are
exported."""

LIMITS_FROM: Final = "unisono.io/limits-from"
"""On a Queue of a hub: with ``members`` its limits are the sum of those that queues of its name have in the members."""

RESTART_POLICY: Final = "unisono.io/restart-policy"
"""On a HyperJob of a hub: ``Gang``, ``Part`` or ``Never``: what starts again when the member of a part is lost."""

RESERVE_TIMEOUT: Final = "unisono.io/reserve-timeout"
"""On a HyperJob of a hub: how long its parts may be reserved before all members have accepted, such as ``5m``."""

START_TIMEOUT: Final = "unisono.io/start-timeout"
"""On a HyperJob of a hub: how long a part may wait in its member once all parts were opened, such as ``30m``."""

WORKER_LOST_TIMEOUT: Final = "unisono.io/worker-lost-timeout"
"""On a job of a hub: how long its member may be lost before another one gets it, such as ``5m``."""

REBALANCE: Final = "unisono.io/rebalance"
"""On a job of a hub: ``true`` where it may be stopped in its member and started in another one: when that is drained or
gives it no node, or a cluster of an earlier group of its policy has room again."""

BIND_TIMEOUT: Final = "unisono.io/bind-timeout"
"""On a HyperJob of a hub: how long its parts may wait for nodes once all of them were opened, such as ``2m``."""

DRAINED: Final = "unisono.io/drained"
"""On an AttachedCluster: ``true`` while it is to get no more work; what runs there goes on."""

MEMBER_REASONS: Final = "unisono.io/member-reasons"
"""On a PodGroup of a hub: for each member why the gang is not there, as a JSON object of sentences."""

PLACES: Final = (CLUSTER, DISPATCH, GANG, SPLIT, MACHINES, DIVISION)
"""What of these only the hub writes: a place that was written by hand would pass by limits, policies and drains."""

FORGOTTEN: Final = (MACHINES, DIVISION)
"""Those of them that users may take away: the hub decides again."""

USER: Final = "unisono.io/user"
"""On a job or a PodGroup: who submitted it, as the server knows; only controllers may say otherwise."""

ADMITTED_QUEUES: Final = "unisono.io/admitted-queues"
"""On what names a queue for certain users: the queues, separated by commas, that its author was let use. Admission
writes it, and the scheduler holds pods to it; nobody else may say otherwise."""

CHECKED: Final = "unisono.io/checked"
"""On a Job: what the webhook had before it when it checked the new Job; nobody else writes it. See decision 20."""

QUEUE_NAMESPACES: Final = "unisono.io/namespaces"
"""On a Queue: the namespaces whose jobs may use it, separated by commas; a ``*`` at the end stands for any ending."""

QUEUE_USERS: Final = "unisono.io/users"
"""On a Queue: the users and ``group:NAME`` that may use it; others need the verb ``use`` on it."""

USER_LIMITS: Final = "unisono.io/user-limits"
"""On a Queue: what one user may hold in it, such as ``jobs=4,pods=16,nvidia.com/gpu=8``."""

QUOTAS: Final = "unisono.io/quotas"
"""On a Queue: amounts of its spec as parts of what nodes that are ready have, such as
``deserved.nvidia.com/gpu=80%,capability.cpu=100%``; the controllers write the amounts."""

SHARE_WEIGHTS: Final = "unisono.io/share-weights"
"""On a Queue: weights of users or namespaces that are not 1, such as ``team-a=2,team-b=0.5``."""

ELASTIC: Final = "unisono.io/elastic"
"""On a job or a queue: "true" where jobs may be grown into idle capacity and shrunk for others, within their limits."""

MOST_REPLICAS: Final = "unisono.io/max-replicas"
"""On a Volcano Job: the most replicas of its last task; without it as many as it asked for before it was shrunk."""

ELASTIC_COOL_DOWN: Final = "unisono.io/elastic-cool-down"
"""On an elastic job: a duration such as ``5m``, from a change of its replicas to its next growth."""

SERVICE_ADDRESS: Final = "unisono.io/service-address"
"""On a Service of one machine: address and port at which its requests are taken, in the place of its pods'."""

JOB_KIND: Final = "unisono.io/job-kind"
"""On a CustomResourceDefinition: a table that says what objects of the kind mean as jobs, as YAML or JSON."""

# Kinds of which it is written down who submits them (annotation ``unisono.io/user``).

SUBMITTED: Final[tuple[Kind[Any], ...]] = (
    JOBS,
    POD_GROUPS,
    kind_families.WORKLOAD_POD_GROUPS,
    kind_families.COMPOSITE_POD_GROUPS,
    *kind_families.RUN_KINDS,
    kind_families.CRON_JOBS,
    kind_families.JOB_FLOWS,
    kind_families.HYPER_JOBS,
)
"""What becomes a PodGroup, and what such objects are made from: limits and shares of users rest on it."""

_OF_AUTHORS: Final = (USER, ADMITTED_QUEUES)


def handed_down(owner: Mapping[str, str] | None, given: Mapping[str, str] | None) -> dict[str, str]:
    """Annotations ``given`` for what a controller makes of an owner: it is the owner's author's, whatever they say."""
    kept = {key: value for key, value in (given or {}).items() if key not in _OF_AUTHORS}
    return kept | {key: owner[key] for key in _OF_AUTHORS if owner and owner.get(key)}

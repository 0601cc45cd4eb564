"""Cases by mutation: a healthy world with one job, and the inverse of some relaxations; the answer must undo them.

While the job is created no node takes pods: what happens to its queue afterwards happens before it could start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any, Final

from benchmarks.answers.case import Case, Step
from benchmarks.answers.worlds import KINDS, NODES, World, healthy, job_of, made_object, queue


def _queue_name(world: World) -> None:
    world.queue = "reserach"
    world.objects.append(queue("reserach"))
    world.steps.append({"delete": "queue/reserach", "gone": False})


def _close(world: World) -> None:
    world.steps.append({"command": "CloseQueue", "to": "queue/research"})


def _reserve(world: World) -> None:
    notes = {"metadata": {"annotations": {"unisono.io/namespaces": "other"}}}
    world.steps.append({"patch": "queue/research", "merge": notes})


def _ask_for(world: World, resource: str, amount: str) -> None:
    world.resources["limits"] = {resource: amount}
    world.resources["requests"][resource] = amount


def _require(world: World, rule: str, labels: dict[str, str], topology: str) -> None:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": topology}
    affinity = world.spec.setdefault("affinity", {})
    affinity[rule] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _gone_queue(world: World) -> None:
    world.queue = "vision"
    world.objects.append(queue("vision"))
    world.steps.append({"delete": "queue/vision", "gone": False})


def _default_request(world: World) -> None:
    del world.resources["requests"]["cpu"]
    world.limits[0].update(defaultRequest={"cpu": "40"}, default={"cpu": "40"})


def _others(name: str, pods: int, cpu: str, **container: Any) -> dict[str, Any]:
    """Pods of somebody else, which run before."""
    resources = {"requests": {"cpu": cpu, "memory": "100Mi"}}
    spec = {
        "schedulerName": "volcano",
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "web:1", "resources": resources, **container}],
    }
    template = {"metadata": {"labels": {"name": name}}, "spec": spec}
    body = {"replicas": pods, "selector": {"matchLabels": {"name": name}}, "template": template}
    return made_object("apps/v1", "Deployment", name, spec=body)


def _elsewhere(found: dict[str, Any]) -> dict[str, Any]:
    found["metadata"]["namespace"] = "kube-public"
    return found


def _held_quota(world: World) -> None:
    world.hard.update(pods="3")
    world.add(_others("web", 2, "100m"))


def _ports(world: World) -> None:
    ports = [{"containerPort": 8080, "hostPort": 8080}]
    world.add(_elsewhere(_others("proxy", len(NODES), "0", ports=ports)))
    world.spec["containers"][0]["ports"] = ports


def _node_affinity(world: World) -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    world.spec.setdefault("affinity", {})["nodeAffinity"] = rule


def _spread(world: World) -> None:
    rule = {"maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule"}
    world.spec["topologySpreadConstraints"] = [{**rule, "labelSelector": {"matchLabels": {"name": "train"}}}]


def _class(world: World) -> None:
    world.objects.insert(
        0, made_object("storage.k8s.io/v1", "StorageClass", "fast", provisioner="kubernetes.io/no-provisioner")
    )
    world.named("PersistentVolume", "volume")["spec"]["storageClassName"] = "fast"
    claim = world.named("PersistentVolumeClaim", "dataset")["spec"]
    del claim["volumeName"]
    claim["storageClassName"] = "fsat"


def _stale(world: World) -> None:
    held = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "dataset"}
    held |= {"apiVersion": "v1", "uid": "00000000-dead-4000-8000-000000000000"}
    world.named("PersistentVolume", "volume")["spec"]["claimRef"] = held
    del world.named("PersistentVolumeClaim", "dataset")["spec"]["volumeName"]


def _zero(world: World) -> None:
    world.replicas, world.wanted = 0, 1


def _paused_scaler(world: World) -> None:
    always = {"timezone": "UTC", "start": "0 0 * * *", "end": "59 23 * * *", "desiredReplicas": "2"}
    spec = {
        "scaleTargetRef": {"name": "train"},
        "minReplicaCount": 2,
        "triggers": [{"type": "cron", "metadata": always}],
    }
    scaler = made_object("keda.sh/v1alpha1", "ScaledObject", "train", spec=spec)
    scaler["metadata"]["annotations"] = {"autoscaling.keda.sh/paused-replicas": "0"}
    world.steps.insert(0, {"create": scaler})


def _init(world: World) -> None:
    resources = {"requests": {"cpu": "40", "memory": "1Gi"}}
    world.spec["initContainers"] = [{"name": "fetch", "image": "fetch:1", "resources": resources}]


def _guarantee(world: World) -> None:
    vip = queue("vip")
    vip["spec"]["guarantee"] = {"resource": {"cpu": "31"}}
    world.add(vip)


def _taint(world: World, **taint: str) -> None:
    world.nodes.setdefault("taints", []).append(taint)


def _ratio(world: World) -> None:
    world.limits[0].update(maxLimitRequestRatio={"cpu": "2"})
    world.resources.setdefault("limits", {})["cpu"] = "8"


def _held_in_vain(world: World) -> None:
    """The quota's pods are held by those of a Deployment that no node takes."""
    world.hard.update(pods="3")
    ghost = _others("ghost", 2, "100m")
    ghost["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a100"}
    world.add(ghost)


def _unscaled(world: World) -> None:
    _zero(world)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train"}
    usage = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    metrics = [{"type": "Resource", "resource": usage}]
    spec = {"minReplicas": 1, "maxReplicas": 5, "scaleTargetRef": target, "metrics": metrics}
    world.add(made_object("autoscaling/v2", "HorizontalPodAutoscaler", "train", spec=spec))


def _above(world: World, **capability: str) -> None:
    """The queue has a parent."""
    lab = queue("lab")
    lab["spec"]["capability"] = {"cpu": "200", **capability}
    world.objects.insert(0, lab)
    world.named("Queue", "research")["spec"]["parent"] = "lab"


def _closed_above(world: World) -> None:
    _above(world)
    world.steps.append({"command": "CloseQueue", "to": "queue/lab"})


def _small_above(world: World) -> None:
    _above(world, cpu="1")
    world.named("Queue", "research")["spec"]["capability"] = {}


def _line(world: World) -> None:
    """A job of the same queue that is too large comes first, and the queue serves strictly in order."""
    world.named("Queue", "research")["spec"]["dequeueStrategy"] = "fifo"
    world.before.append({"create": _before("giant", "90")})


def _before(name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "t:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    spec = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]}
    task = {"name": "w", "replicas": 2, "template": {"spec": spec}}
    body = {"schedulerName": "volcano", "queue": "research", "minAvailable": 2, "tasks": [task]}
    return made_object("batch.volcano.sh/v1alpha1", "Job", name, spec=body)


def _licence(world: World) -> None:
    world.add(made_object("quota.unisono.io/v1alpha1", "FloatingResource", "matlab", spec={"amount": 5}))
    world.notes["unisono.io/licenses"] = "matlap"


def _user_limits(world: World) -> None:
    notes = {"metadata": {"annotations": {"unisono.io/user-limits": "cpu=1"}}}
    world.steps.append({"patch": "queue/research", "merge": notes})


def _machines(world: World) -> None:
    """Cards only on machines of a node group that may have one, and two are needed."""
    _ask_for(world, "nvidia.com/gpu", "8")
    capacity = {"cpu": 8, "memory": "32Gi", "nvidia.com/gpu": 8}
    pool = {"name": "burst", "min": 0, "max": 1, "bootSeconds": 60, "capacity": capacity}
    world.pools.append({**pool, "labels": {"pool": "training", "topology.kubernetes.io/zone": "a"}})


def _racks(world: World) -> None:
    """Each rack holds one of the two pods, which must stay in one."""
    for number, node in enumerate(NODES):
        member = {"type": "Node", "selector": {"exactMatch": {"name": node}}}
        spec = {"tier": 1, "members": [member]}
        world.add(made_object("topology.volcano.sh/v1alpha1", "HyperNode", f"rack-{number}", spec=spec))
    members = [{"type": "HyperNode", "selector": {"exactMatch": {"name": f"rack-{at}"}}} for at in range(len(NODES))]
    world.add(made_object("topology.volcano.sh/v1alpha1", "HyperNode", "hall", spec={"tier": 2, "members": members}))
    world.resources["requests"]["cpu"] = "5"
    world.more["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}


def _device_class(world: World) -> None:
    world.nodes["devices"] = {"gpu.example.com": 2}
    request = {"name": "g", "exactly": {"deviceClassName": "gpu.exmaple.com"}}
    world.add(
        made_object("resource.k8s.io/v1", "DeviceClass", "gpu.example.com", spec={}),
        made_object(
            "resource.k8s.io/v1", "ResourceClaimTemplate", "one", spec={"spec": {"devices": {"requests": [request]}}}
        ),
    )
    world.spec["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "one"}]


@dataclass(frozen=True)
class Cause:
    """A relaxation's inverse.

    Attributes:
        name: of the cause.
        named: how an answer names it.
        apply: what it does to a world.
        fields: what it writes or hides; causes that share one of these are not put together.
        kinds: of jobs that can have it.
        hides: names of causes that are none beside it.
    """

    name: str
    named: str
    apply: Callable[[World], Any]
    fields: tuple[str, ...] = ()
    kinds: tuple[str, ...] = KINDS
    hides: tuple[str, ...] = ()


_ZONE = "topology.kubernetes.io/zone"
_SANDBOX = {"nodeSelector": {"sandbox": "gvisor"}}
_TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
_DOOR: Final = (
    Cause("account", "account", lambda w: w.spec.update(serviceAccountName="tranier")),
    Cause("priority", "PriorityClass|priority class", lambda w: w.spec.update(priorityClassName="hihg")),
    Cause("runtime", "RuntimeClass", lambda w: w.spec.update(runtimeClassName="gvsior")),
    Cause("quota", "quota", lambda w: w.hard.update(pods="1"), ("pods", "replicas")),
    Cause("quota-held", "quota", _held_quota, ("pods", "replicas", "floor")),
    Cause("quota-cpu", "quota", lambda w: w.hard.update({"requests.cpu": "3"}), ("small",)),
    Cause("quota-unstated", r"limits\.memory", lambda w: w.hard.update({"limits.memory": "40Gi"})),
    Cause(
        "limits",
        "sizes|LimitRange|maximum cpu",
        lambda w: w.limits[0]["max"].update(cpu="1"),
        ("floor", "most", "small"),
    ),
    Cause(
        "limit-min",
        "LimitRange|minimum cpu",
        lambda w: w.limits[0].update(min={"cpu": "4"}),
        ("floor", "least", "asks"),
    ),
    Cause(
        "limit-pod",
        "maximum cpu",
        lambda w: w.limits.append({"type": "Pod", "max": {"cpu": "1"}}),
        ("least", "floor", "small"),
    ),
    Cause("limit-default", "cpu 4\\d|LimitRange", _default_request, ("most", "request", "small", "asks")),
    Cause("limit-ratio", "ratio", _ratio, ("least", "small", "floor", "asks", "request", "device")),
    Cause("quota-vain", "ghost", _held_in_vain, ("pods", "replicas", "floor")),
    Cause("unscaled", "HorizontalPodAutoscaler|HPA", _unscaled, ("replicas",), ("deployment",), ("apart",)),
    Cause("suspended", "suspend|paused|abort", lambda w: setattr(w, "suspended", True)),
    Cause("zero", "replicas", _zero, ("replicas",), ("deployment",), ("apart",)),
    Cause("paused-scaler", "ScaledObject", _paused_scaler, ("replicas",), ("deployment",)),
)
_QUEUE: Final = (
    Cause("queue-name", "reserach", _queue_name, ("queue",)),
    Cause("queue-gone", "vision", _gone_queue, ("queue", "closed", "namespaces", "capability")),
    Cause("queue-closed", "research is not open|research is clos|queue is closed|clos", _close, ("closed",)),
    Cause("namespaces", "namespace", _reserve, ("namespaces",)),
    Cause(
        "capability",
        "capability",
        lambda w: w.named("Queue", "research")["spec"]["capability"].update(cpu="1"),
        ("capability",),
    ),
    Cause("guarantee", "guarantee|vip", _guarantee),
    Cause("parent-closed", r"\blab\b", _closed_above, ("closed", "parent")),
    Cause("parent-capability", r"\blab\b", _small_above, ("capability", "parent")),
    Cause(
        "line", "giant", _line, ("capability", "closed", "namespaces", "floor", "queue", "pods"), ("job", "pytorchjob")
    ),
    Cause("licence", "matlap", _licence, (), ("job", "pytorchjob")),
    Cause("user-limits", "user", _user_limits),
    Cause(
        "min-resources",
        "minResources",
        lambda w: w.more.update(minResources={"cpu": "300"}),
        ("capability", "parent"),
        ("pytorchjob",),
    ),
    Cause("scheduler", "volcnao", lambda w: w.spec.update(schedulerName="volcnao")),
    Cause(
        "members",
        "minAvailable|min-member|minMember|gang|5 pods",
        lambda w: setattr(w, "members", 5),
        (),
        ("deployment", "pytorchjob"),
    ),
    Cause("gate", "gate", lambda w: w.spec.update(schedulingGates=[{"name": "example.com/ready"}])),
)
_PLACE: Final = (
    Cause("taint", "taint", lambda w: _taint(w, **_TAINT)),
    Cause("cordon", "cordon|unschedulable", lambda w: setattr(w, "cordoned", True)),
    Cause("selector", "pool", lambda w: w.spec.setdefault("nodeSelector", {}).update(pool="trianing")),
    Cause("node-affinity", "nvme|disk", _node_affinity),
    Cause("runtime-nodes", "sandbox", lambda w: w.named("RuntimeClass", "gvisor").update(scheduling=_SANDBOX)),
    Cause(
        "overhead",
        r"overhead|cpu 4\d",
        lambda w: w.named("RuntimeClass", "gvisor").update(overhead={"podFixed": {"cpu": "40"}}),
    ),
    Cause("device", r"nvidia\.com/gpus", lambda w: _ask_for(w, "nvidia.com/gpus", "1"), ("device",)),
    Cause("gpus", r"nvidia\.com/gpu\b", lambda w: _ask_for(w, "nvidia.com/gpu", "4"), ("device",)),
    Cause(
        "large", r"cpu 4\d|cpu 40|at most cpu", lambda w: w.resources["requests"].update(cpu="40"), ("request", "asks")
    ),
    Cause("init", r"cpu 4\d|cpu 40|at most cpu", _init, ("request",)),
    Cause(
        "full",
        r"free|insufficient cpu|used|room",
        lambda w: w.add(_elsewhere(_others("hog", len(NODES), "7"))),
        ("small", "room"),
    ),
    Cause("ports", "port", _ports, ("room",)),
    Cause("label", "stage", lambda w: w.spec.setdefault("nodeSelector", {}).update(stage="prod")),
    Cause("host", "n-9", lambda w: w.spec.setdefault("nodeSelector", {}).update({"kubernetes.io/hostname": "n-9"})),
    Cause(
        "quarantine",
        "quarantine",
        lambda w: _taint(w, key="unisono.io/quarantine", value="by-hand", effect="NoSchedule"),
    ),
    Cause("memory", "memory", lambda w: w.resources["requests"].update(memory="400Gi"), ("memory",)),
    Cause(
        "machines",
        "burst",
        _machines,
        ("device", "room"),
        ("job", "pytorchjob", "jobset"),  # machines come for a gang's minimum, and of a Deployment that is one pod
        hides=(
            "taint",
            "quarantine",
            "cordon",
            "full",
            "guarantee",
            "label",
            "host",
            "runtime-nodes",
            "node-affinity",
            "spread",
        ),
    ),
    Cause("racks", "rack|tier", _racks, ("request", "room", "asks", "least", "floor", "most", "small"), ("job",)),
    Cause("device-class", r"gpu\.exmaple\.com", _device_class),
    Cause("spread", "rack|topologySpread", _spread),
    Cause("apart", "anti-?affinity", lambda w: _require(w, "podAntiAffinity", {"name": "train"}, _ZONE)),
    Cause("near", r"(?<!anti)(?<!anti-)affinity", lambda w: _require(w, "podAffinity", {"name": "nobody"}, _ZONE)),
    Cause("claim", "datset", lambda w: w.spec["volumes"][0]["persistentVolumeClaim"].update(claimName="datset")),
    Cause("class", "fsat", _class, ("claim",)),
    Cause("stale", "claimRef|released|claim that was deleted|another claim|earlier claim", _stale, ("claim",)),
)
CAUSES: Final = (*_DOOR, *_QUEUE, *_PLACE)
"""At the door and in its owners, in its queue and its gang, and on nodes."""


def fit(kind: str, causes: Sequence[Cause]) -> bool:
    """Whether a job of this kind can have all of these causes at once."""
    fields = [field for cause in causes for field in cause.fields]
    hidden = {name for cause in causes for name in cause.hides}
    apart = not any(cause.name in hidden for cause in causes)
    return apart and len(set(fields)) == len(fields) and all(kind in cause.kinds for cause in causes)


def case_of(kind: str, causes: Sequence[Cause]) -> Case:
    """The case of a job of this kind that is stuck for all of these causes at once."""
    world = healthy()
    for cause in causes:
        cause.apply(world)
    name = "-".join((kind, *(cause.name for cause in causes)))
    if world.suspended and kind == "job":
        world.steps.append({"command": "AbortJob", "to": "job/train"})
    hold = [{"patch": f"node/{node}", "merge": {"spec": {"unschedulable": True}}} for node in NODES]
    go = [{"patch": f"node/{node}", "merge": {"spec": {"unschedulable": None}}} for node in NODES]
    settle: list[Step] = [{"wait": 5}]
    steps: list[Step] = [*hold, *world.before, {"create": job_of(kind, world)}, *settle, *world.steps, *settle]
    steps += [] if world.cordoned else go
    nodes, pools = world.nodes, world.pools
    roots = [cause.named for cause in causes]
    slow = 600.0 if world.pools else 60.0  # machines take their time to come
    return Case(
        name,
        "",
        f"{kind}/train",
        roots,
        [],
        world.objects,
        [nodes, *pools],
        "",
        steps,
        [],
        [],
        world.wanted,
        30.0,
        slow,
    )


def drawn(number: int, seed: int, size: int = 2, kinds: Sequence[str] = KINDS) -> Iterator[Case]:
    """So many cases of ``size`` causes each, drawn without repetition; all of them where there are fewer."""
    every = [(kind, chosen) for kind in kinds for chosen in combinations(CAUSES, size) if fit(kind, chosen)]
    random = Random(seed)
    for kind, chosen in random.sample(every, min(number, len(every))):
        yield case_of(kind, chosen)

"""Gangs that can never be placed, one kind for each filter, limit and rule: nobody may wait for them.

The cluster has six nodes of 8 CPUs, two in each of three zones and racks. The gang is admitted, asks for all of it
and can never start; the neighbour asks for a quarter of it and fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
NODES, CPUS = 6, 8
GANG, NEIGHBOUR = ("gang", "held"), ("neighbour", "next")
"""Namespace and name of the PodGroups."""
NEIGHBOUR_PODS = 12
_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CAPACITY = {"cpu": str(CPUS), "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_BASE = ("priority", "gang", "conformance")
_PLACE = ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack")
_OWN = {"matchLabels": {"app": "held"}}


def settings(*more: str | Object, place: Iterable[str | Object] = _PLACE) -> str:
    """A scheduler configuration with more plug-ins beside the usual ones; JSON is YAML."""
    tiers = [[one if isinstance(one, dict) else {"name": one} for one in tier] for tier in (_BASE, (*more, *place))]
    return json.dumps(
        {"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": [*tier]} for tier in tiers]}, indent=1
    )


@dataclass(frozen=True, slots=True)
class Impossible:
    """A kind of gang that is admitted and can never be placed.

    Attributes:
        pods, cpu: how many pods of how many CPUs; together at least nearly all of the cluster.
        come: how many of the pods exist; fewer where something refuses to make them.
        spec: more of the spec of each pod.
        requests: more of what each pod requests.
        meta: annotations of each pod.
        group: more of the spec of the PodGroup, which states the whole cluster as ``minResources``.
        objects: what else there is.
        node: changes to each node, as ``(metadata, spec, status)``.
        neighbour: more of the spec of the neighbour's pods.
        config: text of the scheduler configuration.
        later: changes by kind and name once the gang is admitted, as merge patches.

    """

    pods: int = 24
    cpu: str = "2"
    come: int | None = None
    spec: Mapping[str, Any] | None = None
    requests: Mapping[str, str] | None = None
    meta: Mapping[str, str] | None = None
    group: Mapping[str, Any] | None = None
    notes: Mapping[str, str] | None = None
    objects: tuple[Object, ...] = ()
    node: Mapping[str, Any] | None = None
    neighbour: Mapping[str, Any] | None = None
    config: str = settings()
    later: Mapping[str, Any] | None = None

    def bodies(self) -> list[Object]:
        """Nodes and everything else but the neighbour, in the order in which it is made."""
        nodes = [_node(number, self.node or {}) for number in range(NODES)]
        spec = {"minResources": {"cpu": str(NODES * CPUS)}, **(self.group or {})}
        gang = _gang(
            *GANG,
            self.pods,
            {"cpu": self.cpu, **(self.requests or {})},
            self.spec or {},
            spec,
            pods=self.pods if self.come is None else self.come,
            meta=self.meta or {},
            notes=self.notes or {},
        )
        return [*nodes, *self.objects, *gang]

    def beside(self, pods: int = NEIGHBOUR_PODS, **group: Any) -> list[Object]:
        """The neighbour, which was made a minute later; ``group`` is more of the spec of its PodGroup."""
        spec = {"minResources": {"cpu": str(group.get("minMember", pods))}, **group}
        return _gang(*NEIGHBOUR, pods, {"cpu": "1"}, self.neighbour or {}, spec, created="2026-01-01T00:01:00Z")


def _gang(
    namespace: str,
    name: str,
    minimum: int,
    requests: Mapping[str, str],
    spec: Mapping[str, Any],
    group: Mapping[str, Any],
    *,
    pods: int | None = None,
    meta: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    created: str = "2026-01-01T00:00:00Z",
) -> list[Object]:
    made: list[Object] = [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"group-{name}",
                "creationTimestamp": created,
                "annotations": dict(notes or {}),
            },
            "spec": {"minMember": minimum, "queue": "default", **group},
            "status": {"phase": "Pending"},
        }
    ]
    resources = {"requests": dict(requests), "limits": {key: value for key, value in requests.items() if "/" in key}}
    container = {"name": "main", "image": "work:1", "resources": resources}
    for number in range(minimum if pods is None else pods):
        own = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container], **spec}
        made.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-{number}",
                    "namespace": namespace,
                    "uid": f"{name}-{number}",
                    "creationTimestamp": created,
                    "labels": {"app": name},
                    "annotations": {"scheduling.k8s.io/group-name": name, **(meta or {})},
                },
                "spec": own,
                "status": {"phase": "Pending"},
            }
        )
    return made


def _node(number: int, changes: Mapping[str, Any]) -> Object:
    name = f"n{number}"
    capacity = {**_CAPACITY, **changes.get("capacity", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": name,
            "labels": {_HOST: name, _ZONE: f"z{number // 2}", "rack": f"r{number // 2}"},
            "annotations": changes.get("annotations", {}),
        },
        "spec": changes.get("spec", {}),
        "status": {
            "allocatable": capacity,
            "capacity": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def queue(name: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """An open queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"queue-{name}", "annotations": dict(annotations or {})},
        "spec": {"weight": 1, **spec},
        "status": {"state": "Open"},
    }


def _claim(name: str, volume: str = "", **spec: Any) -> Object:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "gang", "uid": f"claim-{name}", "annotations": bound},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fixed",
            **({"volumeName": volume} if volume else {}),
            **spec,
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def _volume(name: str, claim: str, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"volume-{name}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fixed",
            "hostPath": {"path": "/data"},
            "claimRef": {"namespace": "gang", "name": claim, "uid": f"claim-{claim}"},
            **spec,
        },
        "status": {"phase": "Bound"},
    }


def _storage(name: str, mode: str) -> Object:
    """A StorageClass whose volumes are made by hand."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "uid": f"storage-{name}"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": mode,
    }


def _mounts(claim: str) -> Object:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def _affinity(kind: str, key: str, labels: Mapping[str, str]) -> Object:
    return {"affinity": {kind: {_REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}}]}}}


def _spread(key: str, **more: Any) -> Object:
    wish = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _OWN, **more}
    return {"topologySpreadConstraints": [wish]}


def _port(number: int) -> Object:
    requests = {"requests": {"cpu": "2"}}
    ports = [{"containerPort": number, "hostPort": number}]
    return {"containers": [{"name": "main", "image": "work:1", "resources": requests, "ports": ports}]}


def _wish(key: str, *values: str) -> Object:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}}


def _racks() -> tuple[Object, ...]:
    nodes = [f"n{number}" for number in range(NODES)]
    below = [("Node", nodes[at : at + 2]) for at in range(0, NODES, 2)] + [("HyperNode", ["r0", "r1", "r2"])]
    return tuple(
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": name},
            "spec": {
                "tier": tier,
                "members": [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in members],
            },
        }
        for (name, tier), (kind, members) in zip([("r0", 1), ("r1", 1), ("r2", 1), ("all", 2)], below, strict=True)
    )


def _class(name: str) -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}


def _resource_claim(name: str, device_class: str, count: int = 1) -> Object:
    exactly = {"deviceClassName": device_class, "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "gang", "uid": f"devices-{name}"},
        "spec": {"devices": {"requests": [{"name": "one", "exactly": exactly}]}},
    }


def _slice(node: str, devices: int) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{node}", "uid": f"slice-{node}"},
        "spec": {
            "driver": "cards.example",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"card-{number}"} for number in range(devices)],
        },
    }


def _numa(name: str) -> Object:
    """Two NUMA nodes of four CPUs, of which each container must get one."""
    return {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": name, "uid": f"numa-{name}"},
        "spec": {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
            "numares": {"cpu": {"allocatable": "0-7", "capacity": 8}},
            "cpuDetail": {str(cpu): {"numa": cpu // 4, "socket": cpu // 4, "core": cpu} for cpu in range(CPUS)},
        },
    }


def _limited(**limits: str) -> Object:
    both = {name.replace("__", "/").replace("_", "-"): value for name, value in limits.items()}
    resources = {"requests": {"cpu": "2", **both}, "limits": {"cpu": "2", **both}}
    return {"containers": [{"name": "main", "image": "work:1", "resources": resources}]}


_TREE: Object = {"name": "capacity", "enableHierarchy": True}
_CAPACITY_PLACE = ("overcommit", "predicates", "capacity", "nodeorder")
_TAINT = {"key": "dedicated", "value": "others", "effect": "NoSchedule"}
_PARTS = {"name": "part", "matchLabelKeys": ["app"], "subGroupSize": 24, "minSubGroups": 1}
_HARD = {"mode": "hard", "highestTierAllowed": 1}
_LATE_CLOSED = {"Queue tenants": {"status": {"state": "Closed"}}}
_TENANTS = {"queue": "tenants"}

KINDS: dict[str, Impossible] = {
    # What pods name and nobody has.
    "volume claim missing": Impossible(spec=_mounts("nowhere")),
    "volume claim never bound": Impossible(
        spec=_mounts("unbound"), objects=(_storage("other", "Immediate"), _claim("unbound"))
    ),
    "volume claim that no volume fits": Impossible(
        spec=_mounts("unbound"), objects=(_storage("fixed", "WaitForFirstConsumer"), _claim("unbound"))
    ),
    "volume in a zone without nodes": Impossible(
        spec=_mounts("far"),
        objects=(
            _claim("far", "disk"),
            _volume(
                "disk",
                "far",
                nodeAffinity={
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": ["z9"]}]}
                        ]
                    }
                },
            ),
        ),
    ),
    "volume for one pod": Impossible(
        spec=_mounts("single"),
        objects=(
            _claim("single", "disk", accessModes=["ReadWriteOncePod"]),
            _volume("disk", "single", accessModes=["ReadWriteOncePod"]),
        ),
    ),
    "resource claim missing": Impossible(spec={"resourceClaims": [{"name": "card", "resourceClaimName": "nowhere"}]}),
    "resource claim that no device meets": Impossible(
        spec={"resourceClaims": [{"name": "card", "resourceClaimName": "cards"}]},
        objects=(_class("card"), _resource_claim("cards", "card")),
    ),
    "resource claim for more devices than a node has": Impossible(
        spec={"resourceClaims": [{"name": "card", "resourceClaimName": "cards"}]},
        objects=(_class("card"), _resource_claim("cards", "card", 3), *(_slice(f"n{at}", 2) for at in range(NODES))),
    ),
    "resource claim on one node for a gang of several": Impossible(
        spec={"resourceClaims": [{"name": "card", "resourceClaimName": "cards"}]},
        objects=(_class("card"), _resource_claim("cards", "card"), *(_slice(f"n{at}", 2) for at in range(NODES))),
    ),
    "device class missing": Impossible(
        spec={"resourceClaims": [{"name": "card", "resourceClaimName": "cards"}]},
        objects=(_resource_claim("cards", "nowhere"), _slice("n0", 2)),
    ),
    "node selector": Impossible(spec={"nodeSelector": {"accelerator": "none"}}),
    "node affinity": Impossible(spec=_wish(_ZONE, "z9")),
    "node affinity to too few nodes": Impossible(spec=_wish(_HOST, "n0")),
    "node name": Impossible(spec={"nodeSelector": {_HOST: "n9"}}),
    "scheduler": Impossible(spec={"schedulerName": "nobody"}),
    "extended resource": Impossible(requests={"example.com/card": "1"}),
    # Rules between pods.
    "affinity to nobody": Impossible(spec=_affinity("podAffinity", _HOST, {"app": "nobody"})),
    "affinity to itself on nodes too small": Impossible(spec=_affinity("podAffinity", _HOST, {"app": "held"})),
    "affinity to itself in zones too small": Impossible(spec=_affinity("podAffinity", _ZONE, {"app": "held"})),
    "affinity over a label that no node has": Impossible(spec=_affinity("podAffinity", "room", {"app": "held"})),
    "anti-affinity to itself": Impossible(spec=_affinity("podAntiAffinity", _HOST, {"app": "held"})),
    "anti-affinity to itself over zones": Impossible(spec=_affinity("podAntiAffinity", _ZONE, {"app": "held"})),
    "spread over more domains than there are": Impossible(spec=_spread(_HOST, minDomains=50)),
    "spread over a label that no node has": Impossible(spec=_spread("room")),
    "host port, more pods than nodes": Impossible(spec=_port(8080)),
    "host port taken": Impossible(
        pods=6,
        spec=_port(8080),
        objects=tuple(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"daemon-{at}", "namespace": "gang", "uid": f"daemon-{at}"},
                "spec": {
                    "nodeName": f"n{at}",
                    "containers": [{"name": "d", "image": "d:1", "ports": [{"containerPort": 8080, "hostPort": 8080}]}],
                },
                "status": {"phase": "Running"},
            }
            for at in range(NODES)
        ),
    ),
    # Room of nodes.
    "pods larger than nodes": Impossible(pods=3, cpu="16"),
    "pods that leave too much of each node": Impossible(pods=9, cpu="5"),
    "init containers larger than nodes": Impossible(
        spec={"initContainers": [{"name": "i", "image": "i:1", "resources": {"requests": {"cpu": "20"}}}]}
    ),
    "more memory than nodes have": Impossible(requests={"memory": "64Gi"}),
    "more storage than nodes have": Impossible(requests={"ephemeral-storage": "200Gi"}),
    "more pods than nodes take": Impossible(node={"capacity": {"pods": "3"}}),
    "taint": Impossible(
        node={"spec": {"taints": [_TAINT]}}, neighbour={"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    ),
    "gated": Impossible(spec={"schedulingGates": [{"name": "example.com/never"}]}),
    # Gangs that are not whole.
    "no pods come": Impossible(come=0),
    "too few pods come": Impossible(come=4),
    "priority class missing": Impossible(come=0, group={"priorityClassName": "nowhere"}),
    "role without pods": Impossible(group={"minTaskMember": {"driver": 1, "worker": 23}}),
    # Topology.
    "hard topology, domains too small": Impossible(
        group={"networkTopology": _HARD},
        objects=_racks(),
        config=settings("network-topology-aware"),
    ),
    "sub-group, domains too small": Impossible(
        group={"subGroupPolicy": [{**_PARTS, "networkTopology": _HARD}]},
        objects=_racks(),
        config=settings("network-topology-aware"),
    ),
    "sub-group larger than its label": Impossible(
        group={"subGroupPolicy": [{**_PARTS, "subGroupSize": 30}]},
        objects=_racks(),
        config=settings("network-topology-aware"),
    ),
    "numa": Impossible(
        pods=8,
        spec={
            "containers": [
                {
                    "name": "main",
                    "image": "work:1",
                    "resources": {
                        "requests": {"cpu": "6", "memory": "1Gi"},
                        "limits": {"cpu": "6", "memory": "1Gi"},
                    },
                }
            ]
        },
        meta={"volcano.sh/numa-topology-policy": "single-numa-node"},
        notes={"volcano.sh/numa-topology-policy": "single-numa-node"},
        objects=tuple(_numa(f"n{at}") for at in range(NODES)),
        config=settings("numa-aware"),
    ),
    "card memory": Impossible(
        spec=_limited(**{"volcano.sh__vgpu_number": "1", "volcano.sh__vgpu_memory": "64000"}),
        node={
            "capacity": {"volcano.sh/vgpu-number": "100", "volcano.sh/vgpu-memory": "1600000"},
            "annotations": {"volcano.sh/node-vgpu-register": "a,100,16000,Tesla T4,true,hami-core:"},
        },
        config=settings({"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}}),
    ),
    "card model": Impossible(
        spec=_limited(**{"volcano.sh__vgpu_number": "1", "volcano.sh__vgpu_memory": "100"}),
        meta={"nvidia.com/use-gputype": "H100"},
        node={
            "capacity": {"volcano.sh/vgpu-number": "100", "volcano.sh/vgpu-memory": "1600000"},
            "annotations": {"volcano.sh/node-vgpu-register": "a,100,16000,Tesla T4,true,hami-core:"},
        },
        config=settings({"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}}),
    ),
    # What queues, users and namespaces may hold; the limits came after the gang was admitted.
    "capability": Impossible(
        group=_TENANTS,
        objects=(queue("tenants"),),
        later={"Queue tenants": {"spec": {"capability": {"cpu": "24"}}}},
    ),
    "capability with capacity": Impossible(
        group=_TENANTS,
        objects=(queue("tenants"),),
        config=settings(place=_CAPACITY_PLACE),
        later={"Queue tenants": {"spec": {"capability": {"cpu": "24"}}}},
    ),
    "capability of another resource": Impossible(
        group=_TENANTS, objects=(queue("tenants", capability={"memory": "1Gi"}),), requests={"memory": "1Gi"}
    ),
    "capability of pods": Impossible(group=_TENANTS, objects=(queue("tenants", capability={"pods": "10"}),)),
    "capability of an ancestor": Impossible(
        group=_TENANTS,
        objects=(queue("org"), queue("tenants", parent="org")),
        config=settings(place=("overcommit", "predicates", _TREE, "nodeorder")),
        later={"Queue org": {"spec": {"capability": {"cpu": "24"}}}},
    ),
    "share by weight": Impossible(
        group=_TENANTS, objects=(queue("tenants"), queue("theirs", guarantee={"resource": {"cpu": "20"}}))
    ),
    "guarantee of another queue": Impossible(
        group=_TENANTS,
        objects=(queue("tenants"), queue("kept", guarantee={"resource": {"cpu": "20"}})),
        config=settings(place=_CAPACITY_PLACE),
    ),
    "pods of a user": Impossible(
        group=_TENANTS,
        objects=(queue("tenants", annotations={"unisono.io/user-limits": "pods=4"}),),
        config=settings("user-limits"),
    ),
    "cpu of a user": Impossible(
        group=_TENANTS,
        objects=(queue("tenants"),),
        config=settings("user-limits"),
        later={"Queue tenants": {"metadata": {"annotations": {"unisono.io/user-limits": "cpu=8"}}}},
    ),
    "node group of the queue": Impossible(
        group=_TENANTS,
        objects=(queue("tenants", affinity={"nodeGroupAffinity": {_REQUIRED: ["nowhere"]}}),),
        config=settings({"name": "nodegroup", "arguments": {"strict": False}}),
    ),
    "queue closed": Impossible(group=_TENANTS, objects=(queue("tenants"),), later=_LATE_CLOSED),
    "queue gone": Impossible(group=_TENANTS, objects=(queue("tenants"),), later={"Queue tenants": None}),
    "window of revocable nodes": Impossible(
        spec={"nodeSelector": {"volcano.sh/revocable-zone": "night"}},
        config=settings({"name": "tdm", "arguments": {"tdm.revocable-zone.night": "00:00-00:01"}}),
    ),
}
"""By name."""

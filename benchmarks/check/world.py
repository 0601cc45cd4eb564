"""Random clusters as Kubernetes objects; the same seed gives the same cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

from benchmarks.check.facts import amounts, read_pod
from benchmarks.check.settings import CONFIGS

START = 1_700_000_000.0
Object = dict[str, Any]
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_RANKS = {"low": 10, "high": 1000, "system-cluster-critical": 2_000_000_000}


def stamp(at: float) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """Makes one cluster."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, Random(seed)
        self.config = self.random.choice(sorted(CONFIGS))
        self.settings = CONFIGS[self.config]
        self.luck = Random(f"licences of {seed}")  # apart, so that all else of a seed stays as it was
        self.licensed = self.luck.random() < 0.3
        self.queues: list[str] = []
        self.nodes: list[Object] = []
        self.free: dict[str, dict[str, Any]] = {}
        self.tiers = 0

    def maybe(self, share: float) -> bool:
        """True as often as ``share`` says."""
        return self.random.random() < share

    def objects(self) -> list[Object]:
        """All objects of the cluster."""
        made = [*self._nodes(), *self._hyper_nodes(), *self._queues(), *self._classes(), *self._claims()]
        for number in range(self.random.randint(1, 8)):
            made += self.job(f"j{number}", START + 10.0 * number, running=self.maybe(0.4))
        made += self._foreign()
        made += self._budgets()
        if self.licensed:
            made.append(self._licenses())
        purse = Random(f"budgets of {self.seed}")
        if purse.random() < 0.3:
            made.append(self._budget(purse))
        return made

    def _budget(self, luck: Random) -> Object:
        """One of which all was used, or hardly anything of very much: what runs meanwhile changes neither."""
        queue = luck.choice(["root", "default", *self.queues])
        whose = luck.choice([{"queues": [queue]}, {"users": ["ann"]}, {"namespaces": ["ns"]}, {"queues": [queue]}])
        used = luck.choice(["100", "0"])
        return {
            "apiVersion": "quota.unisono.io/v1alpha1",
            "kind": "Budget",
            "metadata": {"name": "team", "creationTimestamp": stamp(START)},
            "spec": {**whose, "amounts": {"cpu": 100}, "mode": luck.choice(["Hard", "Hard", "Soft"])},
            "status": {"counted": stamp(START + 10_000.0), "periodStart": stamp(START), "used": {"cpu": used}},
        }

    def _licenses(self) -> Object:
        amount = self.luck.randint(1, 5)
        return {
            "apiVersion": "quota.unisono.io/v1alpha1",
            "kind": "FloatingResource",
            "metadata": {"name": "lic"},
            "spec": {"amount": amount, "inUse": self.luck.choice([0, 0, 0, 1])},
        }

    # ---- nodes

    def _nodes(self) -> list[Object]:
        cpu = self.random.choice([2, 4, 8])
        for number in range(self.random.randint(1, 8)):
            self.nodes.append(self._node(f"n{number}", cpu))
        return self.nodes

    def _node(self, name: str, cpu: int) -> Object:
        allocatable = {"cpu": str(cpu), "memory": "16Gi", "pods": str(self.random.choice([3, 8, 110]))}
        if self.maybe(0.4):
            allocatable["nvidia.com/gpu"] = "4"
        self.free[name] = dict(amounts(allocatable))
        labels = {_HOST: name, "zone": self.random.choice("ab")}
        if self.maybe(0.9):
            labels[_ZONE] = self.random.choice(["z1", "z2"])
        taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if self.maybe(0.15) else []
        ready = "True" if self.maybe(0.93) else "False"
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"node-{name}", "labels": labels},
            "spec": {"taints": taints, "unschedulable": self.maybe(0.08)},
            "status": {
                "allocatable": allocatable,
                "capacity": allocatable,
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }

    def _hyper_nodes(self) -> Iterator[Object]:
        if len(self.nodes) < 3 or not self.maybe(0.6):
            return
        names = [node["metadata"]["name"] for node in self.nodes]
        size = self.random.choice([1, 2, 3])
        leaves = [names[at : at + size] for at in range(0, len(names), size)]
        for number, members in enumerate(leaves):
            yield self._hyper_node(f"leaf{number}", 1, "Node", members)
        self.tiers = 1
        middles = [list(range(len(leaves)))[at : at + 2] for at in range(0, len(leaves), 2)]
        if len(leaves) > 1 and self.maybe(0.8):
            for number, below in enumerate(middles):
                yield self._hyper_node(f"spine{number}", 2, "HyperNode", [f"leaf{at}" for at in below])
            self.tiers = 2

    def _hyper_node(self, name: str, tier: int, kind: str, members: list[str]) -> Object:
        return {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": name},
            "spec": {
                "tier": tier,
                "members": [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in members],
            },
        }

    # ---- queues

    def _queues(self) -> Iterator[Object]:
        total = max(sum(int(node["status"]["allocatable"]["cpu"]) for node in self.nodes), 1)
        yield self._queue("default", "", total)
        tree = self.maybe(0.9 if self.config == "hierarchy" else 0.4)
        if self.config == "hierarchy" or self.maybe(0.2):
            yield self._queue("root", "", total)
        for number in range(self.random.randint(0, 2)):
            yield self._queue(f"flat{number}", "", total)
            self.queues.append(f"flat{number}")
        if tree:
            yield self._queue("org", "", total)
            for name in ("team0", "team1")[: self.random.randint(1, 2)]:
                yield self._queue(name, "org", total)
                self.queues.append(name)
        self.queues.append("default")

    def _queue(self, name: str, parent: str, total: int) -> Object:
        spec: Object = {"weight": self.random.randint(1, 3)}
        if parent:
            spec["parent"] = parent
        if name != "root" and self.maybe(0.5):
            spec["capability"] = {"cpu": str(self.random.randint(1, total))}
        if name not in ("root", "org"):
            if self.maybe(0.6):
                spec["deserved"] = {"cpu": str(self.random.randint(0, max(total // 2, 1))), "memory": "8Gi"}
            if self.maybe(0.2):
                spec["guarantee"] = {"resource": {"cpu": "1"}}
            if self.maybe(0.15):
                spec["reclaimable"] = False
        if self.licensed and self.luck.random() < 0.2:
            spec.setdefault("capability", {})["licenses.unisono.io/lic"] = str(self.luck.randint(1, 3))
        state = self.random.choice(["Closed", "Closing"]) if name.startswith("flat") and self.maybe(0.15) else "Open"
        notes = (
            {"unisono.io/user-limits": self._user_limits(total)} if self._has("user-limits") and self.maybe(0.6) else {}
        )
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name, "uid": f"queue-{name}", "creationTimestamp": stamp(START), "annotations": notes},
            "spec": spec,
            "status": {"state": state},
        }

    def _has(self, plugin: str) -> bool:
        return any(option["name"] == plugin for tier in self.settings["tiers"] for option in tier["plugins"])

    def _user_limits(self, total: int) -> str:
        limits = {
            "pods": self.random.randint(1, 6),
            "cpu": self.random.randint(1, total),
            "jobs": self.random.randint(1, 3),
        }
        chosen = self.random.sample(sorted(limits), self.random.randint(1, 2))
        return ",".join(f"{name}={limits[name]}" for name in chosen)

    def _classes(self) -> Iterator[Object]:
        for name, value in _RANKS.items():
            yield {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }

    def _claims(self) -> Iterator[Object]:
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOncePod"],
                "storageClassName": "fixed",
                "claimRef": {"namespace": "ns", "name": "single", "uid": "claim"},
            },
            "status": {"phase": "Bound"},
        }
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "single", "namespace": "ns", "uid": "claim", "annotations": {_BOUND: "yes"}},
            "spec": {
                "accessModes": ["ReadWriteOncePod"],
                "volumeName": "disk",
                "storageClassName": "fixed",
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Bound"},
        }
        if self.config == "quota":
            hard = {"cpu": str(self.random.randint(1, 12))}
            yield {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "quota", "namespace": "ns", "uid": "quota"},
                "spec": {"hard": hard},
            }

    def _budgets(self) -> Iterator[Object]:
        if self.maybe(0.3):
            limit = self.random.choice([{"minAvailable": 1}, {"maxUnavailable": 1}, {"minAvailable": "50%"}])
            yield {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "budget", "namespace": "ns", "uid": "budget"},
                "spec": {"selector": {"matchLabels": {"app": self.random.choice("abc")}}, **limit},
            }

    # ---- jobs

    def job(self, name: str, created: float, *, running: bool) -> list[Object]:
        """A PodGroup and its pods; running ones have places, as far as there is room."""
        size = self.random.randint(1, 5)
        rank = self.random.choice(["", "", "low", "high"])
        kinds = [self._pod_spec() for _ in range(self.random.choice([1, 1, 2]))]
        roles = self.maybe(0.3)
        parts = 2 if size > 1 and self.maybe(0.2) else 0
        app = self.random.choice("abc")
        pods: list[Object] = []
        for number in range(size):
            kind = number % len(kinds)
            pod = self._pod(name, number, kinds[kind], app, created)
            if roles:
                pod["metadata"]["annotations"]["volcano.sh/task-spec"] = f"r{kind}"
            if parts:
                pod["metadata"]["labels"]["part"] = str(number % parts)
            if rank and self.maybe(0.9):
                pod["spec"]["priority"] = _RANKS[rank]
            if self.maybe(0.04):
                pod["spec"].update(priorityClassName="system-cluster-critical")
            pods.append(pod)
        group = self._group(name, size, created, rank)
        if roles:
            per = {
                f"r{kind}": max(sum(n % len(kinds) == kind for n in range(size)) - 1, 0) for kind in range(len(kinds))
            }
            group["spec"]["minTaskMember"] = {role: number for role, number in per.items() if number}
        if parts:
            group["spec"]["subGroupPolicy"] = [self._policy(size, parts)]
        if running:
            placed = self._run(pods, created, self._region(group))
            if placed < (group["spec"]["minMember"] or 0):
                for pod in pods:
                    self._stop(pod)
            else:
                group["status"]["phase"] = "Running"
        return [group, *pods]

    def _group(self, name: str, size: int, created: float, rank: str) -> Object:
        spec: Object = {
            "minMember": self.random.choice([size, size, size, self.random.randint(0, size)]),
            "queue": self.random.choice(self.queues),
        }
        if rank:
            spec["priorityClassName"] = rank
        if self.tiers and self.maybe(0.5):
            spec["networkTopology"] = self._topology()
        if self.maybe(0.4):
            spec["minResources"] = {"cpu": str(self.random.randint(1, 6))}
        notes = {"unisono.io/user": self.random.choice(["ann", "bob"])} if self._has("user-limits") else {}
        if self.licensed and self.luck.random() < 0.3:
            notes["unisono.io/licenses"] = self.luck.choice(["lic", "lic=2", "lic", "lic=3", "unknown"])
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"group-{name}",
                "creationTimestamp": stamp(created),
                "annotations": notes,
            },
            "spec": spec,
            "status": {"phase": self.random.choice(["Pending", "Inqueue", "Inqueue"])},
        }

    def _topology(self) -> Object:
        if self.maybe(0.75):
            return {"mode": "hard", "highestTierAllowed": self.random.randint(1, self.tiers)}
        return {"mode": "soft"}

    def _policy(self, size: int, parts: int) -> Object:
        policy: Object = {
            "name": "part",
            "matchLabelKeys": ["part"],
            "subGroupSize": self.random.randint(1, size // parts),
            "minSubGroups": self.random.randint(0, parts),
        }
        if self.tiers and self.maybe(0.5):
            policy["networkTopology"] = self._topology()
        return policy

    def _pod_spec(self) -> Object:
        requests: Object = {}
        if self.maybe(0.75):
            requests["cpu"] = self.random.choice(["500m", "1", "1", "2", "3"])
            if self.maybe(0.3):
                requests["memory"] = self.random.choice(["1Gi", "4Gi"])
            if self.maybe(0.15):
                requests["nvidia.com/gpu"] = self.random.choice(["1", "2"])
        if self.licensed and self.luck.random() < 0.3:
            requests["licenses.unisono.io/lic"] = self.luck.choice(["1", "1", "2"])
        spec: Object = {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        }
        if self.maybe(0.08):
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        if self.maybe(0.2):
            spec["nodeSelector"] = {"zone": self.random.choice("ab")}
        if self.maybe(0.3):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if self.maybe(0.2):
            spec["affinity"] = self._affinity()
        if self.maybe(0.06):
            labels = {"matchLabels": {"app": self.random.choice("abc")}}
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": self.random.randint(1, 2),
                    "topologyKey": self.random.choice([_ZONE, _HOST]),
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": labels,
                }
            ]
        if self.maybe(0.05):
            spec["volumes"] = [{"name": "disk", "persistentVolumeClaim": {"claimName": "single"}}]
        if self.maybe(0.04):
            spec["preemptionPolicy"] = "Never"
        return spec

    def _affinity(self) -> Object:
        term = {
            "topologyKey": self.random.choice([_ZONE, _HOST]),
            "labelSelector": {"matchLabels": {"app": self.random.choice("abc")}},
        }
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        kind = self.random.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity", "nodeAffinity"])
        if kind == "nodeAffinity":
            wish = {"key": "zone", "operator": self.random.choice(["In", "NotIn"]), "values": ["a"]}
            return {kind: {required: {"nodeSelectorTerms": [{"matchExpressions": [wish]}]}}}
        return {kind: {required: [term]}}

    def _pod(self, job: str, number: int, spec: Object, app: str, created: float) -> Object:
        name = f"{job}-w-{number}"
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"pod-{name}",
                "creationTimestamp": stamp(created),
                "labels": {"app": app},
                "annotations": {"scheduling.k8s.io/group-name": job},
            },
            "spec": {**spec, "containers": [dict(spec["containers"][0])]},
            "status": {"phase": "Pending"},
        }
        if self.maybe(0.06):
            pod["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
        elif self.maybe(0.02):
            pod["spec"]["schedulerName"] = "default-scheduler"
        if self.maybe(0.06):
            pod["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"
        return pod

    # ---- what runs already

    def _region(self, group: Object) -> list[str]:
        """Nodes on which a running gang may be: one, where its topology binds it."""
        names = [node["metadata"]["name"] for node in self.nodes]
        self.random.shuffle(names)
        bound = "networkTopology" in group["spec"] or "subGroupPolicy" in group["spec"]
        return names[:1] if bound else names

    def _run(self, pods: list[Object], created: float, names: list[str]) -> int:
        placed = 0
        for pod in pods:
            if pod["spec"].get("schedulingGates") or pod["spec"].get("affinity") or pod["spec"].get("volumes"):
                continue
            wanted = read_pod(pod).requests
            for name in names:
                room = self.free[name]
                ports = any("ports" in container for container in pod["spec"]["containers"])
                if not ports and room["pods"] >= 1 and all(room.get(key, 0) >= need for key, need in wanted.items()):
                    room["pods"] -= 1
                    for key, need in wanted.items():
                        room[key] -= need
                    pod["spec"]["nodeName"] = name
                    pod["status"] = {"phase": "Running", "startTime": stamp(created)}
                    placed += 1
                    break
        leaving = self.maybe(0.15)
        for pod in pods:
            if leaving and "nodeName" in pod["spec"] and self.maybe(0.4):
                pod["metadata"]["deletionTimestamp"] = stamp(created + 5)
        return placed

    def _stop(self, pod: Object) -> None:
        name = pod["spec"].pop("nodeName", None)
        if name is not None:
            self.free[name]["pods"] += 1
            for key, need in read_pod(pod).requests.items():
                self.free[name][key] += need
        pod["status"] = {"phase": "Pending"}
        pod["metadata"].pop("deletionTimestamp", None)

    def _foreign(self) -> Iterator[Object]:
        for number in range(self.random.randint(0, 3)):
            pod = self._pod(f"x{number}", 0, self._pod_spec(), self.random.choice("abc"), START)
            pod["metadata"]["annotations"] = {}
            pod["spec"]["schedulerName"] = "default-scheduler"
            if self.maybe(0.7):
                self._run([pod], START, [node["metadata"]["name"] for node in self.nodes])
            yield pod


_BOUND = "pv.kubernetes.io/bind-completed"

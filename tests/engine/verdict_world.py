"""Carries decisions and suggested changes out on objects, as a user and the cluster would."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from msgspec import convert, to_builtins

from support.build import cluster, floating, queue
from unisono.api.annotations import USER_LIMITS
from unisono.api.base import Object
from unisono.api.core import Node, Pod, PodCondition, PodSpec, ResourceQuota
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.queues import raised
from unisono.api.resources import resource_list, to_wire
from unisono.cluster.state import ClusterState
from unisono.engine import changes as c
from unisono.engine.decisions import Decisions
from unisono.engine.plugins.admission_limits import amount_of
from unisono.engine.verdicts.effects import renamed

GROUP = "scheduling.k8s.io/group-name"


def _asked(pod: Pod) -> dict[str, int]:
    """What a pod takes of a quota."""
    asked: dict[str, int] = {"pods": 1}
    for container in pod.spec.containers or ():
        for name, amount in resource_list(container.resources.requests).items():
            asked[name] = asked.get(name, 0) + amount
    return asked


class Objects:
    """The objects of one cluster, to be changed."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self.all: dict[tuple[str, str], Any] = {(type(one).__name__, one.key): deepcopy(one) for one in objects}

    def state(self) -> ClusterState:
        return cluster(list(self.all.values()))

    def group(self, key: str) -> PodGroup:
        found: PodGroup = self.all["PodGroup", key]
        return found

    def pods(self, job: str) -> list[Pod]:
        namespace, _, name = job.partition("/")
        pods = [one for one in self.all.values() if isinstance(one, Pod) and one.metadata.namespace == namespace]
        return [pod for pod in pods if (pod.metadata.annotations or {}).get(GROUP) == name]

    def waiting(self, job: str) -> list[Pod]:
        return [pod for pod in self.pods(job) if not pod.spec.node_name and pod.status.phase == "Pending"]

    # ---- the cluster's part

    def carry_out(self, decisions: Decisions) -> None:
        for bind in decisions.binds:
            pod = self.all["Pod", f"{bind.namespace}/{bind.pod}"]
            pod.spec.node_name, pod.status.phase = bind.node, "Running"
        for eviction in decisions.evictions:
            self.all["Pod", f"{eviction.namespace}/{eviction.pod}"].metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
        for condition in decisions.pod_conditions:
            pod = self.all["Pod", f"{condition.namespace}/{condition.pod}"]
            told = PodCondition(type="PodScheduled", status="False", reason=condition.reason, message=condition.message)
            pod.status.conditions = [told]  # by which it is known later what was tried
            if condition.nominated_node:
                pod.status.nominated_node_name = condition.nominated_node
        for update in decisions.pod_groups:
            self.group(update.key).status.phase = update.phase

    def end_terminating(self) -> None:
        """Pods that are being deleted have gone."""
        self.all = {key: each for key, each in self.all.items() if not each.metadata.deletion_timestamp}

    # ---- the user's part

    def make(self, change: c.Change, job: str) -> None:
        """Do what a verdict suggests."""
        words = re.findall(r"[A-Z][a-z]+", type(change).__name__)
        getattr(self, f"_{'_'.join(words).lower()}")(change, job)

    def _lower_min_available(self, change: c.LowerMinAvailable, job: str) -> None:
        spec = self.group(job).spec
        before = spec.min_member or 0
        if spec.min_resources:
            amounts = {
                name: -(-amount * change.to // before) for name, amount in resource_list(spec.min_resources).items()
            }
            spec.min_resources = dict(to_wire(amounts))
        spec.min_member = change.to

    def _add_nodes(self, change: c.AddNodes, job: str) -> None:
        for number in range(change.count):
            fresh: Node = deepcopy(self.all["Node", change.like])
            name = fresh.metadata.name = f"zz-{number}-{change.like}"
            fresh.metadata.labels = {**(fresh.metadata.labels or {}), "kubernetes.io/hostname": name}
            self.all["Node", fresh.metadata.name] = fresh

    def _request_at_most(self, change: c.RequestAtMost, job: str) -> None:
        spec = self.group(job).spec
        if spec.min_resources:
            most = {name: amount * (spec.min_member or 0) for name, amount in change.amounts.items()}
            asked = resource_list(spec.min_resources)
            spec.min_resources = dict(to_wire({name: min(n, most.get(name, n)) for name, n in asked.items()}))
        self._of_pods(change, job)

    def _of_pods(self, change: c.OfPods, job: str) -> None:
        for pod in self.pods(job) if change.running else self.waiting(job):
            spec = to_builtins(pod.spec)
            change.edit(spec)
            pod.spec = convert(spec, PodSpec)

    _add_toleration = _relax_rule = _use_label = _of_pods

    def _raised(self, limits: Mapping[str, Any] | None, by: Mapping[str, int]) -> dict[str, Any]:
        old = resource_list(dict(limits or {}))
        return dict(to_wire(old | {name: old.get(name, 0) + amount for name, amount in by.items()}))

    def _raise_capability(self, change: c.RaiseCapability, job: str) -> None:
        spec = self.all["Queue", change.queue].spec
        spec.capability = self._raised(spec.capability, change.amounts)

    def _set_licenses(self, change: c.SetLicenses, job: str) -> None:
        known = self.all.get(("FloatingResource", change.name))
        fresh = floating(change.name, change.to, known.spec.in_use if known is not None else None)
        self.all["FloatingResource", change.name] = fresh

    def _raise_budget(self, change: c.RaiseBudget, job: str) -> None:
        spec = self.all["Budget", change.name].spec
        spec.amounts = {**(spec.amounts or {}), **{name: str(to) for name, to in change.amounts.items()}}

    def _raise_quota(self, change: c.RaiseQuota, job: str) -> None:
        """The controllers of all jobs try again to create their pods, and those of this job come last."""
        namespace = job.partition("/")[0]
        limits = self.all["ResourceQuota", f"{namespace}/{change.quota}"]
        limits.spec.hard = self._raised(limits.spec.hard, change.amounts)
        jobs = sorted(key for kind, key in self.all if kind == "PodGroup" and key.startswith(f"{namespace}/"))
        for key in sorted(jobs, key=lambda one: one == job):
            head, there = self.group(key), len(self.pods(key))
            if there and head.status.phase != "Pending":
                for _ in range((head.spec.min_member or 0) - there):
                    self._create_within(limits, key)

    def _create_within(self, limits: ResourceQuota, job: str) -> None:
        """Create one more pod of a job, if the quota lets it be."""
        hard = resource_list(limits.spec.hard)
        pods = [
            one
            for one in self.all.values()
            if isinstance(one, Pod) and one.metadata.namespace == limits.metadata.namespace
        ]
        held = [_asked(pod) for pod in pods]
        counted = {name: sum(amount_of(each, name) for each in held) for name in hard}
        # where its controller has written a number, pods that have come since are added to that
        taken = resource_list(limits.status.used) if limits.status.used else counted
        taken = {name: max(taken.get(name, 0), counted[name]) for name in hard}
        one_more = _asked(self.pods(job)[0])
        if all(taken[name] + amount_of(one_more, name) <= hard[name] for name in hard):
            self._create_pods(c.CreatePods(1), job)

    def _allow_tier(self, change: c.AllowTier, job: str) -> None:
        spec = self.group(job).spec
        if spec.network_topology is not None and spec.network_topology.mode != "soft":
            spec.network_topology.highest_tier_allowed = change.tier
        for policy in spec.sub_group_policy or ():
            wish = policy.network_topology
            if wish is not None and wish.mode != "soft" and (wish.highest_tier_allowed or 0) < change.tier:
                wish.highest_tier_allowed = change.tier

    def _raise_deserved(self, change: c.RaiseDeserved, job: str) -> None:
        spec = self.all["Queue", change.queue].spec
        spec.deserved = self._raised(spec.deserved, change.amounts)

    def _lower_guarantee(self, change: c.LowerGuarantee, job: str) -> None:
        kept = self.all["Queue", change.queue].spec.guarantee
        rest = resource_list(kept.resource)
        lowered = {name: max(rest.get(name, 0) - amount, 0) for name, amount in change.amounts.items()}
        kept.resource = dict(to_wire(rest | lowered))

    def _raise_weight(self, change: c.RaiseWeight, job: str) -> None:
        self.all["Queue", change.queue].spec.weight = change.weight

    def _raise_queue_priority(self, change: c.RaiseQueuePriority, job: str) -> None:
        self.all["Queue", change.queue].spec.priority = change.priority

    def _open_queue(self, change: c.OpenQueue, job: str) -> None:
        found: Queue = self.all["Queue", change.queue]
        found.status.state = "Open"

    def _create_queue(self, change: c.CreateQueue, job: str) -> None:
        self.all["Queue", change.queue] = queue(change.queue)

    def _create_pods(self, change: c.CreatePods, job: str) -> None:
        like = max(self.pods(job), key=lambda pod: (not pod.spec.node_name, pod.metadata.name))
        for number in range(change.count):
            fresh = deepcopy(like)
            name = fresh.metadata.name = f"{like.metadata.name}-{number}"
            fresh.metadata.uid = f"uid-{name}"
            fresh.metadata.deletion_timestamp = None
            fresh.spec.node_name, fresh.status.phase = None, "Pending"
            self.all["Pod", fresh.key] = fresh

    def _remove_gates(self, change: c.RemoveGates, job: str) -> None:
        for key in change.pods:
            self.all["Pod", key].spec.scheduling_gates = None

    def _uncordon(self, change: c.Uncordon, job: str) -> None:
        for name in change.nodes:
            self.all["Node", name].spec.unschedulable = None

    def _add_labels(self, change: c.AddLabels, job: str) -> None:
        for name in change.nodes:
            meta = self.all["Node", name].metadata
            meta.labels = {**(meta.labels or {}), **change.labels}

    def _add_annotation(self, change: c.AddAnnotation, job: str) -> None:
        for pod in self.waiting(job):
            pod.metadata.annotations = {**(pod.metadata.annotations or {}), change.key: change.value}

    def _use_queue(self, change: c.UseQueue, job: str) -> None:
        self.group(job).spec.queue = change.queue

    def _use_role(self, change: c.UseRole, job: str) -> None:
        roles = self.group(job).spec.min_task_member
        roles[change.instead] = roles.pop(change.name)

    def _use_priority(self, change: c.UsePriority, job: str) -> None:
        self.group(job).spec.priority_class_name = change.priority_class

    def _use_resource(self, change: c.UseResource, job: str) -> None:
        spec = self.group(job).spec
        if spec.min_resources:
            spec.min_resources = dict(to_wire(renamed(resource_list(spec.min_resources), change.name, change.instead)))
        self._of_pods(change, job)

    def _use_claim(self, change: c.UseClaim, job: str) -> None:
        for pod in self.waiting(job):
            for volume in pod.spec.volumes or ():
                claim = volume.persistent_volume_claim
                if claim is not None and claim.claim_name == change.name:
                    claim.claim_name = change.instead

    def _set_min_resources(self, change: c.SetMinResources, job: str) -> None:
        spec = self.group(job).spec
        spec.min_resources = {**(spec.min_resources or {}), **to_wire(change.amounts)}

    def _pass_over(self, change: c.PassOver, job: str) -> None:
        self.all["Queue", change.queue].spec.dequeue_strategy = "traverse"

    def _raise_user_limits(self, change: c.RaiseUserLimits, job: str) -> None:
        notes = self.all["Queue", change.queue].metadata.annotations
        notes[USER_LIMITS] = raised(notes[USER_LIMITS], change.amounts)

    def _allow_reclaim(self, change: c.AllowReclaim, job: str) -> None:
        self.all["Queue", change.queue].spec.reclaimable = True

    def _together(self, change: c.Together, job: str) -> None:
        for one in change.changes:
            self.make(one, job)

    def _end(self, change: c.ReleasePort | c.WaitFor | c.EvictPods, job: str) -> None:
        for key in change.pods:
            del self.all["Pod", key]

    _release_port = _wait_for = _evict_pods = _end

"""What to do about a RayCluster: a pure function from observed objects and the time to a plan."""

from __future__ import annotations

from functools import partial

import msgspec

from unisono.api import keys
from unisono.api.annotations import LATER_PARTS
from unisono.api.conditions import is_true
from unisono.api.core import Pod
from unisono.api.gang_parts import decode_parts
from unisono.api.groups.ray import RayCluster, RayClusterStatus, RayHeadInfo
from unisono.api.kind_families import RAY_CLUSTERS
from unisono.api.kinds import SERVICES
from unisono.api.pod_states import has_ended
from unisono.api.times import rfc3339
from unisono.api.validation.training import validate_ray_cluster
from unisono.controllers.owners import whole_number
from unisono.controllers.plan import Resource
from unisono.controllers.pod_facts import is_deleting, is_ready, is_running, staying
from unisono.controllers.pod_groups import sum_requests
from unisono.controllers.podgroup.decide import topology
from unisono.controllers.training.controller import Seen
from unisono.controllers.training.plan import Gang, TrainingPlan, bring_gang, part_of, set_condition, suspend_group
from unisono.controllers.training.ray.pods import (
    Place,
    RayClusterView,
    build_pod,
    head_ports,
    head_service,
    head_service_name,
    most,
)
from unisono.controllers.workloads.templates import refused_for
from unisono.jobkinds.ray import cluster_sets, desired, fewest
from unisono.jobkinds.registry import handed_to

PROVISIONED, HEAD_READY = "RayClusterProvisioned", "HeadPodReady"
AUTOSCALER_SERVED = "AutoscalerServed"
SUSPENDING, SUSPENDED = "RayClusterSuspending", "RayClusterSuspended"


def decide(seen: Seen[RayCluster], now: float) -> TrainingPlan:
    """The next step for the cluster; an empty plan when another operator manages it; ``now`` in seconds since 1970."""
    return _ClusterDecision(seen, now).run()


class _ClusterDecision:
    def __init__(self, seen: Seen[RayCluster], now: float) -> None:
        self.seen, self.now, self.time = seen, now, rfc3339(now)
        self.view = RayClusterView(seen.job)
        self.plan = TrainingPlan()
        self.status = msgspec.convert(msgspec.to_builtins(seen.job.status), RayClusterStatus)
        self.places = {place.name: place for place in self.view.places(seen.pods)}
        self.pods = {pod.metadata.name: pod for pod in seen.pods}

    def run(self) -> TrainingPlan:
        if handed_to(self.seen.job)[1]:
            return TrainingPlan()
        if not self.status.state and not self.status.conditions:
            errors = [error.message() for error in validate_ray_cluster(self.seen.job, None)]
            if errors:
                self.plan.warn("InvalidRayClusterSpec", "; ".join(errors), once="; ".join(errors))
                return self.plan
        if self.view.spec.suspend:
            self._suspend()
        else:
            self._resume()
            self._sync()
            self._count()
        if self._changed():
            self.status.last_update_time = self.time
            self.status.observed_generation = self.seen.job.metadata.generation
            self.plan.status = self.status
        return self.plan

    def _changed(self) -> bool:
        old = self.seen.job.status
        same = msgspec.structs.replace(
            self.status, last_update_time=old.last_update_time, observed_generation=old.observed_generation
        )
        return same != old

    def _sync(self) -> None:
        """Bring the head, its Service and the workers about."""
        admitted = self._gang()
        if not admitted and not self.pods:
            return
        self.plan.ensure.append(Resource(SERVICES, head_service(self.view), warning="FailedToCreateService"))
        for pod in self.pods.values():
            has_place = pod.metadata.name in self.places
            if is_deleting(pod) or (has_place and not has_ended(pod)):
                continue
            left = refused_for(pod, self.now) if has_place else 0.0
            if left > 0:
                self.plan.again_within(left)
            else:
                self.plan.delete_pods.append(pod)
        if admitted:
            for name, place in self.places.items():
                if self.plan.full:
                    break
                if name not in self.pods and f"pods/{name}" not in self.seen.expected:
                    self.plan.create_pods.append(partial(build_pod, self.view, place))

    def _gang(self) -> bool:
        view = self.view
        if view.spec.enable_in_tree_autoscaling:
            text = (
                "enableInTreeAutoscaling: Ray's autoscaler is not run here, the cluster keeps the replicas of its "
                "worker groups; change spec.workerGroupSpecs[*].replicas, by hand or by an autoscaler of your own"
            )
            self.plan.warn("AutoscalerNotRun", text, once="autoscaler")
            self._set(AUTOSCALER_SERVED, "AutoscalerNotRun", text, holds=False)
        elif self.status.conditions:
            self.status.conditions = [each for each in self.status.conditions if each.type != AUTOSCALER_SERVED] or None
        parts = [part_of(pods) for pods in cluster_sets(view.spec)]
        parts += decode_parts((view.cluster.metadata.annotations or {}).get(LATER_PARTS, ""))
        wanted_topology = {
            to: view.marks[key]
            for key, to in (
                (keys.NETWORK_TOPOLOGY_MODE, keys.NETWORK_TOPOLOGY_MODE),
                (keys.NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED, keys.NETWORK_TOPOLOGY_HIGHEST_TIER),
            )
            if key in view.marks
        }
        gang = Gang(
            members=sum(part.count for part in parts),
            parts=parts,
            queue=view.queue,
            priority_class=view.marks.get(keys.RAY_PRIORITY_CLASS),
            topology=topology(wanted_topology),
        )
        return bring_gang(self.plan, RAY_CLUSTERS, view.cluster, view.group_name, gang, self.seen.group)

    def _suspend(self) -> None:
        self.plan.delete_pods = staying(self.seen.pods)
        suspend_group(self.plan, self.view.cluster, self.seen.group)
        done = not self.seen.pods
        self._set(SUSPENDING, "UserRequestSuspend", "the cluster is being suspended", holds=not done)
        self._set(SUSPENDED, "UserRequestSuspend", "the cluster is suspended", holds=done)
        if done:
            self.status.state = "suspended"
            self.status.ready_worker_replicas = self.status.available_worker_replicas = None
            for type in (HEAD_READY, PROVISIONED):
                self._set(type, "RayClusterSuspended", "the cluster is suspended", holds=False)

    def _resume(self) -> None:
        for type in (SUSPENDING, SUSPENDED):
            if is_true(self.status.conditions, type):
                self._set(type, "UserRequestResume", "the cluster is resumed", holds=False)
                self.status.state = None

    def _count(self) -> None:
        status, view = self.status, self.view
        workers = [pod for name, pod in self.pods.items() if (at := self.places.get(name)) and not at.is_head]
        ready = sum(_is_ready(pod) for pod in workers)
        desired_workers = sum(desired(group) for group in view.workers)
        status.desired_worker_replicas = desired_workers
        status.min_worker_replicas = sum(fewest(group) for group in view.workers)
        status.max_worker_replicas = min(2**31 - 1, sum(most(group) for group in view.workers))
        status.ready_worker_replicas = ready
        status.available_worker_replicas = sum(_is_available(pod) for pod in workers)
        self._sum_resources()
        head = self._head()
        head_ready = head is not None and _is_ready(head)
        status.head = RayHeadInfo(
            pod_ip=head.status.pod_ip if head is not None else None,
            pod_name=head.metadata.name if head is not None else None,
            service_name=head_service_name(view.name),
            service_ip=head.status.pod_ip if head is not None else None,
        )
        ports = head_ports(self.view.spec.head_group_spec.template)
        status.endpoints = {name: str(port) for name, port in ports.items()}
        if head_ready:
            self._set(HEAD_READY, "HeadPodRunningAndReady", "the head runs and is ready", holds=True)
        else:
            reason = "HeadPodNotFound" if head is None else "ContainersNotReady"
            self._set(HEAD_READY, reason, "the head is not ready", holds=False)
        if head_ready and ready >= desired_workers:
            if status.state != "ready":
                status.state_transition_times = {**(status.state_transition_times or {}), "ready": self.time}
            status.state = "ready"
            text = "all pods run and are ready for the first time"
            self._set(PROVISIONED, "AllPodRunningAndReadyFirstTime", text, holds=True)
        elif not is_true(status.conditions, PROVISIONED):
            self._set(PROVISIONED, "RayClusterPodsProvisioning", "pods are being provisioned", holds=False)

    def _sum_resources(self) -> None:
        total = sum_requests((place.template.spec, 1) for place in self.places.values())
        self.status.desired_cpu, self.status.desired_memory = total.get("cpu", "0"), total.get("memory", "0")
        gpus = [name for name in total if name.endswith("gpu")]
        self.status.desired_gpu = str(sum(whole_number(total[name]) or 0 for name in gpus))
        self.status.desired_tpu = total.get(keys.TPU, "0")

    def _head(self) -> Pod | None:
        place: Place = next(iter(self.places.values()))
        return self.pods.get(place.name)

    def _set(self, type: str, reason: str, message: str, *, holds: bool) -> None:
        value = "True" if holds else "False"
        self.status.conditions = set_condition(self.status.conditions, type, value, reason, message, self.time)


def _is_ready(pod: Pod) -> bool:
    return _is_available(pod) and is_ready(pod)


def _is_available(pod: Pod) -> bool:
    return is_running(pod) and not is_deleting(pod)

"""What to do about a RayJob: a pure function from observed objects and the time to a plan.

::

    Initializing ──► Running ──► Complete
        ▲   cluster ready │
        │                 └────► Failed, or Retrying ──► a new cluster
        └── Suspended ◄── Suspending (at any time)
"""

from __future__ import annotations

from functools import partial

import msgspec

from unisono.api.annotations import LATER_PARTS
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod
from unisono.api.gang_parts import encode_parts
from unisono.api.groups.ray import RayCluster, RayJob, RayJobStatus, RayJobStatusInfo
from unisono.api.keys import LAST_APPLIED, RAY_CLUSTER, RAY_OPERATOR
from unisono.api.kind_families import RAY_CLUSTERS, RAY_JOBS
from unisono.api.times import parse_time, rfc3339
from unisono.api.validation.training import validate_ray_job
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource
from unisono.controllers.pod_facts import is_deleting, staying
from unisono.controllers.training.controller import Seen
from unisono.controllers.training.plan import Plan
from unisono.controllers.training.pod_group import part_of
from unisono.controllers.training.ray import labels
from unisono.controllers.training.ray.submitter import (
    Submitter,
    beside_head,
    cluster_spec,
    of_pod,
    submitter_pod,
)
from unisono.jobkinds.ray import SIDECAR_MODE, submitter_sets

INITIALIZING, RUNNING, COMPLETE, FAILED = "Initializing", "Running", "Complete", "Failed"
SUSPENDING, SUSPENDED, RETRYING, WAITING = "Suspending", "Suspended", "Retrying", "Waiting"
INVALID = "ValidationFailed"
_ENDED = frozenset({COMPLETE, FAILED, INVALID})


def decide(seen: Seen[RayJob], cluster: RayCluster | None, now: float, head: Pod | None = None) -> Plan:
    """The next step for the job; an empty plan when another operator manages it.

    Args:
        seen: the job and its submitter's pod.
        cluster: the cluster that the job's status or selector names, if it is there.
        now: seconds since 1970.
        head: pod of the cluster's head, which in SidecarMode submits the job.

    """
    return _Decision(seen, cluster, now, head).run()


class _Decision:
    def __init__(self, seen: Seen[RayJob], cluster: RayCluster | None, now: float, head: Pod | None) -> None:
        self.seen, self.job, self.cluster, self.head = seen, seen.job, cluster, head
        self.now, self.time = now, rfc3339(now)
        self.plan = Plan()
        self.status = msgspec.convert(msgspec.to_builtins(seen.job.status), RayJobStatus)

    def run(self) -> Plan:
        if self.job.spec.managed_by not in (None, "", RAY_OPERATOR):
            return Plan()
        phase = self.status.job_deployment_status or ""
        if phase in _ENDED:
            self._wind_down()
            return self.plan
        if not phase and (errors := [each.message() for each in validate_ray_job(self.job, None)]):
            self._finish(INVALID, INVALID, "; ".join(errors))
        elif self.job.spec.suspend:
            self._suspend()
        elif phase in ("", SUSPENDED, SUSPENDING, RETRYING):
            self._begin()
        else:
            self._go_on(phase)
        if self.status != self.job.status:
            self.plan.status = self.status
        return self.plan

    def _begin(self) -> None:
        """A cluster of its own, with a name that is written down before it is made; or one that is there."""
        status, meta = self.status, self.job.metadata
        left_over = self._is_ours() or any(not is_deleting(pod) for pod in self.seen.pods)
        if left_over and status.job_deployment_status in (SUSPENDING, RETRYING):
            self._remove()
            return
        try_number = (status.failed or 0) + (status.succeeded or 0)
        suffix = labels.letters(meta.uid, try_number, status.job_deployment_status or "", self.time)
        status.ray_cluster_name = self._selected() or f"{meta.name}-{suffix}"
        status.job_id = self.job.spec.job_id or f"{meta.name}-{suffix}"
        status.job_deployment_status, status.job_status = INITIALIZING, None
        status.reason = status.message = status.end_time = None
        status.start_time = self.time
        status.dashboard_url = f"{self._address()}:{labels.DASHBOARD_PORT}"

    def _go_on(self, phase: str) -> None:
        if self._is_late(phase):
            return
        spec = self.job.spec.ray_cluster_spec
        if not self._selected() and spec is not None and (self.cluster is None or not self._is_ours()):
            wanted = self._wanted()
            self.plan.ensure.append(Resource(RAY_CLUSTERS, wanted, permanent=True, warning="FailedToCreateRayCluster"))
        if self.cluster is None:
            self.plan.again_within(5.0)
            return
        self.status.ray_cluster_status = self.cluster.status
        sidecar = beside_head(self.head) if self.job.spec.submission_mode == SIDECAR_MODE else None
        if phase == INITIALIZING and (self.cluster.status.state == "ready" or (sidecar and sidecar.ended)):
            interactive = self.job.spec.submission_mode == "InteractiveMode"
            self.status.job_deployment_status = WAITING if interactive else RUNNING
            self.status.job_status = "PENDING"
        elif phase == RUNNING:
            self._submit(sidecar)

    def _submit(self, sidecar: Submitter | None) -> None:
        """The submitter lives as long as the job; how it ends is how the job ended."""
        found = sidecar if self.job.spec.submission_mode == SIDECAR_MODE else self._submitters_pod()
        if found is None:
            return
        info = self.status.ray_job_info or RayJobStatusInfo()
        if not found.ended:
            if self.status.job_status != "RUNNING":
                self.status.job_status, info.start_time = "RUNNING", self.time
                self.status.ray_job_info = info
        elif found.succeeded:
            self.status.job_status, self.status.succeeded = "SUCCEEDED", (self.status.succeeded or 0) + 1
            self._finish(COMPLETE, "", "Job finished successfully.")
        else:
            self.status.job_status = "FAILED"
            self._fail("AppFailed", found.message)

    def _submitters_pod(self) -> Submitter | None:
        """The submitter in a pod of its own, which is made where it is missing; None until it runs."""
        name = labels.pod_name(f"{self.job.metadata.name}-submitter", self.job.metadata.uid, self.status.job_id)
        pod = next((each for each in self.seen.pods if each.metadata.name == name), None)
        if pod is None:
            if f"pods/{name}" not in self.seen.expected:
                build = partial(submitter_pod, self._known(), self.cluster, name, in_gang=not self._selected())
                self.plan.create_pods.append(build)
            return None
        return of_pod(pod)

    def _fail(self, reason: str, message: str) -> None:
        self.status.failed = (self.status.failed or 0) + 1
        if self.status.failed <= (self.job.spec.backoff_limit or 0) and reason == "AppFailed":
            self.status.job_deployment_status, self.status.reason, self.status.message = RETRYING, reason, message
            self.plan.warn("Retrying", f"{message}; trying again on a new cluster")
        else:
            self._finish(FAILED, reason, message)

    def _finish(self, phase: str, reason: str, message: str) -> None:
        status = self.status
        status.job_deployment_status, status.reason, status.message = phase, reason or None, message
        status.end_time = self.time
        if phase != INVALID and status.ray_job_info is not None:
            status.ray_job_info.end_time = self.time
        (self.plan.tell if phase == COMPLETE else self.plan.warn)(f"RayJob{phase}", message)

    def _is_late(self, phase: str) -> bool:
        spec, begun = self.job.spec, self.status.start_time
        limits = [(spec.active_deadline_seconds, "DeadlineExceeded")]
        if phase == INITIALIZING:
            limits.append((spec.pre_running_deadline_seconds, "PreRunningDeadlineExceeded"))
        for limit, reason in limits:
            if limit is None or begun is None:
                continue
            left = parse_time(begun) + limit - self.now
            if left <= 0:
                self._fail(reason, f"The RayJob has passed its deadline of {limit} s; it started at {begun}.")
                return True
            self.plan.again_within(left)
        return False

    def _suspend(self) -> None:
        status = self.status
        if self._is_ours() or self.seen.pods:
            status.job_deployment_status = SUSPENDING
            self._remove()
            return
        status.job_deployment_status = SUSPENDED
        status.job_status = status.ray_cluster_name = status.job_id = status.dashboard_url = None
        status.ray_cluster_status = status.start_time = status.ray_job_info = None

    def _wind_down(self) -> None:
        """Take the cluster away in the end, if the job says so."""
        late = self.status.reason in ("DeadlineExceeded", "PreRunningDeadlineExceeded")
        if late:
            self._delete_pods()
        if not self.job.spec.shutdown_after_job_finishes and not late:
            return
        ended = parse_time(self.status.end_time) if self.status.end_time else self.now
        left = ended + (self.job.spec.ttl_seconds_after_finished or 0) - self.now
        if left > 0:
            self.plan.again_within(left)
        elif self.cluster is not None and self._is_ours():
            self.plan.remove.append((RAY_CLUSTERS, self.cluster))

    def _remove(self) -> None:
        self._delete_pods()
        if self.cluster is not None and self._is_ours():
            self.plan.remove.append((RAY_CLUSTERS, self.cluster))

    def _delete_pods(self) -> None:
        self.plan.delete_pods = staying(self.seen.pods)

    def _is_ours(self) -> bool:
        owners = self.cluster.metadata.owner_references if self.cluster is not None else None
        return any(owner.uid == self.job.metadata.uid for owner in owners or ())

    def _selected(self) -> str:
        return (self.job.spec.cluster_selector or {}).get(RAY_CLUSTER, "")

    def _address(self) -> str:
        return labels.head_address(self.status.ray_cluster_name or "", self.job.metadata.namespace or "")

    def _wanted(self) -> RayCluster:
        meta = self.job.metadata
        marks = {**(meta.labels or {}), labels.ORIGIN_NAME: meta.name, labels.ORIGIN_KIND: RAY_JOBS.kind}
        later = encode_parts(map(part_of, submitter_sets(self.job)))
        given = {k: v for k, v in (meta.annotations or {}).items() if k != LAST_APPLIED} | {LATER_PARTS: later}
        return RayCluster(
            metadata=ObjectMeta(
                name=self.status.ray_cluster_name or "",
                namespace=meta.namespace,
                labels=marks,
                annotations=given or None,
                owner_references=[owned_by(RAY_JOBS, self.job)],
            ),
            spec=cluster_spec(self.job, self.status.job_id or ""),
        )

    def _known(self) -> RayJob:
        """The job with what is decided about it."""
        return msgspec.structs.replace(self.job, status=self.status)

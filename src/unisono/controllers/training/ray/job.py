"""What to do about a RayJob: a pure function from observed objects and the time to a plan.

::

    Initializing ──► Running ──► Complete
        ▲   cluster ready │
        │                 └────► Failed, or Retrying ──► a new cluster
        └── Suspended ◄── Suspending (at any time)
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from unisono.api.annotations import LATER_PARTS
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, ContainerStateTerminated, EnvVar, Pod, PodTemplateSpec
from unisono.api.gang_parts import encode_parts
from unisono.api.groups.ray import RayCluster, RayClusterSpec, RayJob, RayJobStatus, RayJobStatusInfo
from unisono.api.keys import GROUP_NAME, LAST_APPLIED, RAY_CLUSTER, TASK_SPEC
from unisono.api.kind_families import RAY_CLUSTERS, RAY_JOBS
from unisono.api.times import parse_time, rfc3339
from unisono.api.validation.training import validate_ray_job
from unisono.api.yaml import load_all
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource
from unisono.controllers.pod_facts import is_deleting, phase_of, staying
from unisono.controllers.training.controller import Seen
from unisono.controllers.training.plan import TrainingPlan, part_of
from unisono.controllers.training.ray import pods
from unisono.errors import ConfigError
from unisono.jobkinds.ray import HTTP_MODE, SIDECAR_MODE, SUBMITTER, SUBMITTER_RESOURCES, submitter_sets
from unisono.jobkinds.registry import handed_to

# Who submits the entrypoint of a RayJob: a pod of its own, or a container beside the head.

_NAME = "ray-job-submitter"
_LOCAL = "127.0.0.1"
# A head that starts on a machine with far more work than processors may end and be started again while it takes a job.
# What is known of the job then decides: its end is the submitter's, one that runs is followed, and one that the cluster
# does not know is submitted again, but only so often, and not when it may have run for long.
_SUBMIT = """\
begun=$(date +%s) tries=1
while :; do
{submit}
code=$?
case $code in 0|2|126|127) exit $code;; esac
silent=$(date +%s)
while :; do
told=$({status} 2>&1)
case $told in
*"' succeeded"*) exit 0;;
*"' failed"*|*"' was stopped"*) exit $code;;
*"Status for job '"*) {logs}; silent=$(date +%s);;
*"does not exist"*|*"status code 404"*) break;;
esac
if [ $(($(date +%s) - silent)) -ge {patience} ]; then
echo "$told" >&2; echo "The cluster has not answered for {patience} s." >&2; exit $code
fi
sleep 2
done
if [ $tries -ge {tries} ] || [ $(($(date +%s) - begun)) -ge {patience} ]; then exit $code; fi
tries=$((tries + 1))
echo "The cluster does not know the job: submitting it again." >&2
done
"""
_PATIENCE_SECONDS, _TRIES = 300, 4


@dataclass(frozen=True, slots=True)
class Submitter:
    """What runs ``ray job submit``: how it ends is how the job ended."""

    ended: bool
    succeeded: bool = False
    message: str = ""


def of_pod(pod: Pod) -> Submitter | None:
    """The submitter in a pod of its own; None until it runs."""
    match phase_of(pod):
        case "Running":
            return Submitter(False)
        case "Succeeded":
            return Submitter(True, True)
        case "Failed":
            return Submitter(True, False, _last_words(pod))
    return None


def beside_head(head: Pod | None) -> Submitter | None:
    """The submitter in the head's pod; None until it runs."""
    statuses = (head.status.container_statuses if head is not None else None) or ()
    state = next((each.state for each in statuses if each.name == _NAME), None)
    if state is None:
        return None
    if state.terminated is not None:
        return Submitter(True, not state.terminated.exit_code, _ended_with(state.terminated))
    return Submitter(False) if state.running is not None else None


def submitter_pod(job: RayJob, cluster: RayCluster | None, name: str, *, in_gang: bool) -> Pod:
    """The pod that submits the job.

    Args:
        job: the job; its status names the cluster and the submission.
        cluster: the cluster, if it is there.
        name: of the pod.
        in_gang: whether the pod goes with the gang of the cluster.
    """
    meta, spec = job.metadata, job.spec
    address = pods.head_address(job.status.ray_cluster_name or "", meta.namespace or "")
    # HTTPMode sends a request that cannot be configured; here it is made from a pod, too.
    if spec.submitter_pod_template is not None and spec.submission_mode != HTTP_MODE:
        template = msgspec.convert(spec.submitter_pod_template, PodTemplateSpec)
    else:
        template = PodTemplateSpec()
    containers = template.spec.containers = template.spec.containers or [_container(job, cluster)]
    main = containers[0]
    if not main.command and not main.args:
        main.command = ["/bin/sh", "-c", submit_command(job, address, job.status.job_id or "")]
    main.env = [
        *(main.env or ()),
        EnvVar(name="RAY_DASHBOARD_ADDRESS", value=f"http://{address}:{pods.DASHBOARD_PORT}"),
        EnvVar(name="RAY_JOB_SUBMISSION_ID", value=job.status.job_id),
    ]
    template.spec.restart_policy = "Never"
    template.spec.scheduler_name = template.spec.scheduler_name or "volcano"
    group = f"ray-{meta.name}-pg"
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            labels={**(template.metadata.labels or {}), pods.ORIGIN_NAME: meta.name, pods.ORIGIN_KIND: RAY_JOBS.kind},
            annotations={
                **(template.metadata.annotations or {}),
                # A member of the cluster's gang beyond its size: it need not wait for a queue a second time.
                **({GROUP_NAME: group, TASK_SPEC: SUBMITTER} if in_gang else {}),
            },
            owner_references=[owned_by(RAY_JOBS, job)],
        ),
        spec=template.spec,
    )


def cluster_spec(job: RayJob, submission_id: str) -> RayClusterSpec:
    """Spec of the job's own cluster; in SidecarMode with the submitter beside the head."""
    given = job.spec.ray_cluster_spec
    assert given is not None
    if job.spec.submission_mode != SIDECAR_MODE:
        return given
    made = msgspec.convert(msgspec.to_builtins(given), RayClusterSpec)
    pod = made.head_group_spec.template.spec
    beside = _container(job, None)
    # It starts together with the head, so it waits until the head takes jobs.
    dashboard = f"http://{_LOCAL}:{pods.DASHBOARD_PORT}"
    wait = f"until ray job list --address={dashboard} >/dev/null 2>&1; do sleep 2; done"
    beside.command = ["/bin/sh", "-c", f"{wait}; {submit_command(job, _LOCAL, submission_id)}"]
    beside.env = [EnvVar(name="RAY_JOB_SUBMISSION_ID", value=submission_id)]
    pod.containers = [*(pod.containers or ()), beside]
    # A head that restarts would run the job a second time.
    pod.restart_policy = "Never"
    return made


def _container(job: RayJob, cluster: RayCluster | None) -> Container:
    spec = job.spec.ray_cluster_spec or (cluster.spec if cluster is not None else None)
    heads = (spec.head_group_spec.template.spec.containers or []) if spec is not None else []
    return Container(name=_NAME, image=heads[0].image if heads else None, resources=SUBMITTER_RESOURCES)


def submit_command(job: RayJob, address: str, submission_id: str) -> str:
    """The shell script that submits the entrypoint and waits for its end, also where the head is started again."""
    spec = job.spec
    at = f"--address=http://{address}:{pods.DASHBOARD_PORT}"
    words = ["ray", "job", "submit", at, f"--submission-id={submission_id}"]
    if spec.runtime_env_yaml:
        words.append(f"--runtime-env-json={json.dumps(_environment(spec.runtime_env_yaml))}")
    if spec.metadata:
        words.append(f"--metadata-json={json.dumps(spec.metadata)}")
    for option, value in (
        ("entrypoint-num-cpus", spec.entrypoint_num_cpus),
        ("entrypoint-num-gpus", spec.entrypoint_num_gpus),
        ("entrypoint-resources", spec.entrypoint_resources),
    ):
        if value:
            words.append(f"--{option}={value}")
    return _SUBMIT.format(
        submit=f"{shlex.join(words)} -- {spec.entrypoint or ''}",
        status=shlex.join(["ray", "job", "status", at, submission_id]),
        logs=shlex.join(["ray", "job", "logs", at, "--follow", submission_id]),
        patience=_PATIENCE_SECONDS,
        tries=_TRIES,
    )


def _environment(text: str) -> Any:
    """The runtime environment; an empty one where the text cannot be read."""
    try:
        documents = load_all(text)
    except ConfigError:
        return {}
    return documents[0].value if documents else {}


def _ended_with(ended: ContainerStateTerminated) -> str:
    return ended.message or f"the submitted job ended with code {ended.exit_code or 0}"


def _last_words(pod: Pod) -> str:
    for status in pod.status.container_statuses or ():
        ended = status.state.terminated
        if ended is not None:
            return _ended_with(ended)
    return pod.status.message or "the submitter's pod failed"


INITIALIZING, RUNNING, COMPLETE, FAILED = "Initializing", "Running", "Complete", "Failed"
SUSPENDING, SUSPENDED, RETRYING, WAITING = "Suspending", "Suspended", "Retrying", "Waiting"
INVALID = "ValidationFailed"
_ENDED = frozenset({COMPLETE, FAILED, INVALID})


def decide(seen: Seen[RayJob], cluster: RayCluster | None, now: float, head: Pod | None = None) -> TrainingPlan:
    """The next step for the job; an empty plan when another operator manages it.

    Args:
        seen: the job and its submitter's pod.
        cluster: the cluster that the job's status or selector names, if it is there.
        now: seconds since 1970.
        head: pod of the cluster's head, which in SidecarMode submits the job.
    """
    return _RayJobDecision(seen, cluster, now, head).run()


class _RayJobDecision:
    def __init__(self, seen: Seen[RayJob], cluster: RayCluster | None, now: float, head: Pod | None) -> None:
        self.seen, self.job, self.cluster, self.head = seen, seen.job, cluster, head
        self.now, self.time = now, rfc3339(now)
        self.plan = TrainingPlan()
        self.status = msgspec.convert(msgspec.to_builtins(seen.job.status), RayJobStatus)

    def run(self) -> TrainingPlan:
        if handed_to(self.job)[1]:
            return TrainingPlan()
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
        suffix = pods.letters(meta.uid, try_number, status.job_deployment_status or "", self.time)
        status.ray_cluster_name = self._selected() or f"{meta.name}-{suffix}"
        status.job_id = self.job.spec.job_id or f"{meta.name}-{suffix}"
        status.job_deployment_status, status.job_status = INITIALIZING, None
        status.reason = status.message = status.end_time = None
        status.start_time = self.time
        status.dashboard_url = f"{self._address()}:{pods.DASHBOARD_PORT}"

    def _go_on(self, phase: str) -> None:
        if self._is_late(phase):
            return
        spec = self.job.spec.ray_cluster_spec
        if not self._selected() and spec is not None and (self.cluster is None or not self._is_ours()):
            cluster = self._wanted()
            self.plan.ensure.append(Resource(RAY_CLUSTERS, cluster, permanent=True, warning="FailedToCreateRayCluster"))
        if self.cluster is None:
            if lack := self._lack():
                self.plan.warn("RayClusterNotFound", f"{lack}; the job begins when it is there", once=lack)
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
        submitter = sidecar if self.job.spec.submission_mode == SIDECAR_MODE else self._submitters_pod()
        if submitter is None:
            return
        info = self.status.ray_job_info or RayJobStatusInfo()
        if not submitter.ended:
            if self.status.job_status != "RUNNING":
                self.status.job_status, info.start_time = "RUNNING", self.time
                self.status.ray_job_info = info
        elif submitter.succeeded:
            self.status.job_status, self.status.succeeded = "SUCCEEDED", (self.status.succeeded or 0) + 1
            self._finish(COMPLETE, "", "Job finished successfully.")
        else:
            self.status.job_status = "FAILED"
            self._fail("AppFailed", submitter.message)

    def _submitters_pod(self) -> Submitter | None:
        """The submitter in a pod of its own, which is made where it is missing; None until it runs."""
        name = pods.pod_name(f"{self.job.metadata.name}-submitter", self.job.metadata.uid, self.status.job_id)
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
                lack = f" {lack[:1].upper()}{lack[1:]}." if (lack := self._lack()) else ""
                self._fail(reason, f"The RayJob has passed its deadline of {limit} s; it started at {begun}.{lack}")
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

    def _lack(self) -> str:
        """Why there is no cluster, of a job that makes none; empty where there is one, or will be."""
        if self.cluster is not None or not self.job.spec.cluster_selector:
            return ""
        if not self._selected():
            return "" if self.job.spec.ray_cluster_spec else f"spec.clusterSelector has no {RAY_CLUSTER}"
        return f"there is no RayCluster {self._selected()}, which spec.clusterSelector names"

    def _address(self) -> str:
        return pods.head_address(self.status.ray_cluster_name or "", self.job.metadata.namespace or "")

    def _wanted(self) -> RayCluster:
        meta = self.job.metadata
        marks = {**(meta.labels or {}), pods.ORIGIN_NAME: meta.name, pods.ORIGIN_KIND: RAY_JOBS.kind}
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

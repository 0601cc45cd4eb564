"""Who submits the entrypoint of a RayJob: a pod of its own, or a container beside the head."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.core import Container, ContainerStateTerminated, EnvVar, Pod, PodTemplateSpec
from unisono.api.groups.ray import RayCluster, RayClusterSpec, RayJob
from unisono.api.keys import GROUP_NAME, TASK_SPEC
from unisono.api.kind_families import RAY_JOBS
from unisono.api.yaml import load_all
from unisono.controllers.owners import owned_by
from unisono.controllers.pod_facts import phase_of
from unisono.controllers.training.ray import labels
from unisono.errors import ConfigError
from unisono.jobkinds.ray import HTTP_MODE, SIDECAR_MODE, SUBMITTER, SUBMITTER_RESOURCES

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
    address = labels.head_address(job.status.ray_cluster_name or "", meta.namespace or "")
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
        EnvVar(name="RAY_DASHBOARD_ADDRESS", value=f"http://{address}:{labels.DASHBOARD_PORT}"),
        EnvVar(name="RAY_JOB_SUBMISSION_ID", value=job.status.job_id),
    ]
    template.spec.restart_policy = "Never"
    template.spec.scheduler_name = template.spec.scheduler_name or "volcano"
    group = f"ray-{meta.name}-pg"
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            labels={
                **(template.metadata.labels or {}),
                labels.ORIGIN_NAME: meta.name,
                labels.ORIGIN_KIND: RAY_JOBS.kind,
            },
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
    dashboard = f"http://{_LOCAL}:{labels.DASHBOARD_PORT}"
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
    return Container(
        name=_NAME,
        image=heads[0].image if heads else None,
        resources=SUBMITTER_RESOURCES,
    )


def submit_command(job: RayJob, address: str, submission_id: str) -> str:
    """The shell script that submits the entrypoint and waits for its end, also where the head is started again."""
    spec = job.spec
    at = f"--address=http://{address}:{labels.DASHBOARD_PORT}"
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

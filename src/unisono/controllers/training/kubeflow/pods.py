"""Pods, Services and the HorizontalPodAutoscaler of a training job, built from the templates of its roles."""

from __future__ import annotations

import msgspec

from unisono.api.annotations import WORKING_DIRECTORY
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodTemplateSpec, Service, ServicePort, ServiceSpec
from unisono.api.defaulting.kubeflow import elastic_limits
from unisono.api.groups.autoscaling import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
)
from unisono.api.groups.kubeflow import PyTorchJobSpec
from unisono.api.keys import GROUP_NAME, QUEUE_NAME, TASK_INDEX, TASK_SPEC
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS, PYTORCH_JOBS
from unisono.controllers import keys
from unisono.controllers.objects import difference, owner_uid, to_json
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource
from unisono.controllers.training.kubeflow.framework import Framework
from unisono.controllers.training.kubeflow.view import DEFAULT_SCHEDULER, EXIT_CODE, JOB_ROLE, NEVER, Role, TrainingView
from unisono.controllers.training.plan import TrainingPlan

# Pods and Services of a training job, built from the templates of its roles.


def build_pod(framework: Framework, view: TrainingView, role: Role, index: int) -> Pod:
    """Pod ``index`` of the role, a member of the job's gang."""
    # Decoded from its own bytes: what follows may change all of it.
    template = msgspec.json.decode(msgspec.json.encode(role.template), type=PodTemplateSpec)
    given = view.job.metadata.annotations or {}
    own = framework.labels(view, role, index)
    if framework.is_master(view, role, index):
        own[JOB_ROLE] = "master"
    pod = Pod(
        metadata=ObjectMeta(
            name=framework.pod_name(view, role, index),
            namespace=view.namespace,
            labels=(template.metadata.labels or {}) | keys.inherited_labels(view.job.metadata.labels or {}) | own,
            annotations={
                **{key: given[key] for key in (WORKING_DIRECTORY,) if key in given},
                **keys.inherited_annotations(given),
                **(template.metadata.annotations or {}),
                GROUP_NAME: view.name,
                QUEUE_NAME: view.queue,
                TASK_SPEC: role.lower,
                TASK_INDEX: str(index),
            },
            owner_references=[owned_by(framework.kind, view.job)],
            finalizers=template.metadata.finalizers,
        ),
        spec=template.spec,
    )
    policy = framework.restart_policy(view, role)
    pod.spec.restart_policy = NEVER if policy == EXIT_CODE else policy
    pod.spec.scheduler_name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
    framework.prepare(view, role, index, pod)
    return pod


def build_service(framework: Framework, view: TrainingView, role: Role, index: int) -> Service:
    """The headless Service of one pod, with every port of the container that does the work."""
    container = view.container(role)
    selector = framework.labels(view, role, index)
    return Service(
        metadata=ObjectMeta(
            name=framework.pod_name(view, role, index),
            namespace=view.namespace,
            labels=dict(selector),
            owner_references=[owned_by(framework.kind, view.job)],
        ),
        spec=ServiceSpec(
            cluster_ip="None",
            selector=selector,
            ports=[
                ServicePort(name=port.name or f"port-{port.container_port}", port=port.container_port)
                for port in (container.ports or () if container is not None else ())
            ]
            or None,
        ),
    )


# The HorizontalPodAutoscaler of an elastic PyTorchJob with metrics: it changes the number of workers by ``scale``.


def plan_autoscaler(
    plan: TrainingPlan, view: TrainingView, found: HorizontalPodAutoscaler | None, *, active: bool = True
) -> None:
    """Bring the autoscaler about, to what the job says, or away.

    Args:
        plan: where to write it.
        view: the job.
        found: the autoscaler of the job's name, whatever its owner.
        active: False while the job is suspended: then it has none.

    """
    desired = _wanted(plan, view) if active else None
    ours = found is not None and owner_uid(found) == view.job.metadata.uid
    if desired is None:
        if found is not None and ours and not found.metadata.deletion_timestamp:
            plan.remove.append((HORIZONTAL_POD_AUTOSCALERS, found))
    elif found is None:
        plan.ensure.append(Resource(HORIZONTAL_POD_AUTOSCALERS, desired, warning="FailedCreateHPA", missing=True))
    elif not ours:
        text = f"horizontalpodautoscaler {found.key} belongs to something else; delete or rename it."
        plan.warn("FailedCreateHPA", text, once="autoscaler/foreign")
    elif patch := difference(to_json(found), to_json(desired)):
        plan.patches.append((HORIZONTAL_POD_AUTOSCALERS, found.metadata.name, patch))


def _wanted(plan: TrainingPlan, view: TrainingView) -> HorizontalPodAutoscaler | None:
    spec = view.job.spec
    policy = spec.elastic_policy if isinstance(spec, PyTorchJobSpec) else None
    worker = view.role("Worker")
    if policy is None or policy.metrics is None or worker is None:
        return None
    try:
        metrics = msgspec.convert(policy.metrics, list[MetricSpec])
    except msgspec.ValidationError as error:
        text = f"spec.elasticPolicy.metrics is no list of metrics of autoscaling/v2: {error}"
        plan.warn("FailedCreateHPA", text, once=text)
        return None
    low, high = elastic_limits(policy, worker.replicas)
    return HorizontalPodAutoscaler(
        metadata=ObjectMeta(
            name=view.name, namespace=view.namespace, owner_references=[owned_by(PYTORCH_JOBS, view.job)]
        ),
        spec=HorizontalPodAutoscalerSpec(
            scale_target_ref=CrossVersionObjectReference(
                kind=view.kind, name=view.name, api_version=PYTORCH_JOBS.api_version
            ),
            min_replicas=low,
            max_replicas=high,
            metrics=metrics,
        ),
    )

"""Pods and Services of a training job, built from the templates of its roles."""

from __future__ import annotations

import msgspec

from unisono.api.annotations import WORKING_DIRECTORY
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodTemplateSpec, Service, ServicePort, ServiceSpec
from unisono.api.keys import GROUP_NAME, QUEUE_NAME, TASK_INDEX, TASK_SPEC
from unisono.controllers import keys
from unisono.controllers.owners import owned_by
from unisono.controllers.training.kubeflow import labels
from unisono.controllers.training.kubeflow.framework import Framework
from unisono.controllers.training.kubeflow.view import DEFAULT_SCHEDULER, EXIT_CODE, NEVER, Role, TrainingView


def build_pod(framework: Framework, view: TrainingView, role: Role, index: int) -> Pod:
    """Pod ``index`` of the role, a member of the job's gang."""
    # Decoded from its own bytes: what follows may change all of it.
    template = msgspec.json.decode(msgspec.json.encode(role.template), type=PodTemplateSpec)
    given = view.job.metadata.annotations or {}
    own = framework.labels(view, role, index)
    if framework.is_master(view, role, index):
        own[labels.JOB_ROLE] = "master"
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

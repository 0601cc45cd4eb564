"""The HorizontalPodAutoscaler of an elastic PyTorchJob with metrics: it changes the number of workers by ``scale``."""

from __future__ import annotations

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.defaulting.kubeflow import elastic_limits
from unisono.api.groups.autoscaling import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
)
from unisono.api.groups.kubeflow import PyTorchJobSpec
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS, PYTORCH_JOBS
from unisono.controllers.objects import difference, owner_uid
from unisono.controllers.owners import owned_by
from unisono.controllers.patching import to_json
from unisono.controllers.plan import Resource
from unisono.controllers.training.kubeflow.view import TrainingView
from unisono.controllers.training.plan import Plan


def plan_autoscaler(
    plan: Plan, view: TrainingView, found: HorizontalPodAutoscaler | None, *, active: bool = True
) -> None:
    """Bring the autoscaler about, to what the job says, or away.

    Args:
        plan: where to write it.
        view: the job.
        found: the autoscaler of the job's name, whatever its owner.
        active: False while the job is suspended: then it has none.

    """
    wanted = _wanted(plan, view) if active else None
    ours = found is not None and owner_uid(found) == view.job.metadata.uid
    if wanted is None:
        if found is not None and ours and not found.metadata.deletion_timestamp:
            plan.remove.append((HORIZONTAL_POD_AUTOSCALERS, found))
    elif found is None:
        plan.ensure.append(Resource(HORIZONTAL_POD_AUTOSCALERS, wanted, warning="FailedCreateHPA", missing=True))
    elif not ours:
        text = f"horizontalpodautoscaler {found.key} belongs to something else; delete or rename it."
        plan.warn("FailedCreateHPA", text, once="autoscaler/foreign")
    elif patch := difference(to_json(found), to_json(wanted)):
        plan.patches.append((HORIZONTAL_POD_AUTOSCALERS, found.metadata.name, patch))


def _wanted(plan: Plan, view: TrainingView) -> HorizontalPodAutoscaler | None:
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

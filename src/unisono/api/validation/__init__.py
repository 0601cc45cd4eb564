"""What makes an object invalid, as far as the object itself tells; rules in view of other objects are admission's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from unisono.api import fleet_kinds, flow_kinds, group_kinds, inference_kinds, kinds, serving_kinds, workload_kinds
from unisono.api.admission_registration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from unisono.api.base import Object
from unisono.api.field_error import FieldError
from unisono.api.kind import Kind
from unisono.api.shape import shape_of
from unisono.api.training_kinds import (
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    KUBEFLOW_KINDS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
)
from unisono.api.validation import (
    autoscaling,
    batch_v1,
    cluster,
    config,
    crd,
    devices,
    fleet,
    flow,
    ingress,
    job,
    kubeflow,
    network,
    pod,
    policy,
    rbac,
    scheduling,
    service,
    training,
    volume,
    webhooks,
    workload,
    workloads,
)
from unisono.api.validation.constraints import validate_bounds, validate_shape
from unisono.api.validation.meta import validate_meta, validate_meta_update

__all__ = ["FieldError", "validate"]

T = TypeVar("T", bound=Object)
Rules = Callable[[Any, Any], Iterator[FieldError]]

# By struct: a kind under an alias version follows the same rules.
_RULES: dict[type[Object], Rules] = {
    kinds.PODS.struct: pod.validate_pod,
    kinds.NODES.struct: cluster.validate_node,
    kinds.EVENTS.struct: cluster.validate_event,
    kinds.CONFIG_MAPS.struct: config.validate_config_map,
    kinds.SECRETS.struct: config.validate_secret,
    kinds.SERVICES.struct: service.validate_service,
    kinds.SERVICE_ACCOUNTS.struct: cluster.validate_service_account,
    kinds.PERSISTENT_VOLUME_CLAIMS.struct: cluster.validate_claim,
    kinds.PERSISTENT_VOLUMES.struct: volume.validate_volume,
    kinds.STORAGE_CLASSES.struct: volume.validate_storage_class,
    kinds.RESOURCE_CLAIMS.struct: devices.validate_resource_claim,
    kinds.RESOURCE_CLAIM_TEMPLATES.struct: devices.validate_resource_claim_template,
    kinds.DEVICE_CLASSES.struct: devices.validate_device_class,
    kinds.RESOURCE_SLICES.struct: devices.validate_resource_slice,
    kinds.RESOURCE_QUOTAS.struct: policy.validate_quota,
    kinds.POD_DISRUPTION_BUDGETS.struct: policy.validate_budget,
    kinds.NETWORK_POLICIES.struct: network.validate_network_policy,
    kinds.LIMIT_RANGES.struct: policy.validate_limit_range,
    kinds.ROLES.struct: rbac.validate_role,
    kinds.ROLE_BINDINGS.struct: rbac.validate_role_binding,
    kinds.CLUSTER_ROLES.struct: rbac.validate_cluster_role,
    kinds.CLUSTER_ROLE_BINDINGS.struct: rbac.validate_cluster_role_binding,
    kinds.PRIORITY_CLASSES.struct: cluster.validate_priority_class,
    kinds.RUNTIME_CLASSES.struct: cluster.validate_runtime_class,
    group_kinds.WORKLOADS.struct: workload.validate_workload,
    group_kinds.WORKLOAD_POD_GROUPS.struct: workload.validate_pod_group,
    kinds.LEASES.struct: cluster.validate_lease,
    kinds.CUSTOM_RESOURCE_DEFINITIONS.struct: crd.validate_crd,
    workload_kinds.DEPLOYMENTS.struct: workloads.validate_deployment,
    workload_kinds.REPLICA_SETS.struct: workloads.validate_replica_set,
    workload_kinds.STATEFUL_SETS.struct: workloads.validate_stateful_set,
    workload_kinds.DAEMON_SETS.struct: workloads.validate_daemon_set,
    workload_kinds.CONTROLLER_REVISIONS.struct: workloads.validate_controller_revision,
    workload_kinds.BATCH_JOBS.struct: batch_v1.validate_batch_job,
    workload_kinds.BATCH_CRON_JOBS.struct: batch_v1.validate_batch_cron_job,
    serving_kinds.REPLICATION_CONTROLLERS.struct: workloads.validate_replication_controller,
    serving_kinds.HORIZONTAL_POD_AUTOSCALERS.struct: autoscaling.validate_autoscaler,
    serving_kinds.INGRESSES.struct: ingress.validate_ingress,
    serving_kinds.INGRESS_CLASSES.struct: ingress.validate_ingress_class,
    MUTATING_WEBHOOKS.struct: webhooks.validate_webhooks,
    VALIDATING_WEBHOOKS.struct: webhooks.validate_webhooks,
    kinds.JOBS.struct: job.validate_job,
    flow_kinds.CRON_JOBS.struct: flow.validate_cron_job,
    flow_kinds.JOB_FLOWS.struct: flow.validate_job_flow,
    flow_kinds.JOB_TEMPLATES.struct: flow.validate_job_template,
    flow_kinds.HYPER_JOBS.struct: flow.validate_hyper_job,
    fleet_kinds.ATTACHED_CLUSTERS.struct: fleet.validate_attached_cluster,
    fleet_kinds.FLEETS.struct: fleet.validate_fleet,
    fleet_kinds.APPLICATIONS.struct: fleet.validate_application,
    fleet_kinds.PROPAGATION_POLICIES.struct: fleet.validate_policy,
    fleet_kinds.CLUSTER_PROPAGATION_POLICIES.struct: fleet.validate_policy,
    fleet_kinds.DATA_SOURCES.struct: fleet.validate_data_source,
    inference_kinds.SCALED_OBJECTS.struct: autoscaling.validate_scaled_object,
    inference_kinds.KNATIVE_SERVICES.struct: autoscaling.validate_knative_service,
    kinds.POD_GROUPS.struct: scheduling.validate_pod_group,
    kinds.QUEUES.struct: scheduling.validate_queue,
    kinds.HYPER_NODES.struct: scheduling.validate_hyper_node,
    **{kind.struct: kubeflow.validate_training_job for kind in KUBEFLOW_KINDS},
    JOB_SETS.struct: training.validate_job_set,
    TRAIN_JOBS.struct: training.validate_train_job,
    TRAINING_RUNTIMES.struct: training.validate_runtime,
    CLUSTER_TRAINING_RUNTIMES.struct: training.validate_runtime,
    RAY_CLUSTERS.struct: training.validate_ray_cluster,
    RAY_JOBS.struct: training.validate_ray_job,
    RAY_SERVICES.struct: training.validate_ray_service,
}
_CUSTOM = frozenset(kind.struct for kind in kinds.CUSTOM_KINDS)


def validate(kind: Kind[T], obj: T, old: T | None = None) -> list[FieldError]:
    """Everything that is wrong with ``obj``, each error once, in the order of the fields; empty when it is valid.

    Args:
        kind: the kind.
        obj: the object after ``apply_defaults``.
        old: the stored object on an update, else None.
    """
    errors = [*validate_meta(kind, obj.metadata)]
    if old is not None:
        errors += validate_meta_update(obj.metadata, old.metadata)
    shape = shape_of(kind.struct)
    if kind.struct in _CUSTOM and shape.constrained:
        errors += validate_shape(shape, obj)
    rules = _RULES.get(kind.struct)
    if rules is not None:
        errors += rules(obj, old)
    errors += validate_bounds(kind.struct, obj, old)
    return _once(errors)


def _once(errors: list[FieldError]) -> list[FieldError]:
    return list({error.message(): error for error in errors}.values())

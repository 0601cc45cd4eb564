"""What makes an object invalid, as far as the object itself tells; rules in view of other objects are admission's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from unisono.api import kind_families, kinds
from unisono.api.annotations import LICENSES, ONE_OF, ONE_OF_BY
from unisono.api.base import Object
from unisono.api.decode import shape_of
from unisono.api.field_error import FieldError
from unisono.api.gang_affinity import WORDS
from unisono.api.groups.admission_registration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from unisono.api.kind import Kind
from unisono.api.selecting import controller_of
from unisono.api.validation import (
    access,
    batch_v1,
    cluster,
    crd,
    job,
    pod,
    scheduling,
    service,
    training,
    volume,
    workload,
    workloads,
)
from unisono.api.validation.meta import (
    validate_between,
    validate_bounds,
    validate_meta,
    validate_meta_update,
    validate_one_of,
    validate_shape,
)

__all__ = ["FieldError", "validate"]

T = TypeVar("T", bound=Object)
Rules = Callable[[Any, Any], Iterator[FieldError]]

# By struct: a kind under an alias version follows the same rules.
_RULES: dict[type[Object], Rules] = {
    kinds.PODS.struct: pod.validate_pod,
    kinds.NODES.struct: cluster.validate_node,
    kinds.EVENTS.struct: cluster.validate_event,
    kinds.CONFIG_MAPS.struct: cluster.validate_config_map,
    kinds.SECRETS.struct: cluster.validate_secret,
    kinds.SERVICES.struct: service.validate_service,
    kinds.SERVICE_ACCOUNTS.struct: cluster.validate_service_account,
    kinds.PERSISTENT_VOLUME_CLAIMS.struct: cluster.validate_claim,
    kinds.PERSISTENT_VOLUMES.struct: volume.validate_volume,
    kinds.STORAGE_CLASSES.struct: volume.validate_storage_class,
    kinds.RESOURCE_CLAIMS.struct: cluster.validate_resource_claim,
    kinds.RESOURCE_CLAIM_TEMPLATES.struct: cluster.validate_resource_claim_template,
    kinds.DEVICE_CLASSES.struct: cluster.validate_device_class,
    kinds.RESOURCE_SLICES.struct: cluster.validate_resource_slice,
    kinds.RESOURCE_QUOTAS.struct: access.validate_quota,
    kinds.POD_DISRUPTION_BUDGETS.struct: access.validate_budget,
    kinds.NETWORK_POLICIES.struct: service.validate_network_policy,
    kinds.LIMIT_RANGES.struct: access.validate_limit_range,
    kinds.ROLES.struct: access.validate_role,
    kinds.ROLE_BINDINGS.struct: access.validate_role_binding,
    kinds.CLUSTER_ROLES.struct: access.validate_cluster_role,
    kinds.CLUSTER_ROLE_BINDINGS.struct: access.validate_cluster_role_binding,
    kinds.PRIORITY_CLASSES.struct: cluster.validate_priority_class,
    kinds.RUNTIME_CLASSES.struct: cluster.validate_runtime_class,
    kind_families.WORKLOADS.struct: workload.validate_workload,
    kind_families.WORKLOAD_POD_GROUPS.struct: workload.validate_native_pod_group,
    kind_families.COMPOSITE_POD_GROUPS.struct: workload.validate_composite_pod_group,
    kinds.LEASES.struct: cluster.validate_lease,
    kinds.CUSTOM_RESOURCE_DEFINITIONS.struct: crd.validate_crd,
    kind_families.DEPLOYMENTS.struct: workloads.validate_deployment,
    kind_families.REPLICA_SETS.struct: workloads.validate_replica_set,
    kind_families.STATEFUL_SETS.struct: workloads.validate_stateful_set,
    kind_families.DAEMON_SETS.struct: workloads.validate_daemon_set,
    kind_families.CONTROLLER_REVISIONS.struct: workloads.validate_controller_revision,
    kind_families.BATCH_JOBS.struct: batch_v1.validate_batch_job,
    kind_families.BATCH_CRON_JOBS.struct: batch_v1.validate_batch_cron_job,
    kind_families.REPLICATION_CONTROLLERS.struct: workloads.validate_replication_controller,
    kind_families.HORIZONTAL_POD_AUTOSCALERS.struct: workloads.validate_autoscaler,
    kind_families.INGRESSES.struct: service.validate_ingress,
    kind_families.INGRESS_CLASSES.struct: service.validate_ingress_class,
    MUTATING_WEBHOOKS.struct: access.validate_webhooks,
    VALIDATING_WEBHOOKS.struct: access.validate_webhooks,
    kinds.JOBS.struct: job.validate_job,
    kind_families.CRON_JOBS.struct: job.validate_cron_job,
    kind_families.JOB_FLOWS.struct: job.validate_job_flow,
    kind_families.JOB_TEMPLATES.struct: job.validate_job_template,
    kind_families.HYPER_JOBS.struct: job.validate_hyper_job,
    kind_families.ATTACHED_CLUSTERS.struct: scheduling.validate_attached_cluster,
    kind_families.FLEETS.struct: scheduling.validate_fleet,
    kind_families.APPLICATIONS.struct: scheduling.validate_application,
    kind_families.PROPAGATION_POLICIES.struct: scheduling.validate_policy,
    kind_families.CLUSTER_PROPAGATION_POLICIES.struct: scheduling.validate_policy,
    kind_families.DATA_SOURCES.struct: scheduling.validate_data_source,
    kind_families.SCALED_OBJECTS.struct: workloads.validate_scaled_object,
    kind_families.KNATIVE_SERVICES.struct: workloads.validate_knative_service,
    kinds.POD_GROUPS.struct: scheduling.validate_pod_group,
    kinds.QUEUES.struct: scheduling.validate_queue,
    kinds.HYPER_NODES.struct: scheduling.validate_hyper_node,
    kinds.RESERVATIONS.struct: scheduling.validate_reservation,
    kinds.TEMPORARY_QUOTAS.struct: scheduling.validate_temporary_quota,
    kinds.NODE_CHECKS.struct: scheduling.validate_node_check,
    kinds.FLOATING_RESOURCES.struct: scheduling.validate_floating_resource,
    kinds.BUDGETS.struct: scheduling.validate_budget,
    kinds.PRICE_LISTS.struct: scheduling.validate_price_list,
    **{kind.struct: training.validate_training_job for kind in kind_families.KUBEFLOW_KINDS},
    kind_families.JOB_SETS.struct: training.validate_job_set,
    kind_families.TRAIN_JOBS.struct: training.validate_train_job,
    kind_families.TRAINING_RUNTIMES.struct: training.validate_runtime,
    kind_families.CLUSTER_TRAINING_RUNTIMES.struct: training.validate_runtime,
    kind_families.RAY_CLUSTERS.struct: training.validate_ray_cluster,
    kind_families.RAY_JOBS.struct: training.validate_ray_job,
    kind_families.RAY_SERVICES.struct: training.validate_ray_service,
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
    notes, before = obj.metadata.annotations or {}, (old.metadata.annotations or {}) if old is not None else {}
    if notes.get(LICENSES) != before.get(LICENSES):
        errors += scheduling.validate_licenses(notes)
    if any(notes.get(key) != before.get(key) for key in (ONE_OF, ONE_OF_BY)):
        errors += validate_one_of(notes, "metadata", remade=kind is kinds.JOBS or _is_of_job(obj))
    if any(notes.get(key) != before.get(key) for key in WORDS):
        errors += validate_between(notes, "metadata")
    if old is not None:
        errors += validate_meta_update(obj.metadata, old.metadata)
    shape = shape_of(kind.struct)
    if kind.struct in _CUSTOM and shape.constrained:
        errors += validate_shape(shape, obj)
    rules = _RULES.get(kind.struct)
    if rules is not None:
        errors += rules(obj, old)
    errors += validate_bounds(kind.struct, obj, old)
    return list({error.message(): error for error in errors}.values())


def _is_of_job(obj: Object) -> bool:
    controller = controller_of(obj)
    return (
        controller is not None
        and controller.kind == kinds.JOBS.kind
        and controller.api_version.startswith(f"{kinds.JOBS.group}/")
    )

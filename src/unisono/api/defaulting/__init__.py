"""Values that a kind gets when its user leaves them out, as Kubernetes and Volcano fill them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from unisono.api import kind_families, kinds
from unisono.api.base import Object
from unisono.api.defaulting import kubeflow, pod, workloads
from unisono.api.groups.admission_registration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from unisono.api.kind import Kind

T = TypeVar("T", bound=Object)

# By struct: a kind under an alias version has the same defaults.
_DEFAULTS: dict[type[Object], Callable[[Any], None]] = {
    kinds.PODS.struct: pod.default_pod,
    kinds.NODES.struct: workloads.default_node,
    kinds.NAMESPACES.struct: workloads.default_namespace,
    kinds.SECRETS.struct: workloads.default_secret,
    kinds.SERVICES.struct: workloads.default_service,
    kinds.NETWORK_POLICIES.struct: workloads.default_network_policy,
    kinds.PERSISTENT_VOLUME_CLAIMS.struct: workloads.default_claim,
    kinds.PERSISTENT_VOLUMES.struct: workloads.default_volume,
    kinds.STORAGE_CLASSES.struct: workloads.default_storage_class,
    kinds.RESOURCE_CLAIMS.struct: workloads.default_resource_claim,
    kinds.RESOURCE_CLAIM_TEMPLATES.struct: workloads.default_resource_claim_template,
    kinds.RESOURCE_QUOTAS.struct: workloads.default_quota,
    kinds.LIMIT_RANGES.struct: workloads.default_limit_range,
    kinds.ROLE_BINDINGS.struct: workloads.default_binding,
    kinds.CLUSTER_ROLE_BINDINGS.struct: workloads.default_binding,
    kinds.PRIORITY_CLASSES.struct: workloads.default_priority_class,
    kinds.RUNTIME_CLASSES.struct: workloads.default_runtime_class,
    kinds.CUSTOM_RESOURCE_DEFINITIONS.struct: workloads.default_crd,
    kind_families.DEPLOYMENTS.struct: workloads.default_deployment,
    kind_families.REPLICA_SETS.struct: workloads.default_replica_set,
    kind_families.STATEFUL_SETS.struct: workloads.default_stateful_set,
    kind_families.DAEMON_SETS.struct: workloads.default_daemon_set,
    kind_families.BATCH_JOBS.struct: workloads.default_batch_job,
    kind_families.BATCH_CRON_JOBS.struct: workloads.default_batch_cron_job,
    kind_families.REPLICATION_CONTROLLERS.struct: workloads.default_replication_controller,
    kind_families.HORIZONTAL_POD_AUTOSCALERS.struct: workloads.default_autoscaler,
    kind_families.INGRESS_CLASSES.struct: workloads.default_ingress_class,
    MUTATING_WEBHOOKS.struct: workloads.default_webhooks,
    VALIDATING_WEBHOOKS.struct: workloads.default_webhooks,
    kinds.JOBS.struct: kubeflow.default_job,
    kind_families.CRON_JOBS.struct: kubeflow.default_cron_job,
    kind_families.JOB_FLOWS.struct: kubeflow.default_job_flow,
    kind_families.HYPER_JOBS.struct: kubeflow.default_hyper_job,
    kind_families.KNATIVE_SERVICES.struct: workloads.default_knative_service,
    kinds.POD_GROUPS.struct: kubeflow.default_pod_group,
    kinds.QUEUES.struct: kubeflow.default_queue,
    kinds.BUDGETS.struct: kubeflow.default_budget,
}


def apply_defaults(kind: Kind[T], obj: T) -> None:
    """Fill in ``obj`` in place; idempotent, and never fails on an invalid object."""
    default = _DEFAULTS.get(kind.struct)
    if default is not None:
        default(obj)

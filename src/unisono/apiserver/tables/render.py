"""``Table`` and ``PartialObjectMetadata`` documents of lists, objects and watch events."""

from __future__ import annotations

from typing import Any, Literal

from unisono.api.groups.autoscaling import HorizontalPodAutoscalerV1
from unisono.api.kind import Kind
from unisono.apiserver.tables import pods
from unisono.apiserver.tables.core import (
    BINDINGS,
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    CRDS,
    CREATED,
    DEVICE_KINDS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PRIORITY_CLASSES,
    QUOTAS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from unisono.apiserver.tables.custom import custom_layout
from unisono.apiserver.tables.pods import PODS
from unisono.apiserver.tables.values import Layout, Row
from unisono.apiserver.tables.workloads import (
    AUTOSCALERS,
    AUTOSCALERS_V1,
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    CSI_NODES,
    DAEMON_SETS,
    DEPLOYMENTS,
    INGRESS_CLASSES,
    INGRESSES,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUMES,
)

IncludeObject = Literal["None", "Metadata", "Object"]

_BUILT_IN: dict[tuple[str, str], Layout] = {
    ("", "pods"): PODS,
    ("", "nodes"): NODES,
    ("", "namespaces"): NAMESPACES,
    ("", "events"): EVENTS,
    ("", "configmaps"): CONFIG_MAPS,
    ("", "secrets"): SECRETS,
    ("", "serviceaccounts"): SERVICE_ACCOUNTS,
    ("", "services"): SERVICES,
    ("", "persistentvolumeclaims"): CLAIMS,
    ("", "persistentvolumes"): VOLUMES,
    ("storage.k8s.io", "storageclasses"): STORAGE_CLASSES,
    ("apps", "deployments"): DEPLOYMENTS,
    ("apps", "replicasets"): REPLICA_SETS,
    ("apps", "statefulsets"): STATEFUL_SETS,
    ("apps", "daemonsets"): DAEMON_SETS,
    ("apps", "controllerrevisions"): CONTROLLER_REVISIONS,
    ("batch", "jobs"): JOBS,
    ("batch", "cronjobs"): CRON_JOBS,
    ("", "replicationcontrollers"): REPLICATION_CONTROLLERS,
    ("autoscaling", "horizontalpodautoscalers"): AUTOSCALERS,
    ("networking.k8s.io", "ingresses"): INGRESSES,
    ("networking.k8s.io", "ingressclasses"): INGRESS_CLASSES,
    ("storage.k8s.io", "csinodes"): CSI_NODES,
    ("", "resourcequotas"): QUOTAS,
    ("", "limitranges"): CREATED,
    ("rbac.authorization.k8s.io", "roles"): CREATED,
    ("rbac.authorization.k8s.io", "clusterroles"): CREATED,
    ("rbac.authorization.k8s.io", "rolebindings"): BINDINGS,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): BINDINGS,
    ("policy", "poddisruptionbudgets"): BUDGETS,
    ("networking.k8s.io", "networkpolicies"): NETWORK_POLICIES,
    ("scheduling.k8s.io", "priorityclasses"): PRIORITY_CLASSES,
    ("node.k8s.io", "runtimeclasses"): RUNTIME_CLASSES,
    ("scheduling.k8s.io", "podgroups"): pods.POD_GROUPS,
    ("scheduling.k8s.io", "compositepodgroups"): pods.POD_GROUPS,
    ("scheduling.k8s.io", "workloads"): pods.WORKLOADS,
    ("coordination.k8s.io", "leases"): LEASES,
    ("resource.k8s.io", "resourceclaims"): RESOURCE_CLAIMS,
    ("resource.k8s.io", "resourceclaimtemplates"): DEVICE_KINDS,
    ("resource.k8s.io", "resourceslices"): RESOURCE_SLICES,
    ("resource.k8s.io", "deviceclasses"): DEVICE_KINDS,
    ("apiextensions.k8s.io", "customresourcedefinitions"): CRDS,
}


def layout(kind: Kind[Any]) -> Layout:
    """How a kind is shown: as Kubernetes shows its own kinds, else by printer columns."""
    if kind.struct is HorizontalPodAutoscalerV1:
        return AUTOSCALERS_V1
    return _BUILT_IN.get((kind.group, kind.plural)) or custom_layout(kind)


def partial_metadata(obj: Row, version: str) -> Row:
    """The object reduced to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata") or {},
    }


class TableWriter:
    """Renders objects of one kind; the clock's time comes with each call.

    Args:
        kind: what is shown.
        version: version of group ``meta.k8s.io`` that the client reads.
        include_object: what each row carries besides its cells.

    """

    def __init__(self, kind: Kind[Any], version: str = "v1", include_object: IncludeObject = "Metadata") -> None:
        self._layout = layout(kind)
        self._version = version
        self._include = include_object

    def table(self, objects: list[Row], metadata: Row, now: float, *, definitions: bool = True) -> Row:
        """A table of ``objects``.

        Args:
            objects: decoded objects, one row each.
            metadata: list metadata (resourceVersion, continue, remainingItemCount).
            now: Unix seconds, for ages.
            definitions: False leaves the column definitions null, as in all but the first event of a watch.

        """
        columns = [column.definition() for column in self._layout.columns] if definitions else None
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{self._version}",
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": self.rows(objects, now),
        }

    def rows(self, objects: list[Row], now: float) -> list[Row]:
        """Rows of ``objects``, of a table that is written in pieces."""
        return [self._row(obj, now) for obj in objects]

    def _row(self, obj: Row, now: float) -> Row:
        row: Row = {"cells": self._layout.cells(obj, now)}
        if self._include == "Metadata":
            row["object"] = partial_metadata(obj, self._version)
        elif self._include == "Object":
            row["object"] = obj
        return row

"""All manifests of an installation, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unisono import __version__
from unisono.api.crds import crd_manifests
from unisono.api.defaulting.kubeflow import ROOT_QUEUE
from unisono.api.keys import APP_PART_OF, HELM_RESOURCE_POLICY
from unisono.api.kinds import QUEUES
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.install.admission import policies, webhooks
from unisono.install.dashboard_server import dashboard_server
from unisono.install.monitoring import monitors
from unisono.install.numa_exporter import node_namespace, numa_exporter
from unisono.install.rights import FLEET_NAMESPACE, access
from unisono.install.workloads import IMAGE, InstallOptions, components, config_map, labels, workload


def manifests(options: InstallOptions) -> list[dict[str, Any]]:
    """Definitions first, then what the components run with, the components, and last what checks requests."""
    chosen = components(options)
    return [
        *(crd_manifests() if options.crds else ()),
        namespace(options),
        *([fleet_namespace()] if options.hub else ()),
        *([node_namespace(options)] if options.numa_exporter else ()),
        *(manifest for each in chosen for manifest in access(each.name, options)),
        config_map(options),
        *queues(),
        *(manifest for each in chosen for manifest in workload(each, options)),
        *(dashboard_server(options) if options.dashboard else ()),
        *(numa_exporter(options) if options.numa_exporter else ()),
        *(policies(webhook=options.webhook, hub=options.hub) if options.policies else ()),
        *(webhooks(options) if options.webhook else ()),
        *(monitors(options) if options.monitoring else ()),
    ]


def manifests_for_values(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All manifests for the values of a chart, as far as they are known here: the image, and nothing else.

    Args:
        values: ``image.repository`` and ``image.tag``; what Volcano's chart has besides is passed over.
    """
    image = values.get("image")
    image = image if isinstance(image, Mapping) else {}
    tag = image.get("tag") or __version__
    return manifests(InstallOptions(image=f"{image.get('repository') or IMAGE}:{tag}"))


def namespace(options: InstallOptions) -> dict[str, Any]:
    """The namespace, in which only pods without privileges run."""
    level = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": options.namespace, "labels": {APP_PART_OF: "unisono", **level}},
    }


def fleet_namespace() -> dict[str, Any]:
    """Where the hub of a fleet has its members; it is kept when the installation goes, as users' objects are in it."""
    meta = {"name": FLEET_NAMESPACE, "annotations": {HELM_RESOURCE_POLICY: "keep"}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def queues() -> list[dict[str, Any]]:
    """``root``, and ``default`` below it, for jobs that name no queue."""

    def made(name: str, **spec: Any) -> dict[str, Any]:
        # Taking the installation away must not take the users' queues away.
        meta = {"name": name, "labels": labels("queues"), "annotations": {HELM_RESOURCE_POLICY: "keep"}}
        return {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": meta, "spec": spec}

    return [
        made(ROOT_QUEUE, weight=1, reclaimable=False),
        made(DEFAULT_QUEUE, weight=1, reclaimable=True, parent=ROOT_QUEUE),
    ]

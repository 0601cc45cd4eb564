"""The kinds of ``apps/v1`` and ``batch/v1``; ``api.kinds`` lists them.

The embedded control plane runs them itself; on a cluster kube-controller-manager does.
"""

from __future__ import annotations

from typing import Any

from unisono.api import apps, batch_v1
from unisono.api.kind import Kind, Scale

_SCALE = Scale(".spec.replicas", ".status.replicas", ".spec.selector")

DEPLOYMENTS: Kind[apps.Deployment] = Kind(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    apps.Deployment,
    short_names=("deploy",),
    categories=("all",),
    status_subresource=True,
    scale=_SCALE,
)
REPLICA_SETS: Kind[apps.ReplicaSet] = Kind(
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    apps.ReplicaSet,
    short_names=("rs",),
    categories=("all",),
    status_subresource=True,
    scale=_SCALE,
)
STATEFUL_SETS: Kind[apps.StatefulSet] = Kind(
    "apps",
    "v1",
    "StatefulSet",
    "statefulsets",
    apps.StatefulSet,
    short_names=("sts",),
    categories=("all",),
    status_subresource=True,
    scale=_SCALE,
)
DAEMON_SETS: Kind[apps.DaemonSet] = Kind(
    "apps",
    "v1",
    "DaemonSet",
    "daemonsets",
    apps.DaemonSet,
    short_names=("ds",),
    categories=("all",),
    status_subresource=True,
)
CONTROLLER_REVISIONS: Kind[apps.ControllerRevision] = Kind(
    "apps", "v1", "ControllerRevision", "controllerrevisions", apps.ControllerRevision
)
BATCH_JOBS: Kind[batch_v1.BatchJob] = Kind(
    "batch", "v1", "Job", "jobs", batch_v1.BatchJob, categories=("all",), status_subresource=True
)
BATCH_CRON_JOBS: Kind[batch_v1.BatchCronJob] = Kind(
    "batch",
    "v1",
    "CronJob",
    "cronjobs",
    batch_v1.BatchCronJob,
    short_names=("cj",),
    categories=("all",),
    status_subresource=True,
)

WORKLOAD_KINDS: tuple[Kind[Any], ...] = (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    CONTROLLER_REVISIONS,
    BATCH_JOBS,
    BATCH_CRON_JOBS,
)

"""The kinds that make a fleet of clusters; ``api.kinds`` lists them."""

from __future__ import annotations

from typing import Any

from unisono.api import application, fleet
from unisono.api.kind import Kind

ATTACHED_CLUSTERS: Kind[fleet.AttachedCluster] = Kind(
    "cluster.kurator.dev",
    "v1alpha1",
    "AttachedCluster",
    "attachedclusters",
    fleet.AttachedCluster,
    categories=("kurator-dev",),
    status_subresource=True,
)
FLEETS: Kind[fleet.Fleet] = Kind(
    "fleet.kurator.dev",
    "v1alpha1",
    "Fleet",
    "fleets",
    fleet.Fleet,
    categories=("kurator-dev",),
    status_subresource=True,
)
APPLICATIONS: Kind[application.Application] = Kind(
    "apps.kurator.dev",
    "v1alpha1",
    "Application",
    "applications",
    application.Application,
    categories=("kurator-dev",),
    status_subresource=True,
)

FLEET_KINDS: tuple[Kind[Any], ...] = (ATTACHED_CLUSTERS, FLEETS, APPLICATIONS)

"""The kinds that make a fleet of clusters; ``api.kinds`` lists them."""

from __future__ import annotations

from typing import Any

from unisono.api import application, fleet, propagation
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

PROPAGATION_POLICIES: Kind[propagation.PropagationPolicy] = Kind(
    "policy.karmada.io",
    "v1alpha1",
    "PropagationPolicy",
    "propagationpolicies",
    propagation.PropagationPolicy,
    short_names=("pp",),
    categories=("karmada-io",),
)
CLUSTER_PROPAGATION_POLICIES: Kind[propagation.ClusterPropagationPolicy] = Kind(
    "policy.karmada.io",
    "v1alpha1",
    "ClusterPropagationPolicy",
    "clusterpropagationpolicies",
    propagation.ClusterPropagationPolicy,
    namespaced=False,
    short_names=("cpp",),
    categories=("karmada-io",),
)
DATA_SOURCES: Kind[propagation.DataSource] = Kind(
    "datadependency.volcano.sh",
    "v1alpha1",
    "DataSource",
    "datasources",
    propagation.DataSource,
    namespaced=False,
    status_subresource=True,
)
DATA_SOURCE_CLAIMS: Kind[propagation.DataSourceClaim] = Kind(
    "datadependency.volcano.sh",
    "v1alpha1",
    "DataSourceClaim",
    "datasourceclaims",
    propagation.DataSourceClaim,
    status_subresource=True,
)

FLEET_KINDS: tuple[Kind[Any], ...] = (ATTACHED_CLUSTERS, FLEETS, APPLICATIONS)

PLACEMENT_KINDS: tuple[Kind[Any], ...] = (
    PROPAGATION_POLICIES,
    CLUSTER_PROPAGATION_POLICIES,
    DATA_SOURCES,
    DATA_SOURCE_CLAIMS,
)
"""Kinds of other projects that say where a hub's jobs go; only a hub of our own serves them, so no cluster gets their
definitions from us."""

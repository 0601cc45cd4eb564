"""AttachedClusters, Fleets and Applications: both spellings, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.decode import decode
from unisono.api.groups.fleet import Application, AttachedCluster
from unisono.api.kind import Kind
from unisono.api.kind_families import APPLICATIONS, ATTACHED_CLUSTERS, FLEETS
from unisono.api.validation import validate

HELM = {"helmRepository": {"url": "https://charts.example.org", "interval": "10m"}}
RELEASE = {"chart": {"spec": {"chart": "volcano"}}, "interval": "30m"}
INLINE = {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}]}
GIT = {"gitRepository": {"url": "https://git.example.org/x", "interval": "10m"}}


def read(kind: Kind[Any], spec: dict[str, Any], name: str = "it") -> Any:
    decoded = decode(kind, {"metadata": {"name": name, "namespace": "fleets"}, "spec": spec})
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    return decoded.obj


def messages(kind: Kind[Any], spec: dict[str, Any], name: str = "it") -> list[str]:
    return [error.message() for error in validate(kind, read(kind, spec, name))]


def to(fleet: str, **policy: Any) -> dict[str, Any]:
    return {"destination": {"fleet": fleet}, **policy}


@pytest.mark.parametrize(
    ("spec", "name", "key"),
    [
        ({"kubeconfig": {"name": "a", "key": "k"}}, "a", "k"),
        ({"kubeconfigSecretRef": "a"}, "a", None),
        ({"kubeconfig": {"key": "k"}, "kubeconfigSecretRef": "a"}, "a", "k"),
    ],
)
def test_both_spellings_of_a_secret_mean_the_same(spec, name, key):
    cluster: AttachedCluster = read(ATTACHED_CLUSTERS, spec)
    assert (cluster.spec.secret.name, cluster.spec.secret.key) == (name, key)
    assert messages(ATTACHED_CLUSTERS, spec) == []


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (FLEETS, {}),
        (FLEETS, {"clusters": [{"name": "a", "type": "Attached"}, {"name": "b", "kind": "AttachedCluster"}]}),
        (FLEETS, {"clusters": [{"name": "a", "namespace": "fleets"}], "plugin": {"metric": {"thanos": {}}}}),
        (APPLICATIONS, {"source": HELM, "syncPolicies": [to("f", helm=RELEASE)]}),
        (APPLICATIONS, {"source": HELM, "destination": {"fleet": "f"}, "syncPolicies": [{"helm": RELEASE}]}),
        (APPLICATIONS, {"source": INLINE, "syncPolicies": [to("f")]}),
        (APPLICATIONS, {"source": GIT, "syncPolicies": [to("f", kustomization={"path": "./x", "prune": True})]}),
    ],
)
def test_what_is_accepted(kind, spec):
    assert messages(kind, spec) == []


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (ATTACHED_CLUSTERS, {}, "spec.kubeconfig.name: Required value: must be set"),
        (
            ATTACHED_CLUSTERS,
            {"kubeconfig": {"name": "a"}, "kubeconfigSecretRef": "b"},
            'spec.kubeconfigSecretRef: Invalid value: "b": must be the same as spec.kubeconfig.name (a)',
        ),
        (FLEETS, {"clusters": [{"type": "Attached"}]}, "spec.clusters[0].name: Required value"),
        (FLEETS, {"clusters": [{"name": "a"}, {"name": "a"}]}, "spec.clusters[1].name: Duplicate value"),
        (
            FLEETS,
            {"clusters": [{"name": "a", "type": "Cluster"}]},
            'spec.clusters[0].type: Unsupported value: "Cluster"',
        ),
        (FLEETS, {"clusters": [{"name": "a", "namespace": "b"}]}, "must be the namespace of the fleet (fleets)"),
        (APPLICATIONS, {"source": {}, "syncPolicies": [to("f")]}, "spec.source: Required value: exactly one of"),
        (
            APPLICATIONS,
            {"source": HELM | GIT, "syncPolicies": [to("f")]},
            "spec.source: Required value: exactly one of",
        ),
        (APPLICATIONS, {"source": HELM, "syncPolicies": [to("f")]}, "helm or kustomization must be set"),
        (APPLICATIONS, {"source": INLINE, "syncPolicies": [to("f", helm=RELEASE)]}, "inline manifests need no chart"),
        (
            APPLICATIONS,
            {"source": HELM, "syncPolicies": [{"helm": RELEASE}]},
            "must be set when application.spec.destination.fleet is not set",
        ),
        (
            APPLICATIONS,
            {"source": HELM, "syncPolicies": [to("a", helm=RELEASE), to("b", helm=RELEASE)]},
            "must be same as firstPolicyFleet:a",
        ),
        (
            APPLICATIONS,
            {"source": HELM, "destination": {"fleet": "a"}, "syncPolicies": [to("b", helm=RELEASE)]},
            "must be same as application.spec.destination.fleet:a",
        ),
    ],
)
def test_what_is_refused(kind, spec, message):
    assert any(message in each for each in messages(kind, spec)), messages(kind, spec)


def test_the_name_of_a_cluster_is_short():
    spec = {"kubeconfigSecretRef": "a"}
    assert messages(ATTACHED_CLUSTERS, spec, "n" * 63) == []
    assert "metadata.name" in messages(ATTACHED_CLUSTERS, spec, "n" * 64)[0]


def test_values_of_a_chart_are_kept():
    values = {"scheduler": {"defaultSchedulerName": "volcano"}, "controllers": {"enabled": ["queue", "job"]}}
    spec = {"source": HELM, "syncPolicies": [to("f", helm=RELEASE | {"values": values})]}
    application: Application = read(APPLICATIONS, spec)
    assert application.spec.sync_policies[0].helm.values == values

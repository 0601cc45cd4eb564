"""What joining a member writes: an account with few rights in the member, and its kubeconfig on the hub (pure)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import yaml

from unisono.api import rbac
from unisono.api.annotations import PRICES
from unisono.api.fleet_kinds import ATTACHED_CLUSTERS, FLEETS
from unisono.api.held_room import NAMESPACE
from unisono.api.keys import TOPOLOGY_REGION
from unisono.api.kind import Kind
from unisono.api.kinds import COMMANDS, EVENTS, HYPER_NODES, NAMESPACES, NODES, PODS, QUEUES
from unisono.errors import ConfigError
from unisono.fleet.jobs.work import KINDS
from unisono.jobkinds.registry import DIVIDED
from unisono.kube.kubeconfig import ClusterConfig

ACCOUNT = "unisono-hub"
"""Name of the service account in a member, and of its role and binding."""
ACCOUNT_NAMESPACE = NAMESPACE
FLEET_NAMESPACE = "kurator-fleet-system"
"""Where a hub keeps its AttachedClusters unless it is told otherwise."""
TOKEN_SECONDS = 365 * 24 * 3600


def rules() -> list[dict[str, Any]]:
    """What a hub may do in a member: read nodes, networks and pods; write queues, its jobs, and orders to jobs."""
    return [
        _rule("get list watch", NODES, HYPER_NODES, PODS, EVENTS),
        _rule("get", PODS, sub="log"),
        _rule("create get", PODS, sub="exec"),
        _rule("create get", PODS, sub="attach"),
        _rule("get create", NAMESPACES),
        _rule("get list watch create patch delete", QUEUES, *KINDS),
        *(_rule("get list watch create patch delete", kind) for kind in DIVIDED),
        _rule("create", COMMANDS),
    ]


def _rule(verbs: str, *kinds: Kind[Any], sub: str = "") -> dict[str, Any]:
    tail = f"/{sub}" if sub else ""
    return {
        "apiGroups": sorted({kind.group for kind in kinds}),
        "resources": sorted({f"{kind.plural}{tail}" for kind in kinds}),
        "verbs": verbs.split(),
    }


def account(*, applications: bool = False) -> list[dict[str, Any]]:
    """The objects that a member gets, in order.

    Args:
        applications: Applications may bring objects of any kind: the account may do everything in the member.

    """
    group = rbac.GROUP
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": ACCOUNT_NAMESPACE}
    everything = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{ACCOUNT}-applications"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [subject],
    }
    # What Applications have brought, and the room held for gangs, stand in ConfigMaps beside the account.
    records = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]}
    own = {"name": ACCOUNT, "namespace": ACCOUNT_NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ACCOUNT_NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": ACCOUNT_NAMESPACE},
        },
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": rules()},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [subject],
        },
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": own, "rules": [records]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": own,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT},
            "subjects": [subject],
        },
        *([everything] if applications else []),
    ]


def token_path() -> str:
    """Where a token of the account is asked for."""
    return f"/api/v1/namespaces/{ACCOUNT_NAMESPACE}/serviceaccounts/{ACCOUNT}/token"


def hub_kubeconfig(member: ClusterConfig, token: str) -> str:
    """The kubeconfig that the hub keeps: the member's address and authority, and the account's token.

    Raises:
        ConfigError: the member's address or authority cannot be used from elsewhere.

    """
    if not member.server.startswith("https://"):
        raise ConfigError(f"the member's server must be https://, not {member.server}")
    if member.insecure:
        raise ConfigError("the member's kubeconfig trusts any certificate: give it a certificate-authority")
    cluster: dict[str, Any] = {"server": member.server}
    if member.ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(member.ca).decode()
    if member.tls_server_name:
        cluster["tls-server-name"] = member.tls_server_name
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "member",
            "contexts": [{"name": "member", "context": {"cluster": "member", "user": ACCOUNT}}],
            "clusters": [{"name": "member", "cluster": cluster}],
            "users": [{"name": ACCOUNT, "user": {"token": token}}],
        },
        sort_keys=False,
    )


def hub_objects(
    name: str,
    namespace: str,
    kubeconfig: str,
    *,
    labels: Mapping[str, str] | None = None,
    region: str = "",
    prices: str = "",
) -> list[dict[str, Any]]:
    """Namespace, Secret and AttachedCluster of a member on its hub, in order."""
    marks = {**(labels or {}), **({TOPOLOGY_REGION: region} if region else {})}
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "labels": marks}
    if prices:
        meta["annotations"] = {PRICES: prices}
    secret = f"{name}-kubeconfig"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret, "namespace": namespace},
            "data": {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()},
        },
        {
            "apiVersion": ATTACHED_CLUSTERS.api_version,
            "kind": ATTACHED_CLUSTERS.kind,
            "metadata": meta,
            "spec": {"kubeconfig": {"name": secret, "key": "kubeconfig"}},
        },
    ]


def fleet_with(name: str, namespace: str, members: list[str]) -> dict[str, Any]:
    """A Fleet of these members."""
    return {
        "apiVersion": FLEETS.api_version,
        "kind": FLEETS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusters": [{"name": member, "kind": ATTACHED_CLUSTERS.kind} for member in members]},
    }

"""Joining a member: an account in it, its kubeconfig on the hub, and what a hub accepts of one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import structlog
import yaml

from unisono.api.annotations import PRICES
from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Namespace
from unisono.api.gang_parts import NAMESPACE
from unisono.api.groups import access
from unisono.api.groups.autoscaling import MACHINE_DEPLOYMENTS, NODE_POOLS
from unisono.api.keys import TOPOLOGY_REGION
from unisono.api.kind import Kind
from unisono.api.kind_families import ATTACHED_CLUSTERS, FLEETS
from unisono.api.kinds import COMMANDS, EVENTS, HYPER_NODES, NAMESPACES, NODES, PODS, QUEUES
from unisono.errors import AlreadyExists, ApiError, ConfigError, Conflict, Invalid, NotFound
from unisono.fleet.jobs.copies import Copy
from unisono.fleet.jobs.work import KINDS
from unisono.fleet.members.member import Busy, Member
from unisono.jobkinds.registry import DIVIDED, foreign
from unisono.kube.client import Client
from unisono.kube.kubeconfig import ClusterConfig, from_mapping

# Objects of the hub in members: brought for the first time, and taken away.

# Objects of the hub, brought to a member for the first time.


async def bring(client: Client, kind: Kind[Any], copied: Object) -> None:
    """Make an object in a member, and its namespace where there is none.

    Raises:
        AlreadyExists: something has its name.
        Invalid: the member's API has no such kind.
    """
    namespace = copied.metadata.namespace or ""
    try:
        await client.create(kind, copied)
        return
    except NotFound:
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=namespace)))
    try:
        await client.create(kind, copied)
    except NotFound:
        raise Invalid(f"its API has no {kind.resource}") from None


async def namesake(client: Client, kind: Kind[Any], copied: Object, marks: Collection[str]) -> bool:
    """Whether another's object has the name of a copy: not our copy that the watch does not show yet.

    Args:
        client: of the member.
        kind: of the copy.
        copied: what was to be made.
        marks: labels by which a copy is recognised.
    """
    meta = copied.metadata
    existing = await client.get(kind, meta.name, meta.namespace)
    labels, own = existing.metadata.labels or {}, meta.labels or {}
    return any(labels.get(key) != own[key] for key in marks if key in own)


def name_taken(member: str, kind: Kind[Any]) -> str:
    """What is told of a `namesake`."""
    return f"member {member} has another {kind.kind} of this name; delete it there or rename this one"


def is_refusal(error: ApiError) -> bool:
    """Whether the same request will be refused again."""
    return error.code < 500 and error.code != 429


# Copies of the hub's objects, deleted in members.

_BUSY_SECONDS: Final = 1.0
_KEPT_SECONDS: Final = 30.0
"""A copy that its member refuses to delete is tried again after so long."""

_log = structlog.get_logger(__name__)


async def remove_copies(
    copies: Iterable[Copy], members: Callable[[str], Member | None], again: Callable[[str, float], None]
) -> None:
    """Delete copies; one that its member keeps does not stand in the way of the others.

    Args:
        copies: those to delete; copies of members without a connection are left.
        members: the connection to a member.
        again: looks at a key (``namespace/name``) once more after some seconds.

    Raises:
        ApiError: a member did not answer, or not as it should.
    """
    for copy in copies:
        member = members(copy.cluster)
        if member is None:
            continue
        key = f"{copy.namespace}/{copy.name}"
        try:
            async with member.writing() as client:
                await client.delete(copy.kind, copy.name, copy.namespace, uid=copy.uid, propagation="Background")
        except (NotFound, Conflict):
            continue  # it is gone, or another has its name
        except Busy:
            again(key, _BUSY_SECONDS)
        except ApiError as error:
            if not is_refusal(error):
                raise
            _log.warning("copy.kept", member=copy.cluster, copy=key, error=str(error))
            again(key, _KEPT_SECONDS)


# One kubeconfig over a hub and its members, each a context by its name (pure).


def merged(configs: Mapping[str, ClusterConfig], current: str) -> dict[str, Any]:
    """The kubeconfig.

    Args:
        configs: how each cluster is reached, by the name of its context.
        current: the context that is used where none is named.
    """
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": name, "cluster": _cluster(each)} for name, each in configs.items()],
        "users": [{"name": name, "user": _user(each)} for name, each in configs.items()],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": each.namespace or "default"}}
            for name, each in configs.items()
        ],
    }


def _cluster(config: ClusterConfig) -> dict[str, Any]:
    entry: dict[str, Any] = {"server": config.server}
    if config.ca is not None:
        entry["certificate-authority-data"] = base64.b64encode(config.ca).decode()
    if config.tls_server_name:
        entry["tls-server-name"] = config.tls_server_name
    return entry


def _user(config: ClusterConfig) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if config.token:
        entry["token"] = config.token
    if config.client_certificate is not None and config.client_key is not None:
        entry["client-certificate-data"] = base64.b64encode(config.client_certificate).decode()
        entry["client-key-data"] = base64.b64encode(config.client_key).decode()
    return entry


# Kubeconfigs of members, as Secrets hold them: what a hub accepts, and why it refuses the rest (pure).
#
# A kubeconfig comes from users who may write Secrets, and is used by the hub, which has more rights. It must therefore
# neither start a program, nor name files of the hub, nor trust any certificate.

KEYS = ("value", "kubeconfig", "config")
"""Entries of a Secret that are looked for where none is named."""
MOST_BYTES = 1024 * 1024

_TOKEN = "put a token or a client certificate of a service account into it ('unisono fleet join' makes one)"  # noqa: S105  # nosec B105 # advice
_FLATTEN = "('kubectl config view --flatten --raw' writes it)"
_USER_REFUSALS = {
    "exec": f"starts a program: {_TOKEN}",
    "auth-provider": f"uses a log-in plug-in: {_TOKEN}",
    "tokenFile": "names a file: use 'token' with its content",
    "client-certificate": f"names a file: use 'client-certificate-data' {_FLATTEN}",
    "client-key": f"names a file: use 'client-key-data' {_FLATTEN}",
    "password": f"uses a password: {_TOKEN}",
    "username": f"uses a password: {_TOKEN}",
}
_CLUSTER_REFUSALS = {
    "certificate-authority": f"names a file: use 'certificate-authority-data' {_FLATTEN}",
    "insecure-skip-tls-verify": "trusts any certificate: use 'certificate-authority-data'",
}


def member_config(data: Mapping[str, str], key: str | None, source: str) -> ClusterConfig:
    """Address and credentials of a member.

    Args:
        data: the Secret's ``data``: entry to base64.
        key: entry that holds the kubeconfig; None looks for it.
        source: what messages call the Secret.

    Raises:
        ConfigError: there is no kubeconfig, it is broken, or a hub must not use it; says what to do instead.
    """
    value = _decoded(_entry(data, key, source), source)
    refused = refusals(value)
    if refused:
        raise ConfigError(f"the hub refuses this kubeconfig: {'; '.join(refused)}", file=source)
    config = from_mapping(value, source)
    if config.server.startswith("http://"):
        raise ConfigError("the hub refuses this kubeconfig: its server must be https://", file=source)
    if not config.token and config.client_certificate is None:
        raise ConfigError(f"this kubeconfig has no credentials: {_TOKEN}", file=source)
    return config


def refusals(kubeconfig: Mapping[str, Any]) -> list[str]:
    """Why a hub must not use a kubeconfig, one sentence for each entry; empty when it may."""
    return [
        *_refused(kubeconfig, "users", "user", _USER_REFUSALS),
        *_refused(kubeconfig, "clusters", "cluster", _CLUSTER_REFUSALS),
    ]


def _refused(kubeconfig: Mapping[str, Any], section: str, inner: str, rules: Mapping[str, str]) -> list[str]:
    problems = []
    entries = kubeconfig.get(section)
    for entry in entries if isinstance(entries, list) else ():
        named: dict[str, Any] = entry if isinstance(entry, dict) else {}
        given = named.get(inner)
        body: dict[str, Any] = given if isinstance(given, dict) else {}
        for name, why in rules.items():
            if body.get(name):
                problems.append(f"{section}[{named.get('name', '')}].{name} {why}")
    return problems


def _entry(data: Mapping[str, str], key: str | None, source: str) -> str:
    if key:
        if key not in data:
            have = ", ".join(sorted(data)) or "none"
            raise ConfigError(f"the Secret has no entry {key}; it has {have}", file=source)
        return data[key]
    for candidate in KEYS:
        if candidate in data:
            return data[candidate]
    if len(data) == 1:
        return next(iter(data.values()))
    raise ConfigError(
        f"the Secret has no entry value, kubeconfig or config: name one of {', '.join(sorted(data)) or 'its entries'} "
        "in spec.kubeconfig.key",
        file=source,
    )


def _decoded(text: str, source: str) -> dict[str, Any]:
    if len(text) > MOST_BYTES * 4 // 3:
        raise ConfigError(f"the kubeconfig is larger than {MOST_BYTES} bytes", file=source)
    try:
        value = yaml.safe_load(base64.b64decode(text, validate=True).decode())
    except (binascii.Error, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError("this is no kubeconfig: it is no YAML in UTF-8", file=source) from error
    if not isinstance(value, dict):
        raise ConfigError("this is no kubeconfig: it is no mapping", file=source)
    return value


# What joining a member writes: an account with few rights in the member, and its kubeconfig on the hub (pure).

ACCOUNT = "unisono-hub"
"""Name of the service account in a member, and of its role and binding."""
ACCOUNT_NAMESPACE = NAMESPACE
FLEET_NAMESPACE = "kurator-fleet-system"
"""Where a hub keeps its AttachedClusters unless it is told otherwise."""
TOKEN_SECONDS = 365 * 24 * 3600


def rules(resources: Collection[str] = ()) -> list[dict[str, Any]]:
    """What a hub may do in a member: read nodes, networks and pods; write queues, jobs and orders; export Services."""
    return [
        _rule("get list watch", NODES, HYPER_NODES, PODS, EVENTS),
        _rule("get list watch", MACHINE_DEPLOYMENTS),
        _rule("get list watch", NODE_POOLS),
        _rule("get", PODS, sub="log"),
        _rule("create get", PODS, sub="exec"),
        _rule("create get", PODS, sub="attach"),
        _rule("create get", PODS, sub="portforward"),
        _rule("get create", NAMESPACES),
        _rule("get list watch create patch delete", QUEUES, *KINDS),
        *(_rule("get list watch create patch delete", kind) for kind in DIVIDED),
        *(_rule("get list watch create patch delete", each.kind) for each in foreign() if each.fleet),
        _rule("create", COMMANDS),
        *(_rule_of(resource) for resource in sorted(resources)),
        {"apiGroups": ["multicluster.x-k8s.io"], "resources": ["serviceexports"], "verbs": ["create"]},
    ]


def _rule(verbs: str, *kinds: Kind[Any], sub: str = "") -> dict[str, Any]:
    tail = f"/{sub}" if sub else ""
    return {
        "apiGroups": sorted({kind.group for kind in kinds}),
        "resources": sorted({f"{kind.plural}{tail}" for kind in kinds}),
        "verbs": verbs.split(),
    }


def _rule_of(resource: str) -> dict[str, Any]:
    """What a hub does with jobs of a kind of the member's own, such as ``swarms.example.com``."""
    plural, _, group = resource.partition(".")
    return {"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch", "create", "patch", "delete"]}


def account(*, applications: bool = False, resources: Collection[str] = ()) -> list[dict[str, Any]]:
    """The objects that a member gets, in order.

    Args:
        applications: Applications may bring objects of any kind: the account may do everything in the member.
        resources: of kinds that tables on the hub's definitions describe.
    """
    group = access.GROUP
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
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": ACCOUNT_NAMESPACE}},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": rules(resources)},
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

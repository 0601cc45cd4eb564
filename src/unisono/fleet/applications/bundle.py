"""What of an Application goes where: its policies by cluster, and the objects of one policy in order (pure)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from unisono.api.annotations import APPLICATION, HUB
from unisono.api.groups.fleet import Application, AttachedCluster, Fleet, SyncPolicy
from unisono.api.times import duration_or_none
from unisono.errors import AlreadyExists, ConfigError, NotFound
from unisono.fleet.members.member import Member
from unisono.kube.clock import Clock
from unisono.kube.discovery import Resource, ResourceMap, UnknownKind, discover, request_json

# The objects of one policy, checked and marked, in the order in which a cluster needs them (pure).

APP_NAME_LABEL: Final = "apps.kurator.dev/app-name"
MOST_OBJECTS: Final = 1000
"""Objects of one policy."""
MOST_BYTES: Final = 16 * 1024**2
"""Size of all objects of one policy, as JSON."""

# What others need comes first; what checks the requests of others comes last. Helm's order, shortened.
_FIRST = (
    "Namespace", "CustomResourceDefinition", "PriorityClass", "ResourceQuota", "LimitRange", "ServiceAccount", "Secret",
    "ConfigMap", "StorageClass", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service",
)  # fmt: skip
_LAST = (
    "APIService",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
_RANKS = {kind: rank - len(_FIRST) for rank, kind in enumerate(_FIRST)} | {
    kind: rank + 1 for rank, kind in enumerate(_LAST)
}


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """Name of an object in a cluster; cluster-scoped objects have an empty namespace."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """As messages name it: ``Queue training``, ``ConfigMap web/settings``."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def rank(kind: str) -> int:
    """Place of a kind: negative before the ordinary ones, positive after them."""
    return _RANKS.get(kind, 0)


def bundle(
    objects: Sequence[Mapping[str, Any]],
    *,
    hub: str,
    application: str,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Objects ready to be applied, with the marks by which they are known later.

    Args:
        objects: as written or rendered; a ``List`` stands for its items.
        hub: identity of the hub.
        application: ``NAMESPACE/NAME``.
        namespace: namespace for all objects that have one, whatever they say; each keeps its own without it.
        labels: for all objects (``commonMetadata``).
        annotations: likewise.

    Raises:
        ConfigError: an object cannot be applied, or there are too many.
    """
    bundled: list[dict[str, Any]] = []
    seen: set[tuple[str, str, str, str]] = set()
    for place, value in _flat(objects):
        meta = _metadata(value, place)
        made = copy.deepcopy(dict(value))
        made.pop("status", None)
        made["metadata"] = meta
        if namespace and value["kind"] != "Namespace":
            meta["namespace"] = namespace
        name = application.rpartition("/")[2][:63]
        meta["labels"] = {**(meta.get("labels") or {}), **(labels or {}), HUB: hub, APP_NAME_LABEL: name}
        meta["annotations"] = {**(meta.get("annotations") or {}), **(annotations or {}), APPLICATION: application}
        key = (value["apiVersion"], value["kind"], meta.get("namespace") or "", meta["name"])
        if key in seen:
            raise ConfigError(f"{place}: {value['kind']} {meta['name']} is there twice")
        seen.add(key)
        bundled.append(made)
        if len(bundled) > MOST_OBJECTS:
            raise ConfigError(f"a policy may have {MOST_OBJECTS} objects at most: divide it")
    if sum(len(json.dumps(each)) for each in bundled) > MOST_BYTES:
        raise ConfigError(f"the objects of a policy may have {MOST_BYTES // 1024**2} MiB at most: divide it")
    return sorted(bundled, key=lambda each: rank(each["kind"]))


def belongs_to(live: Mapping[str, Any], application: str, hub: str) -> bool:
    """Whether an object of a cluster was brought by this Application of this hub, or was handed over to it."""
    meta = live.get("metadata") or {}
    marked = (meta.get("annotations") or {}).get(APPLICATION) == application
    return marked and (meta.get("labels") or {}).get(HUB, hub) == hub


def _flat(objects: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    flattened: list[tuple[str, Mapping[str, Any]]] = []
    for index, value in enumerate(objects):
        place = f"object {index}"
        if not isinstance(value, Mapping):
            raise ConfigError(f"{place}: is no Kubernetes object but {type(value).__name__}")
        items = value.get("items")
        if str(value.get("kind", "")).endswith("List") and isinstance(items, list):
            flattened += [(f"{place}.items[{number}]", item) for number, item in enumerate(items)]
        else:
            flattened.append((place, value))
    return flattened


def _metadata(value: Mapping[str, Any], place: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{place}: is no Kubernetes object but {type(value).__name__}")
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise ConfigError(f"{place}: {key} must be set")
    meta = value.get("metadata")
    if not isinstance(meta, Mapping) or not isinstance(meta.get("name"), str) or not meta["name"]:
        raise ConfigError(
            f"{place}: metadata.name of the {value['kind']} must be set; generateName is not possible here"
        )
    for key in ("labels", "annotations"):
        if meta.get(key) is not None and not isinstance(meta[key], Mapping):
            raise ConfigError(f"{place}: metadata.{key} of the {value['kind']} must be a map of texts")
    if meta.get("namespace") is not None and not isinstance(meta["namespace"], str):
        raise ConfigError(f"{place}: metadata.namespace of the {value['kind']} must be a text")
    written_by_the_server = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
    return {key: each for key, each in copy.deepcopy(dict(meta)).items() if key not in written_by_the_server}


# Which policy of an Application goes to which cluster: a function of the Application, its Fleet and the clusters.

DEFAULT_INTERVAL: Final = 600.0
"""Seconds between two looks at what a policy brought, where the policy names no interval."""
SHORTEST_INTERVAL: Final = 10.0
MOST_PLACES: Final = 4000
"""Policies times clusters of one Application: its status names each."""


@dataclass(frozen=True, slots=True, order=True)
class PlacedPolicy:
    """One policy in one cluster.

    Attributes:
        cluster: name of the AttachedCluster.
        policy: name of the policy, or ``NAME-INDEX`` where it has none.
    """

    cluster: str
    policy: str


@dataclass(frozen=True, slots=True)
class Destinations:
    """What goes where.

    Attributes:
        places: with the index of each place's policy, in the order of the policies, and of the clusters in the Fleet.
        problem: why nothing can be said, such as a Fleet that does not exist; then there are no places, and what was
            brought before stays.
    """

    places: Mapping[PlacedPolicy, int] = field(default_factory=dict)
    problem: str = ""

    def of(self, cluster: str) -> list[PlacedPolicy]:
        """The places in one cluster, in the order of the policies."""
        return [each for each in self.places if each.cluster == cluster]


def destinations(
    application: Application, fleets: Callable[[str], Fleet | None], clusters: Callable[[str], AttachedCluster | None]
) -> Destinations:
    """Where the policies go.

    Args:
        application: what to bring.
        fleets: finds a Fleet by its key.
        clusters: finds an AttachedCluster by its key.
    """
    namespace = application.metadata.namespace
    places: dict[PlacedPolicy, int] = {}
    for index, policy in enumerate(application.spec.sync_policies or ()):
        destination = policy.destination or application.spec.destination
        name = destination.fleet if destination is not None else ""
        fleet = fleets(f"{namespace}/{name}")
        if destination is None or fleet is None:
            return Destinations(problem=f'there is no Fleet "{name}" in the namespace {namespace}')
        labels = (destination.cluster_selector.match_labels if destination.cluster_selector else None) or {}
        for cluster in _chosen(fleet, labels, clusters):
            places.setdefault(PlacedPolicy(cluster, policy_name(application, index)), index)
    if len(places) > MOST_PLACES:
        return Destinations(problem=f"its policies go to {len(places)} places, more than {MOST_PLACES}: divide it")
    return Destinations(places)


def policy_name(application: Application, index: int) -> str:
    """Name of a policy; unnamed ones are called as Kurator calls them."""
    policy = (application.spec.sync_policies or ())[index]
    return policy.name or f"{application.metadata.name}-{index}"


def interval(policy: SyncPolicy) -> float:
    """Seconds after which a policy's source is read again and its objects are compared with the cluster's."""
    written = policy.helm.interval if policy.helm else policy.kustomization.interval if policy.kustomization else None
    return max(SHORTEST_INTERVAL, duration_or_none(written) or DEFAULT_INTERVAL)


def prunes(policy: SyncPolicy) -> bool:
    """Whether objects that are no longer wanted are deleted: yes, unless the policy says ``prune: false``."""
    return policy.kustomization is None or policy.kustomization.prune is not False


def suspended(application: Application, policy: SyncPolicy) -> bool:
    """Whether the policy, or the source of the Application, is suspended."""
    source = application.spec.source
    sources = (source.helm_repository, source.git_repository, source.oci_repository)
    parts = (policy.helm, policy.kustomization, *sources)
    return any(part is not None and part.suspend is True for part in parts)


def waits_for(policy: SyncPolicy) -> list[str]:
    """Names of the policies that must be in a cluster before this one (``dependsOn``)."""
    part = policy.helm or policy.kustomization
    listed = (part.depends_on if part is not None else None) or ()
    return [str(each["name"]) for each in listed if isinstance(each, Mapping) and each.get("name")]


def _chosen(
    fleet: Fleet, labels: Mapping[str, str], clusters: Callable[[str], AttachedCluster | None]
) -> Iterator[str]:
    for member in fleet.spec.clusters or ():
        if not labels:
            yield member.name or ""
            continue
        cluster = clusters(f"{fleet.metadata.namespace}/{member.name}")
        cluster_labels = (cluster.metadata.labels or {}) if cluster is not None else {}
        if all(cluster_labels.get(key) == value for key, value in labels.items()):
            yield member.name or ""


# A cluster as Applications need it: any kind of object, read, applied and deleted by name.

FIELD_MANAGER: Final = "unisono-application"
# Seconds for which what a member serves is taken as known; an unknown kind has it asked at once, but not more often.
_KNOWN_SECONDS, _UNKNOWN_SECONDS = 300.0, 2.0


class ClusterTarget(Protocol):
    """One cluster; all methods raise ``ApiError`` on refusal, and ``UnknownKind`` for a kind that it does not serve."""

    async def locate(self, manifest: Mapping[str, Any], namespace: str) -> Ref:
        """Name of a manifest's object; one of a namespaced kind that says none is in ``namespace``."""
        ...

    async def get(self, ref: Ref) -> dict[str, Any] | None:
        """The object as it is, None where there is none."""
        ...

    async def apply(self, ref: Ref, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side apply; the fields of the manifest are ours from then on."""
        ...

    async def delete(self, ref: Ref, uid: str) -> None:
        """Delete this incarnation; one that is gone is no error."""
        ...

    @property
    def version(self) -> str:
        """What the cluster's API server calls itself."""
        ...

    async def need_namespace(self, name: str) -> None:
        """Make a namespace that is not there."""
        ...


Targets = Callable[[Member, Clock], ClusterTarget]


class HttpTarget:
    """A member behind its API server."""

    def __init__(self, member: Member, clock: Clock) -> None:
        """Requests go through the bounded writes of the member."""
        self._member, self._clock = member, clock
        self._resources: ResourceMap | None = None
        self._read = -float("inf")

    async def locate(self, manifest: Mapping[str, Any], namespace: str) -> Ref:
        """See `Target`."""
        api_version, kind, meta = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        resource = await self._resource(api_version, kind)
        where = (meta.get("namespace") or namespace) if resource.namespaced else ""
        return Ref(api_version, kind, where, meta["name"])

    async def get(self, ref: Ref) -> dict[str, Any] | None:
        """See `Target`."""
        path = await self._path(ref)
        try:
            async with self._member.writing() as client:
                obj: dict[str, Any] = await request_json(client, "GET", path)
        except NotFound:
            return None
        return obj

    async def apply(self, ref: Ref, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """See `Target`."""
        path = await self._path(ref)
        meta = dict(manifest["metadata"])
        meta.pop("namespace", None)
        if ref.namespace:
            meta["namespace"] = ref.namespace
        params = {"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
        async with self._member.writing() as client:
            done: dict[str, Any] = await request_json(
                client,
                "PATCH",
                path,
                body={**manifest, "metadata": meta},
                params=params,
                content_type="application/apply-patch+yaml",
            )
        return done

    async def delete(self, ref: Ref, uid: str) -> None:
        """See `Target`."""
        path = await self._path(ref)
        options = {"propagationPolicy": "Background", **({"preconditions": {"uid": uid}} if uid else {})}
        try:
            async with self._member.writing() as client:
                await request_json(client, "DELETE", path, body=options)
        except NotFound:
            return

    @property
    def version(self) -> str:
        """See `Target`."""
        return self._member.version

    async def need_namespace(self, name: str) -> None:
        """See `Target`."""
        ref = Ref("v1", "Namespace", "", name)
        if await self.get(ref) is not None:
            return
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            async with self._member.writing() as client:
                await request_json(client, "POST", "/api/v1/namespaces", body=body)
        except AlreadyExists:
            pass

    async def _path(self, ref: Ref) -> str:
        resource = await self._resource(ref.api_version, ref.kind)
        return resource.path(ref.namespace or None, ref.name)

    async def _resource(self, api_version: str, kind: str) -> Resource:
        age = self._clock.monotonic() - self._read
        if self._resources is None or age > _KNOWN_SECONDS:
            await self._discover()
        for attempt in (0, 1):
            assert self._resources is not None
            try:
                return self._resources.of(api_version, kind)
            except UnknownKind:
                if attempt or age < _UNKNOWN_SECONDS:
                    raise
                await self._discover()
        raise AssertionError("unreachable")

    async def _discover(self) -> None:
        async with self._member.writing() as client:
            self._resources = await discover(client)
        self._read = self._clock.monotonic()

"""Brings the manifests of an installation to a cluster, and takes an installation from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.api.keys import APP_PART_OF
from unisono.errors import ApiError, Invalid, NotFound, Unavailable, UnisonoError
from unisono.install.numa_exporter import NAME as NUMA_EXPORTER
from unisono.kube.discovery import Resource, ResourceMap, UnknownKind, discover, request_json

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

# Bring the manifests of an installation to a cluster, by server-side apply and in order.

MANAGER = "unisono-install"
_APPLY = "application/apply-patch+yaml"
# What an API server says of a webhook that it cannot ask.
_SILENT = "failed calling webhook"
_TIMEOUT = 504
# A definition is served within a second or two of its creation.
_TRIES, _PAUSE = 60, 0.5
# Waits before a manifest is applied again that a busy server did not get through with.
_PAUSES = (1.0, 2.0, 4.0, 8.0)


class NotServed(UnisonoError):
    """The cluster does not serve a definition that was applied."""


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one manifest; ``note`` says why it was not looked at."""

    title: str
    action: str
    note: str = ""

    @property
    def line(self) -> str:
        """``deployment.apps/unisono-scheduler applied``."""
        return f"{self.title} {self.action}" + (f" ({self.note})" if self.note else "")


async def install(client: HttpClient, manifests: Sequence[dict[str, Any]], *, dry_run: bool) -> AsyncIterator[Step]:
    """Apply the manifests one after the other.

    With ``dry_run`` the server checks and stores nothing; what needs a kind or a namespace that an earlier manifest
    would have made is told as not checked.

    Raises:
        ApiError: the server refuses a manifest; what was applied before it stays.
        UnknownKind: the server does not serve a kind.
        NotServed: definitions were applied, and the server does not serve them.
    """
    resources = await discover(client)
    made: set[str] = set()
    defined: list[tuple[str, str]] = []
    for manifest in manifests:
        if defined and manifest["kind"] != "CustomResourceDefinition":
            if not dry_run:
                resources = await _served(client, defined)
            defined = []
        name, meta = title(manifest), manifest["metadata"]
        try:
            resource = resources.of(manifest["apiVersion"], manifest["kind"])
            if manifest["kind"] == "Queue" and await _exists(client, resource, meta["name"]):
                # Its weight and limits are the users' to set, and those of an earlier scheduler stay.
                yield Step(name, "kept", "as it is")
                continue
            await _apply(client, resource, manifest, dry_run=dry_run)
        except (UnknownKind, NotFound) as error:
            if not dry_run or not _expected(manifest, error, made):
                raise
            yield Step(name, "not checked", "needs what this installation makes")
            continue
        except ApiError as error:
            if manifest["kind"] == "Queue" and _SILENT in error.message:
                # Of an earlier installation, which this one mends; the controllers make queues that are missing.
                yield Step(name, "not applied", "the webhook does not answer; install again when its pods are ready")
                continue
            error.message = f"{name}: {error.message}"
            raise
        if manifest["kind"] == "CustomResourceDefinition":
            spec = manifest["spec"]
            made.add(f"{spec['group']}/{spec['names']['kind']}")
            defined += [(f"{spec['group']}/{version['name']}", spec["names"]["kind"]) for version in spec["versions"]]
        elif manifest["kind"] == "Namespace":
            made.add(meta["name"])
        yield Step(name, "applied (server dry run)" if dry_run else "applied")


def title(manifest: dict[str, Any]) -> str:
    """``deployment.apps/unisono-scheduler``."""
    group = manifest["apiVersion"].rpartition("/")[0]
    kind = manifest["kind"].lower()
    return f"{kind}.{group}/{manifest['metadata']['name']}" if group else f"{kind}/{manifest['metadata']['name']}"


async def _exists(client: HttpClient, resource: Resource, name: str) -> bool:
    try:
        await request_json(client, "GET", resource.path(None, name))
    except NotFound:
        return False
    return True


async def _apply(client: HttpClient, resource: Resource, manifest: dict[str, Any], *, dry_run: bool) -> None:
    from asyncio import sleep

    meta = manifest["metadata"]
    params = {"fieldManager": MANAGER, "force": "true", "fieldValidation": "Strict"}
    if dry_run:
        params["dryRun"] = "All"
    path = resource.path(meta.get("namespace"), meta["name"])
    for pause in (*_PAUSES, None):
        try:
            await request_json(client, "PATCH", path, body=manifest, params=params, content_type=_APPLY)
            return
        except Unavailable as error:
            # Large definitions take a busy server longer than it gives itself; to apply once more changes nothing.
            if pause is None or not _ran_out_of_time(error):
                raise
            await sleep(pause)


def _ran_out_of_time(error: Unavailable) -> bool:
    return error.code == _TIMEOUT or isinstance(error.__cause__, TimeoutError)


def _expected(manifest: dict[str, Any], error: Exception, made: set[str]) -> bool:
    if isinstance(error, UnknownKind):
        return f"{manifest['apiVersion'].rpartition('/')[0]}/{manifest['kind']}" in made
    return manifest["metadata"].get("namespace") in made and not isinstance(error, Invalid)


async def _served(client: HttpClient, wanted: Sequence[tuple[str, str]]) -> ResourceMap:
    from asyncio import sleep

    missing = ""
    for _ in range(_TRIES):
        resources = await discover(client)
        try:
            for api_version, kind in wanted:
                resources.of(api_version, kind)
            return resources
        except UnknownKind as error:
            missing = str(error)
        await sleep(_PAUSE)
    raise NotServed(f"The definitions were applied, and the server does not serve them: {missing}")


# Take an installation from a cluster: what ``unisono install`` made, and users' objects only with --with-data.

USERS = ("CustomResourceDefinition", "Queue")
"""Kinds of the manifests that users' objects need; kept unless the data is to go, too."""
_NODE_LEASES = "kube-node-lease"
# What clusters put into every namespace, and what components leave in theirs.
_EVERYWHERE = frozenset({"kube-root-ca.crt", "unisono-webhook"})
_LEASES = ("unisono-scheduler", "unisono-controllers", "unisono-agent")
_HOLDINGS = ("pods", "configmaps", "secrets", "persistentvolumeclaims", "jobs.batch.volcano.sh", "jobs.batch")
# Components end within seconds of their Deployments; then nothing writes into the namespace any more.
_REMOVAL_TRIES, _REMOVAL_PAUSE = 60, 1.0


async def uninstall(
    client: HttpClient, manifests: Sequence[dict[str, Any]], namespace: str, *, with_data: bool, dry_run: bool
) -> AsyncIterator[Step]:
    """Delete the manifests, last ones first, and what the components made for themselves.

    Args:
        client: the cluster.
        manifests: everything that an installation in ``namespace`` may have made.
        namespace: where the components run. It is deleted too, unless others changed it or have objects in it.
        with_data: also delete the definitions, and with them all queues, jobs, pod groups and other objects of users.
        dry_run: the server checks and deletes nothing.

    Raises:
        ApiError: the server refuses; what was deleted before stays deleted.
    """
    resources = await discover(client)
    remover = _Remover(client, resources, dry_run)
    simulated = described = False
    for manifest in reversed(manifests):
        if manifest["kind"] in ("Namespace", *USERS):
            continue
        step = await remover.remove(manifest)
        if step is not None:
            simulated |= step.title == "deployment.apps/unisono-agent"
            described |= step.title == f"daemonset.apps/{NUMA_EXPORTER}"
            yield step
    if not dry_run:
        await _ended(client, namespace)
    for manifest in _left(namespace):
        step = await remover.remove(manifest)
        if step is not None:
            yield step
    if simulated:
        async for step in _simulated_nodes(client, remover):
            yield step
    if described:
        # Nobody keeps them true any more.
        async for step in _labelled(client, remover, "numatopologies.nodeinfo.volcano.sh", resources):
            yield step
    if with_data and not dry_run:
        async for step in _objects(client, resources, manifests):
            yield step
    for manifest in reversed(manifests):
        if manifest["kind"] == "Namespace":
            step = await _namespace(client, resources, remover, manifest)
        elif manifest["kind"] == "CustomResourceDefinition" and with_data:
            # Queues go along; those that are deleted one by one are held to rules about their family.
            step = await remover.remove(manifest)
        else:
            continue
        if step is not None:
            yield step
    if not with_data:
        yield Step("queues, definitions and all objects of their kinds", "kept", "--with-data deletes them, too")


class _Remover:
    def __init__(self, client: HttpClient, resources: ResourceMap, dry_run: bool) -> None:
        self._client, self._resources, self._dry_run = client, resources, dry_run

    async def remove(self, manifest: dict[str, Any]) -> Step | None:
        """Delete one object; None when it is not there."""
        meta = manifest["metadata"]
        try:
            resource = self._resources.of(manifest["apiVersion"], manifest["kind"])
            path = resource.path(meta.get("namespace"), meta["name"])
            body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
            if self._dry_run:
                # Where a request has a body, a cluster does not look for it in the query.
                body["dryRun"] = ["All"]
            await request_json(self._client, "DELETE", path, body=body)
        except (UnknownKind, NotFound):
            return None
        except ApiError as error:
            error.message = f"{title(manifest)}: {error.message}"
            raise
        return Step(title(manifest), "deleted (server dry run)" if self._dry_run else "deleted")


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **place}}


def _left(namespace: str) -> list[dict[str, Any]]:
    leases = [_object("coordination.k8s.io/v1", "Lease", name, namespace) for name in _LEASES]
    return [*leases, _object("v1", "Secret", "unisono-webhook", namespace)]


async def _ended(client: HttpClient, namespace: str) -> None:
    """Wait for the components' pods; gives up on those that do not end."""
    path, chosen = f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": "app.kubernetes.io/name=unisono"}
    for _ in range(_REMOVAL_TRIES):
        if not (await request_json(client, "GET", path, params=chosen)).get("items"):
            return
        await asyncio.sleep(_REMOVAL_PAUSE)


async def _objects(
    client: HttpClient, resources: ResourceMap, manifests: Sequence[dict[str, Any]]
) -> AsyncIterator[Step]:
    """Delete the objects of all definitions, and what belongs to them, and wait until they are deleted.

    Without a definition, a cluster's garbage collector knows nothing of the owners of its kind, and leaves their
    pods for ever.
    """
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
    waiting = {}
    for manifest in manifests:
        if manifest["kind"] != "CustomResourceDefinition" or manifest["spec"]["scope"] != "Namespaced":
            continue
        names, group = manifest["spec"]["names"], manifest["spec"]["group"]
        try:
            resource = resources.named(f"{names['plural']}.{group}")
            items = (await request_json(client, "GET", resource.path())).get("items") or ()
        except (UnknownKind, NotFound):
            continue
        for namespace in sorted({item["metadata"]["namespace"] for item in items}):
            await request_json(client, "DELETE", resource.path(namespace), body=body)
        if items:
            waiting[resource.name] = (resource, len(items))
    for name, (resource, number) in waiting.items():
        left: Sequence[Any] = ()
        for _ in range(_REMOVAL_TRIES):
            left = (await request_json(client, "GET", resource.path())).get("items") or ()
            if not left:
                break
            await asyncio.sleep(_REMOVAL_PAUSE)
        note = f"{len(left)} still wait for their pods or finalizers; look for pods that stay" if left else ""
        yield Step(f"{number} objects of {name}", "deleted", note)


async def _simulated_nodes(client: HttpClient, remover: _Remover) -> AsyncIterator[Step]:
    chosen = {"labelSelector": "unisono.io/simulated=true"}
    nodes = (await request_json(client, "GET", "/api/v1/nodes", params=chosen)).get("items") or ()
    for node in nodes:
        name = node["metadata"]["name"]
        for one in (_object("coordination.k8s.io/v1", "Lease", name, _NODE_LEASES), _object("v1", "Node", name)):
            step = await remover.remove(one)
            if step is not None:
                yield step


async def _labelled(client: HttpClient, remover: _Remover, name: str, resources: ResourceMap) -> AsyncIterator[Step]:
    """Delete what carries our label."""
    try:
        resource = resources.named(name)
    except UnknownKind:
        return
    listing = await request_json(client, "GET", resource.path(), params={"labelSelector": f"{APP_PART_OF}=unisono"})
    for one in listing.get("items") or ():
        step = await remover.remove(_object(resource.api_version, resource.kind, one["metadata"]["name"]))
        if step is not None:
            yield step


async def _namespace(
    client: HttpClient, resources: ResourceMap, remover: _Remover, manifest: dict[str, Any]
) -> Step | None:
    """Delete the namespace where it is the installation's alone."""
    name = manifest["metadata"]["name"]
    try:
        namespace = await request_json(client, "GET", f"/api/v1/namespaces/{name}")
    except NotFound:
        return None
    managers = {entry.get("manager") for entry in namespace["metadata"].get("managedFields", ()) if _sets_fields(entry)}
    if managers - {MANAGER}:
        others = ", ".join(sorted(str(manager) for manager in managers - {MANAGER}))
        return Step(title(manifest), "kept", f"made or changed by {others}")
    for plural in _HOLDINGS:
        try:
            resource = resources.named(plural)
        except UnknownKind:
            continue
        for one in (await request_json(client, "GET", resource.path(name))).get("items") or ():
            meta = one["metadata"]
            ours = (meta.get("labels") or {}).get(APP_PART_OF) == "unisono" or meta["name"] in _EVERYWHERE
            if not ours:
                return Step(title(manifest), "kept", f"holds {resource.title}/{meta['name']}")
    return await remover.remove(manifest)


def _sets_fields(entry: dict[str, Any]) -> bool:
    return entry.get("subresource") != "status"

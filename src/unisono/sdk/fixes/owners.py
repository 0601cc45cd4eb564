"""The object that a user wrote, of which a PodGroup or a pod is a consequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api import kinds
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.errors import ApiError
from unisono.sdk.fixes.pod_specs import pod_specs

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient

_LONGEST_CHAIN = 6
Raw = dict[str, Any]
Edit = Callable[[Raw], None]
"""Changes a manifest."""


async def read(client: HttpClient, kind: Kind[Any], name: str, namespace: str | None) -> Raw | None:
    """An object as the server sends it; None where it does not exist or may not be read."""
    try:
        status, _, body = await client.request("GET", kind.path(namespace if kind.namespaced else None, name))
    except ApiError:
        return None
    decoded: Raw = msgspec.json.decode(body) if status < 300 else {}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **decoded} if decoded else None


def makes_pods(item: Raw) -> bool:
    """Whether the object is a pod, a PodGroup, or has the specs of its pods: a JobFlow, for one, has them elsewhere."""
    return item.get("kind") in ("Pod", "PodGroup") or next(pod_specs(item), None) is not None


async def _owner(client: HttpClient, item: Raw) -> Raw | None:
    """The controller of an object; None without one that is known and may be read."""
    meta = item.get("metadata") or {}
    owner = next((each for each in meta.get("ownerReferences") or () if each.get("controller")), None)
    kind = kinds.find(owner["apiVersion"], owner["kind"]) if owner else None
    return await read(client, kind, owner["name"], meta.get("namespace")) if kind and owner else None


async def root_of(client: HttpClient, item: Raw) -> Raw:
    """The uppermost object of the chain of controllers that has pod specs; ``item`` itself where none does."""
    for _ in range(_LONGEST_CHAIN):
        above = await _owner(client, item)
        if above is None or not makes_pods(above):
            break
        item = above
    return item


async def writer_of(client: HttpClient, item: Raw, writes: Callable[[Raw], object]) -> Raw:
    """The uppermost controller of an object for which ``writes`` holds: it would undo a change below; else ``item``."""
    writer, above = item, await _owner(client, item)
    for _ in range(_LONGEST_CHAIN):
        if above is None:
            break
        writer = above if writes(above) else writer
        above = await _owner(client, above)
    return writer


async def owner_of_group(client: HttpClient, key: str) -> Raw | None:
    """What the PodGroup ``namespace/name`` was made for: a job, a pod, or the PodGroup itself where a user made it."""
    namespace, _, name = key.partition("/")
    group = await read(client, POD_GROUPS, name, namespace)
    return None if group is None else await root_of(client, group)


async def owner_of_pod(client: HttpClient, key: str) -> Raw | None:
    """What made the pod ``namespace/name``, or the pod itself."""
    namespace, _, name = key.partition("/")
    pod = await read(client, PODS, name, namespace)
    return None if pod is None else await root_of(client, pod)

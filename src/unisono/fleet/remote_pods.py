"""Pods of a hub's jobs, read where they run: one at a time, by name, on request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from unisono.api.annotations import CLUSTER, HUB, ORIGIN_UID
from unisono.api.base import Object
from unisono.api.kind_families import ATTACHED_CLUSTERS
from unisono.api.kinds import NAMESPACES, SECRETS
from unisono.errors import ApiError, ConfigError, NotFound, Unavailable
from unisono.fleet.jobs.copies import placement_of
from unisono.fleet.jobs.replicas import recorded
from unisono.fleet.jobs.work import KINDS
from unisono.fleet.members.joining import member_config
from unisono.fleet.remote_exec import MemberAccess
from unisono.jobkinds.registry import DIVIDED
from unisono.kube.client import Client
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.transport import Transport

_SECONDS: Final = 10.0
_MOST_NAMES: Final = 8
_LIST_SECONDS: Final = 3.0
_MOST_LISTED: Final = 5000
_MOST_BYTES: Final = 64 * 1024 * 1024
_IDENTITY_NAMESPACE: Final = "default"


class _Pods(msgspec.Struct):
    items: list[dict[str, Any]] = []


@dataclass(slots=True)
class _Reach:
    identity: str
    client: HttpClient


def _client_of(config: ClusterConfig) -> HttpClient:
    return HttpClient(config, transport=Transport(config, most_bytes=_MOST_BYTES))


class MemberPods:
    """Looks for the job that a pod's name begins with, and asks the job's member.

    A pod counts only when its labels say that this hub brought its job, and that is the job: a member's own pods are
    not shown to users of the hub.
    """

    def __init__(self, hub: Client, open_client: Callable[[ClusterConfig], HttpClient] = _client_of) -> None:
        """``hub`` reads the hub's objects with the server's rights, ``open_client`` connects to a member."""
        self._hub, self._open = hub, open_client
        self._reaches: dict[str, _Reach] = {}

    async def find(self, namespace: str, name: str) -> bytes | None:
        """See `RemotePods`."""
        found = await self._search(namespace, name)
        return _named(msgspec.json.decode(found[1]), found[2]) if found is not None else None

    async def listed(self, namespace: str | None, query: Mapping[str, str]) -> tuple[list[bytes], list[str]]:
        """See `RemotePods`."""
        own = await self._uids(namespace)
        if not own:
            return [], []
        hub = await self._hub.get(NAMESPACES, _IDENTITY_NAMESPACE)
        labels = ",".join(filter(None, (f"{HUB}={hub.metadata.uid or 'hub'}", query.get("labelSelector", ""))))
        asked = {"labelSelector": labels, "limit": str(_MOST_LISTED)}
        if query.get("fieldSelector"):
            asked["fieldSelector"] = query["fieldSelector"]
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        clusters = sorted({cluster for clusters in own.values() for cluster in clusters})
        answers = await asyncio.gather(*(self._of_member(cluster, path, asked) for cluster in clusters))
        found, silent = [], []
        for pods, why in answers:
            found += [pod for uid, pod in pods if uid in own]
            silent += [why] if why else []
        return found, silent

    async def _uids(self, namespace: str | None) -> dict[str, list[str]]:
        """Jobs with their members."""
        found: dict[str, list[str]] = {}
        for kind in (*KINDS, *DIVIDED):
            for job in (await self._hub.list(kind, namespace)).items:
                if clusters := clusters_of(job):
                    found[job.metadata.uid or ""] = clusters
        return found

    async def _of_member(
        self, cluster: str, path: str, asked: Mapping[str, str]
    ) -> tuple[list[tuple[str, bytes]], str]:
        """Pods of one member by uid of their jobs, and why it does not tell; one that is slow is not waited for."""
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                client = await self._client(cluster)
                status, _, body = await client.request("GET", path, params=dict(asked))
            if status != 200:
                return [], f"member {cluster} does not show its pods: it answers {status}"
            items = msgspec.json.decode(body, type=_Pods).items
        except (TimeoutError, OSError, ApiError, msgspec.MsgspecError) as error:
            return [], f"member {cluster} does not show its pods: {error or 'it is slow'}"
        return [(_labels(item).get(ORIGIN_UID, ""), _named(item, cluster)) for item in items], ""

    async def reach(self, namespace: str, name: str) -> tuple[bytes, MemberAccess] | None:
        """See `RemotePods`."""
        found = await self._search(namespace, name)
        return (found[1], MemberAccess(found[2], found[0])) if found is not None else None

    async def log(self, namespace: str, name: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """See `RemotePods`."""
        found = await self._search(namespace, name)
        if found is None:
            raise NotFound(f'pods "{name}" not found')
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
        async with aclosing(found[0].stream(path, dict(query), accept="*/*")) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """End all connections."""
        for reach in self._reaches.values():
            await reach.client.close()
        self._reaches.clear()

    async def _search(self, namespace: str, name: str) -> tuple[HttpClient, bytes, str] | None:
        for job in await self._jobs(namespace, name):
            for cluster in clusters_of(job):
                client = await self._client(cluster)
                pod = await self._pod(client, cluster, namespace, name)
                if pod is not None and await self._is_of(pod, job):
                    return client, pod, cluster
        return None

    async def _jobs(self, namespace: str, pod: str) -> list[Object]:
        """Jobs of the namespace whose name is a beginning of the pod's, the longest first."""
        words = pod.split("-")
        names = ["-".join(words[:count]) for count in range(len(words) - 1, 0, -1)][:_MOST_NAMES]
        found: list[Object] = []
        for name in names:
            for kind in (*KINDS, *DIVIDED):
                try:
                    found.append(await self._hub.get(kind, name, namespace))
                except NotFound:
                    continue
        return found

    async def _pod(self, client: HttpClient, cluster: str, namespace: str, name: str) -> bytes | None:
        try:
            async with asyncio.timeout(_SECONDS):
                status, _, body = await client.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        except (TimeoutError, OSError) as error:
            raise Unavailable(f"member {cluster} does not answer: {error or 'it is slow'}") from None
        if status == 404:
            return None
        if status != 200:
            raise ApiError(f"member {cluster} does not show pod {namespace}/{name}", code=502, reason="BadGateway")
        return body

    async def _is_of(self, pod: bytes, job: Object) -> bool:
        hub = await self._hub.get(NAMESPACES, _IDENTITY_NAMESPACE)
        meta: Any = msgspec.json.decode(pod).get("metadata") or {}
        labels = meta.get("labels") or {}
        return labels.get(ORIGIN_UID) == job.metadata.uid and labels.get(HUB) == (hub.metadata.uid or "hub")

    async def _client(self, cluster: str) -> HttpClient:
        """The connection to a member, opened again when its Secret has changed."""
        found = [each for each in (await self._hub.list(ATTACHED_CLUSTERS)).items if each.metadata.name == cluster]
        if not found:
            raise Unavailable(f"member {cluster} has left")
        attached = min(found, key=lambda each: (each.metadata.creation_timestamp or "", each.key))
        try:
            secret = await self._hub.get(SECRETS, attached.spec.secret.name or "", attached.metadata.namespace)
            identity = f"{secret.metadata.uid}/{secret.metadata.resource_version}"
            known = self._reaches.get(cluster)
            if known is not None and known.identity == identity:
                return known.client
            data = {key: str(value) for key, value in (secret.data or {}).items()}
            config = member_config(data, attached.spec.secret.key, f"Secret {secret.key}")
        except (NotFound, ConfigError) as error:
            raise Unavailable(f"member {cluster} cannot be reached: {error}") from None
        if known is not None:
            await known.client.close()
        self._reaches[cluster] = _Reach(identity, self._open(config))
        return self._reaches[cluster].client


def clusters_of(job: Object) -> list[str]:
    """Members that have pods of a job: that of its placement, or all over which it is divided."""
    cluster = placement_of(job).cluster
    return [cluster] if cluster else sorted(recorded(job))


def _labels(pod: dict[str, Any]) -> dict[str, str]:
    labels = (pod.get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}


def _named(pod: dict[str, Any], cluster: str) -> bytes:
    """A member's pod as the hub shows it: its label names the member."""
    meta = {**(pod.get("metadata") or {}), "labels": {**_labels(pod), CLUSTER: cluster}}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": meta})

"""From the claims of a pod to folders of this machine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from unisono.agent.environment import MissingSource
from unisono.agent.layout import Layout
from unisono.agent.volumes.mounts import host_path
from unisono.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from unisono.api.volumes import claim_name, class_of_claim
from unisono.errors import AgentError, NotFound
from unisono.kube.client import Client

_ANY_ACCESS = ["ReadWriteOnce"]


async def claim_folders(client: Client, layout: Layout, pod: Pod) -> dict[str, Path]:
    """The folder (or file) behind each claim of the pod that exists, by the claim's name.

    Raises:
        MissingSource: a claim is not bound yet, or its volume is not there.
        AgentError: the volume is of a kind that this runtime does not have.
        ApiError: the API did not answer.
    """
    found: dict[str, Path] = {}
    namespace = pod.metadata.namespace or ""
    for volume in pod.spec.volumes or ():
        name = claim_name(pod.metadata.name, volume)
        if name is None or name in found:
            continue
        try:
            claim = await client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        except NotFound:
            continue
        if volume.ephemeral is not None and not _owned(claim, pod):
            raise MissingSource(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")
        found[name] = await _folder(client, layout, claim)
    return found


async def _folder(client: Client, layout: Layout, claim: PersistentVolumeClaim) -> Path:
    name = claim.metadata.name
    if claim.spec.volume_name:
        if claim.status.phase != "Bound":
            raise MissingSource(f'persistentvolumeclaim "{name}" is not bound: its phase is {claim.status.phase}')
        try:
            volume = await client.get(PERSISTENT_VOLUMES, claim.spec.volume_name)
        except NotFound:
            raise MissingSource(f'persistentvolume "{claim.spec.volume_name}" not found') from None
        return _place(volume, claim)
    if claim.status.phase != "Bound":
        if class_of_claim(claim):
            raise MissingSource(f'persistentvolumeclaim "{name}" is not bound')
        await _bind(client, claim)
    place = layout.claim(claim.metadata.namespace or "", name)
    place.mkdir(parents=True, exist_ok=True)
    return place


def _place(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Path:
    """Where a volume is on this machine."""
    spec, name = volume.spec, volume.metadata.name
    if spec.claim_ref is None or spec.claim_ref.uid != claim.metadata.uid:
        raise MissingSource(f'persistentvolume "{name}" was given to another claim than {claim.key}')
    if spec.volume_mode == "Block":
        raise AgentError(f"Volume {name} is a block device, which this runtime does not have: use a file system.")
    if spec.local is not None:
        path = Path(spec.local.path)
        if not path.exists():
            raise MissingSource(f"the path {path} of volume {name} does not exist on this node")
        return path
    if spec.host_path is not None:
        return host_path(name, spec.host_path)
    raise AgentError(f"Volume {name} is of a type that this runtime does not have: use local or hostPath.")


def _owned(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    return any(each.uid == pod.metadata.uid for each in claim.metadata.owner_references or ())


async def _bind(client: Client, claim: PersistentVolumeClaim) -> None:
    """Where there is no storage class, a claim is a folder of the node to which its first pod comes."""
    status = {
        "phase": "Bound",
        "accessModes": claim.spec.access_modes or _ANY_ACCESS,
        "capacity": msgspec.to_builtins(claim.spec.resources.requests or {}),
    }
    await client.patch(
        PERSISTENT_VOLUME_CLAIMS,
        claim.metadata.name,
        {"status": status},
        namespace=claim.metadata.namespace,
        subresource="status",
    )

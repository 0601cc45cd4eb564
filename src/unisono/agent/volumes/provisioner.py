"""Makes volumes that are folders of a node, and deletes them with their claims.

The node for which a volume is to be made stands on the claim (``selected-node``): the scheduler writes it where the
claim's class waits for its first consumer, the binder of claims elsewhere.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from unisono.agent.environment import MissingSource
from unisono.agent.layout import Layout
from unisono.agent.volumes.mounts import host_path
from unisono.api import core
from unisono.api.annotations import SIMULATED
from unisono.api.base import ObjectMeta
from unisono.api.keys import DELETION_BY_PROVISIONER, HOSTNAME, PROVISIONED_BY, SELECTED_NODE, STORAGE_PROVISIONER
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from unisono.api.volumes import PROVISIONER, VOLUME_NODE, claim_name, class_of_claim, is_shared, provisioned_name
from unisono.errors import AgentError, AlreadyExists, Conflict, NotFound
from unisono.kube.client import Client
from unisono.kube.controller import Context, Controller
from unisono.kube.events import EventRecorder as Recorder

# From the claims of a pod to folders of this machine.

_ANY_ACCESS = ["ReadWriteOnce"]


async def claim_folders(client: Client, layout: Layout, pod: core.Pod) -> dict[str, Path]:
    """The folder (or file) behind each claim of the pod that exists, by the claim's name.

    Raises:
        MissingSource: a claim is not bound yet, or its volume is not there.
        AgentError: the volume is of a kind that this runtime does not have.
        ApiError: the API did not answer.
    """
    folders: dict[str, Path] = {}
    namespace = pod.metadata.namespace or ""
    for volume in pod.spec.volumes or ():
        name = claim_name(pod.metadata.name, volume)
        if name is None or name in folders:
            continue
        try:
            claim = await client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        except NotFound:
            continue
        if volume.ephemeral is not None and not _owned(claim, pod):
            raise MissingSource(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")
        folders[name] = await _folder(client, layout, claim)
    return folders


async def _folder(client: Client, layout: Layout, claim: core.PersistentVolumeClaim) -> Path:
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


def _place(volume: core.PersistentVolume, claim: core.PersistentVolumeClaim) -> Path:
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


def _owned(claim: core.PersistentVolumeClaim, pod: core.Pod) -> bool:
    return any(each.uid == pod.metadata.uid for each in claim.metadata.owner_references or ())


async def _bind(client: Client, claim: core.PersistentVolumeClaim) -> None:
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


# Containers may run as other users than the agent, and every one of them may write to its volume.
_OPEN = 0o777
# Seconds until a class that is not known yet is looked for again.
_LOOK_AGAIN = 1.0


class Store(Protocol):
    """Where volumes are kept."""

    def make(self, name: str) -> str:
        """Make the folder of a volume unless it is there; answers its path."""
        ...

    def remove(self, name: str) -> None:
        """Delete the folder of a volume with all that is in it; an absent one is fine."""
        ...


class Folders:
    """Volumes as folders below ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def make(self, name: str) -> str:
        """Make the folder of a volume unless it is there; answers its path."""
        path = self._root / name
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(_OPEN)
        return str(path)

    def remove(self, name: str) -> None:
        """Delete the folder of a volume with all that is in it; an absent one is fine."""
        path = self._root / name
        if path.is_dir():
            shutil.rmtree(path)


class Imagined:
    """Volumes of simulated nodes, whose pods read and write nothing."""

    def make(self, name: str) -> str:
        """A path that no machine has."""
        return f"/simulated/{name}"

    def remove(self, name: str) -> None:
        """There is nothing."""


class VolumeProvisioner(Controller):
    """Makes and deletes the volumes of some nodes.

    Args:
        recorder: records events.
        serves: whether a node of that name is one of these.
        store: where their volumes are kept.
    """

    name = "volume-provisioner"
    workers = 4

    def __init__(self, recorder: Recorder, serves: Callable[[str], bool], store: Store) -> None:
        self._recorder, self._serves, self._store = recorder, serves, store

    def setup(self, context: Context) -> None:
        """Watch claims and volumes: keys of the former have a namespace."""
        self._claims = context.watch(PERSISTENT_VOLUME_CLAIMS, self._wanted)
        self._volumes = context.watch(PERSISTENT_VOLUMES, self._ours)
        self._classes = context.informer(STORAGE_CLASSES)

    async def reconcile(self, key: str) -> float | None:
        """Make the volume of a claim, or delete a volume that is not needed."""
        if "/" not in key:
            return await self._clear(key)
        claim = self._claims.get(key)
        if claim is None or not self._wanted(claim):
            return None
        storage_class = self._classes.get(class_of_claim(claim))
        if storage_class is None:
            return _LOOK_AGAIN
        if self._volumes.get(provisioned_name(claim)) is None:
            await self._make(claim, storage_class)
        return None

    def _wanted(self, claim: core.PersistentVolumeClaim) -> list[str]:
        """The claim's key when a volume of these nodes is to be made for it."""
        notes = claim.metadata.annotations or {}
        if claim.spec.volume_name or claim.metadata.deletion_timestamp or notes.get(STORAGE_PROVISIONER) != PROVISIONER:
            return []
        return [claim.key] if self._serves(notes.get(SELECTED_NODE, "")) else []

    def _ours(self, volume: core.PersistentVolume) -> list[str]:
        notes = volume.metadata.annotations or {}
        ours = notes.get(PROVISIONED_BY) == PROVISIONER and self._serves(notes.get(VOLUME_NODE, ""))
        return [volume.metadata.name] if ours else []

    async def _make(self, claim: core.PersistentVolumeClaim, storage_class: core.StorageClass) -> None:
        name = provisioned_name(claim)
        problem = refusal(claim)
        if problem:
            text = f'failed to provision volume with StorageClass "{storage_class.metadata.name}": {problem}'
            self._recorder.event(claim, "Warning", "ProvisioningFailed", text)
            return
        text = f'External provisioner is provisioning volume for claim "{claim.key}"'
        self._recorder.event(claim, "Normal", "Provisioning", text)
        try:
            path = await asyncio.to_thread(self._store.make, name)
        except OSError as error:
            text = f'failed to provision volume with StorageClass "{storage_class.metadata.name}": {error}'
            self._recorder.event(claim, "Warning", "ProvisioningFailed", text)
            raise
        node = (claim.metadata.annotations or {})[SELECTED_NODE]
        everywhere = isinstance(self._store, Imagined)
        try:
            await self._client.create(
                PERSISTENT_VOLUMES, volume_for(claim, storage_class, node, path, everywhere=everywhere)
            )
        except AlreadyExists:
            return
        self._recorder.event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    async def _clear(self, name: str) -> float | None:
        volume = self._volumes.get(name)
        if volume is None or not is_over(volume):
            return None
        meta = volume.metadata
        if volume.spec.persistent_volume_reclaim_policy == "Delete":
            try:
                await asyncio.to_thread(self._store.remove, name)
            except OSError as error:
                self._recorder.event(volume, "Warning", "VolumeFailedDelete", str(error))
                raise
            try:
                await self._client.delete(PERSISTENT_VOLUMES, name, uid=meta.uid)
                volume = await self._client.get(PERSISTENT_VOLUMES, name)
            except (NotFound, Conflict):
                return None
        await self._let_go(volume)
        return None

    async def _let_go(self, volume: core.PersistentVolume) -> None:
        meta = volume.metadata
        finalizers = [each for each in meta.finalizers or () if each != DELETION_BY_PROVISIONER]
        if len(finalizers) == len(meta.finalizers or ()):
            return
        patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers or None}}
        try:
            await self._client.patch(PERSISTENT_VOLUMES, meta.name, patch)
        except NotFound:
            return


def refusal(claim: core.PersistentVolumeClaim) -> str:
    """Why a folder cannot be what the claim asks for; empty when it can."""
    spec = claim.spec
    if (spec.volume_mode or "Filesystem") != "Filesystem":
        return "a folder cannot be a block device: set volumeMode to Filesystem"
    if spec.data_source is not None or spec.data_source_ref is not None:
        return "folders begin empty: remove dataSource and dataSourceRef"
    if spec.selector is not None:
        return "claim.Spec.Selector is not supported: remove the selector, or create a volume that it selects"
    return ""


def is_over(volume: core.PersistentVolume) -> bool:
    """Whether no claim has the volume any more, and its node should do what the reclaim policy says."""
    phase = volume.status.phase
    if volume.metadata.deletion_timestamp:
        return phase != "Bound"
    return phase == "Released" and volume.spec.persistent_volume_reclaim_policy == "Delete"


def volume_for(
    claim: core.PersistentVolumeClaim, storage_class: core.StorageClass, node: str, path: str, *, everywhere: bool
) -> core.PersistentVolume:
    """The volume of a claim.

    Args:
        claim: the claim.
        storage_class: its class.
        node: the node whose folder it is.
        path: the folder.
        everywhere: the node is simulated.
    """
    meta = claim.metadata
    terms = [] if everywhere and is_shared(claim) else [_term(HOSTNAME, node)]
    if is_shared(claim):
        # Pods of simulated nodes read and write nothing: they can have it wherever it is.
        terms.append(_term(SIMULATED, "true"))
    return core.PersistentVolume(
        metadata=ObjectMeta(
            name=provisioned_name(claim),
            annotations={PROVISIONED_BY: PROVISIONER, VOLUME_NODE: node},
            finalizers=[DELETION_BY_PROVISIONER],
        ),
        spec=core.PersistentVolumeSpec(
            capacity={"storage": (claim.spec.resources.requests or {})["storage"]},
            access_modes=claim.spec.access_modes,
            claim_ref=core.ObjectReference(
                api_version="v1",
                kind="PersistentVolumeClaim",
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
            ),
            persistent_volume_reclaim_policy=storage_class.reclaim_policy or "Delete",
            storage_class_name=storage_class.metadata.name,
            mount_options=storage_class.mount_options,
            volume_mode="Filesystem",
            local=core.LocalVolumeSource(path=path),
            node_affinity=core.VolumeNodeAffinity(required=core.NodeSelector(node_selector_terms=terms)),
        ),
    )


def _term(key: str, value: str) -> core.NodeSelectorTerm:
    return core.NodeSelectorTerm(
        match_expressions=[core.NodeSelectorRequirement(key=key, operator="In", values=[value])]
    )

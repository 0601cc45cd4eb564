"""What happens next to a claim, and to a volume: pure functions with the outcomes of kube-controller-manager."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from unisono.api.annotations import SIMULATED
from unisono.api.conditions import is_true
from unisono.api.core import Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from unisono.api.keys import BIND_COMPLETED, NO_PROVISIONER, PROVISIONED_BY, SELECTED_NODE
from unisono.api.volumes import (
    PROVISIONER,
    WAIT,
    best_volume,
    class_of_claim,
    default_class,
    has_class,
    is_given_to,
    is_shared,
    mismatch,
    same_mode,
    stored_bytes,
)
from unisono.controllers.recorder import Notice


@dataclass(frozen=True, slots=True)
class Bind:
    """Give ``volume`` to the claim, or finish that."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Pend:
    """Nothing can be done now."""

    notice: Notice | None = None


@dataclass(frozen=True, slots=True)
class Lose:
    """The claim's volume is gone for good."""

    notice: Notice


@dataclass(frozen=True, slots=True)
class Classify:
    """The claim names no class and gets the default one."""

    name: str


@dataclass(frozen=True, slots=True)
class Provision:
    """Let a provisioner make a volume.

    Attributes:
        provisioner: its name.
        node: for which node; None leaves that to the scheduler, or to the provisioner.
    """

    provisioner: str
    notice: Notice
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Reselect:
    """The volume was to be made for a node that is gone: the scheduler chooses again."""

    notice: Notice


ClaimStep = Bind | Pend | Lose | Classify | Provision | Reselect


def next_of_claim(
    claim: PersistentVolumeClaim,
    volumes: Mapping[str, PersistentVolume],
    classes: Mapping[str, StorageClass],
    nodes: Mapping[str, Node],
    waiting: Sequence[str],
) -> ClaimStep:
    """The next step of a claim.

    Args:
        claim: the claim.
        volumes: all volumes by name.
        classes: all storage classes by name.
        nodes: all nodes by name.
        waiting: names of pods with the claim that have no node yet.
    """
    if BIND_COMPLETED in (claim.metadata.annotations or {}):
        return _bound(claim, volumes)
    if claim.spec.volume_name:
        return _named(claim, volumes.get(claim.spec.volume_name))
    storage_class = classes.get(class_of_claim(claim))
    selected = (claim.metadata.annotations or {}).get(SELECTED_NODE)
    waits = storage_class is not None and storage_class.volume_binding_mode == WAIT
    volume = best_volume(claim, volumes.values(), kept_only=waits)
    if volume is not None:
        return Bind(volume)
    if not has_class(claim):
        chosen = default_class(classes.values())
        if chosen is not None:
            return Classify(chosen.metadata.name)
    ours = storage_class is not None and storage_class.provisioner == PROVISIONER
    if ours and selected is not None and selected not in nodes:
        text = f'failed to provision volume: node "{selected}" is gone, another one is chosen'
        return Reselect(Notice("Warning", "ProvisioningFailed", text, once=f"gone {selected}"))
    # A volume that several nodes use need not wait to know which is the first.
    if waits and selected is None and not (ours and is_shared(claim)):
        return Pend(_waits_for(waiting))
    if storage_class is not None:
        return _provision(storage_class, nodes, selected)
    name = class_of_claim(claim)
    if name:
        return Pend(_once("Warning", "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found'))
    text = "no persistent volumes available for this claim and no storage class is set"
    return Pend(_once("Normal", "FailedBinding", text))


def _once(type: str, reason: str, message: str) -> Notice:
    return Notice("Warning" if type == "Warning" else "Normal", reason, message, once=message)


def _waits_for(pods: Sequence[str]) -> Notice:
    if not pods:
        text = "waiting for first consumer to be created before binding"
        return _once("Normal", "WaitForFirstConsumer", text)
    which = f"pod {pods[0]}" if len(pods) == 1 else f"pods {','.join(pods)}"
    return Notice("Normal", "WaitForPodScheduled", f"waiting for {which} to be scheduled", once="WaitForPodScheduled")


def _bound(claim: PersistentVolumeClaim, volumes: Mapping[str, PersistentVolume]) -> ClaimStep:
    lost = "Data on the volume is lost!"
    if not claim.spec.volume_name:
        text = f"Bound claim has lost reference to PersistentVolume. {lost}"
        return Lose(Notice("Warning", "ClaimLost", text))
    volume = volumes.get(claim.spec.volume_name)
    if volume is None:
        return Lose(Notice("Warning", "ClaimLost", f"Bound claim has lost its PersistentVolume. {lost}"))
    reference = volume.spec.claim_ref
    if reference is None or reference.uid == claim.metadata.uid:
        return Bind(volume)
    text = "Two claims are bound to the same volume, this one is bound incorrectly"
    return Lose(Notice("Warning", "ClaimMisbound", text))


def _named(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimStep:
    """A claim that asks for one volume."""
    if volume is None:
        return Pend()
    name = volume.metadata.name
    if volume.spec.claim_ref is None:
        why = mismatch(volume, claim)
        if why:
            return Pend(_once("Warning", "VolumeMismatch", f'Cannot bind to requested volume "{name}": {why}'))
        return Bind(volume)
    if is_given_to(volume, claim):
        return Bind(volume)
    return Pend(_once("Warning", "FailedBinding", f'volume "{name}" already bound to a different claim.'))


def _provision(found: StorageClass, nodes: Mapping[str, Node], selected: str | None) -> ClaimStep:
    provisioner = found.provisioner
    if provisioner == NO_PROVISIONER:
        text = "no persistent volumes available for this claim, and its class makes none"
        return Pend(_once("Normal", "FailedBinding", text))
    text = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
        "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
        "correctly registered."
    )
    notice = _once("Normal", "ExternalProvisioning", text)
    if provisioner != PROVISIONER or selected is not None:
        return Provision(provisioner, notice)
    node = home_of(found, nodes.values())
    if node is None:
        text = "failed to provision volume: no node is ready that the storage class allows"
        return Pend(_once("Warning", "ProvisioningFailed", text))
    return Provision(provisioner, notice, node)


def home_of(storage_class: StorageClass, nodes: Collection[Node]) -> str | None:
    """Where a volume is made that no pod has chosen a node for: real nodes before simulated ones, then by name."""
    fitting = [
        (SIMULATED in (node.metadata.labels or {}), node.metadata.name)
        for node in nodes
        if _is_ready(node) and _allowed(storage_class, node.metadata.labels or {})
    ]
    return min(fitting)[1] if fitting else None


def _is_ready(node: Node) -> bool:
    return not node.metadata.deletion_timestamp and is_true(node.status.conditions, "Ready")


def _allowed(storage_class: StorageClass, labels: Mapping[str, str]) -> bool:
    terms = storage_class.allowed_topologies
    return not terms or any(
        all(labels.get(each.key) in (each.values or ()) for each in term.match_label_expressions or ())
        for term in terms
    )


def grown(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether a bound claim asks for more than its volume has."""
    return stored_bytes(claim.spec.resources.requests) > stored_bytes(volume.spec.capacity)


# --- volumes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VolumeStep:
    """How a volume should be.

    Attributes:
        phase: its phase; None leaves it.
        message: why it failed.
        unbind: take the reference to its claim away, as far as a controller made it.
        notices: what to record on the volume.
        claim_notice: what to record on the claim that it names.
    """

    phase: str | None
    message: str = ""
    unbind: bool = False
    notices: tuple[Notice, ...] = ()
    claim_notice: Notice | None = None


def next_of_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumeStep:
    """The next step of a volume.

    Args:
        volume: the volume.
        claim: the claim that it names by uid, None when that is gone.
    """
    reference, name = volume.spec.claim_ref, volume.metadata.name
    if reference is None or not reference.uid:
        return VolumeStep("Available")
    if claim is None:
        return _released(volume)
    if not claim.spec.volume_name:
        if same_mode(volume, claim):
            return VolumeStep(None)
        text = "Cannot bind PersistentVolume to requested PersistentVolumeClaim "
        notice = _once("Warning", "VolumeMismatch", f'{text}"{reference.name}" due to incompatible volumeMode.')
        text = f'Cannot bind PersistentVolume "{name}" to requested PersistentVolumeClaim due to incompatible '
        return VolumeStep(
            None, notices=(notice,), claim_notice=_once("Warning", "VolumeMismatch", f"{text}volumeMode.")
        )
    if claim.spec.volume_name == name:
        return VolumeStep("Bound")
    # The claim has another volume.
    provisioned = PROVISIONED_BY in (volume.metadata.annotations or {})
    if provisioned and volume.spec.persistent_volume_reclaim_policy == "Delete":
        return _released(volume)
    return VolumeStep("Available", unbind=True)


def _released(volume: PersistentVolume) -> VolumeStep:
    """The claim is gone: what happens now is the reclaim policy's."""
    phase = None if volume.status.phase in ("Released", "Failed") else "Released"
    policy = volume.spec.persistent_volume_reclaim_policy
    if policy == "Retain" or (policy == "Delete" and PROVISIONED_BY in (volume.metadata.annotations or {})):
        return VolumeStep(phase)
    if policy == "Recycle":
        text = "No recycler plugin found for the volume!"
        return VolumeStep("Failed", text, notices=(Notice("Warning", "VolumeFailedRecycle", text, once=text),))
    text = (
        f'error getting deleter volume plugin for volume "{volume.metadata.name}": no deletable volume plugin matched'
    )
    return VolumeStep("Failed", text, notices=(Notice("Warning", "VolumeFailedDelete", text, once=text),))

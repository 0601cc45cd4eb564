"""Why no volume comes for a claim: what the existing ones lack, and where its storage class makes new ones."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from unisono.api.core import PersistentVolume, PersistentVolumeClaim, StorageClass
from unisono.api.keys import NO_PROVISIONER
from unisono.api.quantity import to_int
from unisono.api.selecting import selector_text
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.predicates.volume_match import Misfit, misfit
from unisono.engine.verdict import reference

_SHOWN = 2
_LOOKED_AT = 1_000
_ELSEWHERE = frozenset((Misfit.NONE, Misfit.CLASS))


def misfits(cycle: Cycle, claim: PersistentVolumeClaim) -> str:
    """``disk has volumeMode Filesystem, not Block``, of volumes of the claim's class; empty where there are none."""
    wanted = claim.spec.storage_class_name or ""
    found: list[tuple[bool, str]] = []
    for volume in islice(cycle.session.snapshot.catalogue.volumes.values(), _LOOKED_AT):
        reason = misfit(volume, claim)
        if reason not in _ELSEWHERE and (volume.spec.storage_class_name or "") == wanted:
            text = f"volume {volume.metadata.name} {_text(volume, claim, reason)}"
            found.append((reason is Misfit.TAKEN, text))
    return "; ".join(text for _, text in sorted(found)[:_SHOWN])


def _text(volume: PersistentVolume, claim: PersistentVolumeClaim, reason: Misfit) -> str:
    spec, wanted = volume.spec, claim.spec
    match reason:
        case Misfit.SIZE:
            return f"has {(spec.capacity or {}).get('storage')}"
        case Misfit.MODE:
            return f"has volumeMode {spec.volume_mode or 'Filesystem'}, not {wanted.volume_mode or 'Filesystem'}"
        case Misfit.TAKEN:
            owner = spec.claim_ref
            if owner is None:
                return "is taken"
            if (owner.namespace, owner.name) == (claim.metadata.namespace, claim.metadata.name):
                return "belonged to an earlier claim of this name, which was deleted (its claimRef has that UID)"
            return f"belongs to {reference(f'{owner.namespace}/{owner.name}', 'claim')}"
        case Misfit.LABELS:
            asked = selector_text(wanted.selector) if wanted.selector is not None else ""
            return f"does not have the labels that the claim selects ({asked})"
        case Misfit.ACCESS:
            return f"allows {', '.join(spec.access_modes or ())} only"
        case Misfit.ATTRIBUTES:
            return f"has volume attributes class {spec.volume_attributes_class_name or 'none'}"
        case Misfit.DELETED:
            return "is being deleted"
        case _:
            return f"is {volume.status.phase or 'not available yet'}"


def made_elsewhere(cycle: Cycle, claim: PersistentVolumeClaim) -> tuple[str, str]:
    """Where alone the claim's class makes volumes, and the nodes there; empty where it makes them everywhere."""
    found = cycle.session.snapshot.catalogue.storage_classes.get(claim.spec.storage_class_name or "")
    if found is None or found.provisioner in ("", NO_PROVISIONER) or not found.allowed_topologies:
        return "", ""
    facts, names = cycle.session.nodes.facts, cycle.session.snapshot.nodes.names
    there = tuple(name for name, one in zip(names, facts, strict=True) if _inside(found, one.labels))
    return _places(found), listed(there) if there else ""


def _inside(storage_class: StorageClass, labels: Mapping[str, str]) -> bool:
    return any(
        all(labels.get(one.key) in (one.values or ()) for one in term.match_label_expressions or ())
        for term in storage_class.allowed_topologies or ()
    )


def _places(storage_class: StorageClass) -> str:
    terms = [
        " and ".join(f"{one.key}={' or '.join(one.values or ())}" for one in term.match_label_expressions or ())
        for term in storage_class.allowed_topologies or ()
    ]
    return ", or ".join(filter(None, terms))


def most_free(cycle: Cycle, claim: PersistentVolumeClaim) -> str:
    """The largest volume that the driver of the claim's class says it can still make on a node, as it writes it."""
    name = claim.spec.storage_class_name or ""
    found = [
        stated
        for one in islice(cycle.session.snapshot.catalogue.storage_capacities.values(), _LOOKED_AT)
        if one.storage_class_name == name
        and (stated := one.capacity if one.maximum_volume_size is None else one.maximum_volume_size) is not None
    ]
    return str(max(found, key=to_int, default=""))

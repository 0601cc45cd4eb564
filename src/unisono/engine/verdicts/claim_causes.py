"""Which volume claim or device claim keeps a pod away from nodes, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import numpy as np

from unisono.api.core import NodeSelector, PersistentVolume, PersistentVolumeClaim, StorageClass
from unisono.api.keys import DEFAULT_CLASS, NO_PROVISIONER, REGION_BETA, TOPOLOGY_REGION, TOPOLOGY_ZONE, ZONE_BETA
from unisono.api.names import did_you_mean, nearest
from unisono.api.quantity import to_int
from unisono.api.selecting import selector_text
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray
from unisono.engine.changes import Change, CreateClaim, EvictPods, RelaxRule, UseLabel, UseStorageClass, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.common.node_selectors import match_pod, match_selector, required_of
from unisono.engine.plugins.predicates.volume_match import Misfit, VolumeMap, is_bound, misfit, waits
from unisono.engine.plugins.predicates.volumes import IN_USE, NO_SPACE, NO_VOLUME, NO_ZONE, OUT_OF_REACH, UNBOUND
from unisono.engine.verdict import reference
from unisono.engine.verdicts.device_causes import device_lacks
from unisono.engine.verdicts.draft import Ladders
from unisono.engine.verdicts.lack import Lack, absent_devices, absent_volume

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


_ZONES = (TOPOLOGY_ZONE, TOPOLOGY_REGION, ZONE_BETA, REGION_BETA)
_MOST_SHOWN = 3

MOST_LACKS: Final = 16
"""Volume claims of one pod that are told of: finding out what each of hundreds lacks takes milliseconds each time."""


def claim_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What the volume and device claims of a class lack; ``counts``: nodes by the reason that refuses them."""
    if pod_class.volumes:
        yield from islice(_volume_lacks(cycle, pod_class, counts), MOST_LACKS)
    if pod_class.devices:
        yield from device_lacks(cycle, pod_class, counts)


def absent_claims(cycle: Cycle, pod_class: PodClass) -> Iterator[Lack]:
    """The claims that a class names and that do not exist."""
    catalogue = cycle.session.snapshot.catalogue
    for key in pod_class.volumes:
        if key not in catalogue.volume_claims:
            yield absent_volume(key, catalogue.volume_claims)
    for key in pod_class.devices:
        if key not in catalogue.device_claims and not key.endswith("/"):
            yield absent_devices(key, catalogue.device_claims)


def ways_out(cycle: Cycle, lacks: Iterable[Lack]) -> tuple[Ladders, tuple[Change, ...]]:
    """The changes that can be tried, and those of which it is not known whether a volume would come for the claim."""
    classes = cycle.session.snapshot.catalogue.storage_classes
    ladders: Ladders = []
    untried: list[Change] = []
    for change in (lack.change for lack in lacks):
        if isinstance(change, CreateClaim | UseStorageClass):
            name = change.storage_class if isinstance(change, UseStorageClass) else _default(classes)
            one = classes.get(name)
            if one is None or one.provisioner == NO_PROVISIONER:
                untried.append(change)
                continue
        if change is not None:
            ladders.append([change])
    return ladders, tuple(untried)


def _volume_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    catalogue = cycle.session.snapshot.catalogue
    for key in pod_class.volumes:
        claim = catalogue.volume_claims.get(key)
        if claim is None:
            yield absent_volume(key, catalogue.volume_claims)
            continue
        name = claim.metadata.name
        if claim.metadata.deletion_timestamp is not None:
            yield _deleted(name, _users(cycle, key))
        elif IN_USE.text in counts and "ReadWriteOncePod" in (claim.spec.access_modes or ()):
            yield _of_one_pod(key, _users(cycle, key))
        elif is_bound(claim):
            yield from _far(cycle, claim, pod_class, counts)
        elif UNBOUND.text in counts and not waits(claim, catalogue):
            yield _unbound(cycle, claim)
        elif NO_VOLUME.text in counts:
            yield _none_free(cycle, claim)
        elif NO_SPACE.text in counts:
            most = most_free(cycle, claim)
            least = f", at most {most} for one volume" if most else ""
            yield Lack(f"{_wanted(claim)} finds no node with so much free storage{least}", f"make claim {name} smaller")


def _of_one_pod(key: str, users: tuple[str, ...]) -> Lack:
    namespace, _, name = key.partition("/")
    one = f"claim {name} allows one pod (ReadWriteOncePod)"
    if not users:  # the first pod of the gang would have it
        return Lack(f"{one}, and several pods of the gang name it", "give each pod a claim of its own")
    end = EvictPods((f"{namespace}/{users[0].removeprefix('pod ')}",)) if len(users) == 1 else None
    return Lack(f"{one}, and {listed(users)} has it", f"wait until {_ended(users)}, or use another claim", end)


def _deleted(name: str, users: tuple[str, ...]) -> Lack:
    """A claim that goes when its last pod has ended."""
    by = f", and {listed(users)} still {'use' if len(users) > 1 else 'uses'} it" if users else ""
    then = f"once {_ended(users)}" if users else "once it is gone"
    return Lack(f"claim {name} is being deleted{by}", f"create claim {name} again {then}, or use another claim")


def _ended(users: tuple[str, ...]) -> str:
    return f"{listed(users)} {'have' if len(users) > 1 else 'has'} ended"


def _none_free(cycle: Cycle, claim: PersistentVolumeClaim) -> Lack:
    """A claim that waits for its first pod, and for which no volume can come."""
    where, nodes = made_elsewhere(cycle, claim)
    if where:
        there = f"the pod cannot use those nodes ({nodes})" if nodes else "no node is there"
        what = f"storage class {claim.spec.storage_class_name} makes volumes only on nodes with {where}, and {there}"
        return Lack(f"{_wanted(claim)} finds no free volume that fits: {what}", f"add a node with {where}")
    why = misfits(cycle, claim)
    told = f": {why}" if why else ""
    return Lack(
        f"{_wanted(claim)} finds no free volume that fits{told}", f"create a volume for claim {claim.metadata.name}"
    )


def _wanted(claim: PersistentVolumeClaim) -> str:
    """``claim data (10Gi, ReadWriteOnce, storage class local)``."""
    spec = claim.spec
    size = (spec.resources.requests or {}).get("storage")
    parts = [str(size) if size else "", ", ".join(spec.access_modes or ())]
    parts.append(f"storage class {spec.storage_class_name}" if spec.storage_class_name else "no storage class")
    return f"claim {claim.metadata.name} ({', '.join(filter(None, parts))})"


def _unbound(cycle: Cycle, claim: PersistentVolumeClaim) -> Lack:
    catalogue = cycle.session.snapshot.catalogue
    spec, name = claim.spec, claim.metadata.name
    if spec.volume_name and spec.volume_name not in catalogue.volumes:
        known = sorted(islice(catalogue.volumes, MOST_LACKS))
        meant = did_you_mean(spec.volume_name, catalogue.volumes)
        if not meant and 0 < len(known) <= _MOST_SHOWN:
            meant = f" (there is {listed(tuple(known))})"
        what = f"claim {name} names volume {spec.volume_name}, which does not exist{meant}"
        return Lack(what, f"name a volume that exists in claim {name}")
    class_name = spec.storage_class_name or ""
    create = f"create a volume that fits claim {name}"
    default = _default_class(catalogue.storage_classes)
    if not class_name:
        why = misfits(cycle, claim)
        what = f"claim {name} is not bound: it names no storage class, and no volume without one fits"
        what += f" ({why})" if why else ""
        change = UseStorageClass(name, default) if default else None
        return Lack(what, f"{create}, or name a storage class in it", change)
    found = catalogue.storage_classes.get(class_name)
    if found is None:
        known = sorted(catalogue.storage_classes)
        near = nearest(class_name, known)
        meant = f" (did you mean {near}?)" if near else f" (there is {listed(tuple(known))})" if known else ""
        remedy = f"name storage class {near} in claim {name}" if near else f"create storage class {class_name}"
        change = UseStorageClass(name, near or default) if near or default else None
        return Lack(f"claim {name} names storage class {class_name}, which does not exist{meant}", remedy, change)
    if found.provisioner == NO_PROVISIONER:
        why = misfits(cycle, claim)
        what = "the class provisions no volumes, and no existing volume fits" + (f" ({why})" if why else "")
        return Lack(f"{_wanted(claim)} is not bound: {what}", create)
    what = f"{found.provisioner} has provisioned no volume for it yet"
    return Lack(f"{_wanted(claim)} is not bound: {what}", f"see whether {found.provisioner} runs, or {create}")


def _default_class(classes: Mapping[str, StorageClass]) -> str:
    """The class that claims get which name none, or the only one that provisions volumes."""
    able = [name for name, one in classes.items() if one.provisioner != NO_PROVISIONER]
    return _default(classes) or (able[0] if len(able) == 1 else "")


def _default(classes: Mapping[str, StorageClass]) -> str:
    """The class that claims get which name none; empty without one."""
    marked = (name for name, one in classes.items() if (one.metadata.annotations or {}).get(DEFAULT_CLASS) == "true")
    return next(marked, "")


def _far(cycle: Cycle, claim: PersistentVolumeClaim, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    volume = cycle.session.snapshot.catalogue.volumes.get(claim.spec.volume_name or "")
    where = _where(volume) if volume is not None else ""
    if volume is not None and where and (OUT_OF_REACH.text in counts or NO_ZONE.text in counts):
        what = f"volume {volume.metadata.name} of claim {claim.metadata.name} is only on nodes with {where}"
        elsewhere = _selecting_others(cycle, volume, pod_class)
        if elsewhere is not None:
            yield Lack(what, f"select nodes with {where}, or use another claim", elsewhere)
            return
        if not _reached(cycle, volume).any():
            yield Lack(
                f"{what}, and no node is there", f"use another claim than {claim.metadata.name}, or add such a node"
            )
        elif _apart(cycle, pod_class):
            yield Lack(what, "use claims whose volumes one node can reach")
        else:
            yield Lack(what, f"add a node with {where} or free one, or use another claim")


def _reached(cycle: Cycle, volume: PersistentVolume) -> BoolArray:
    """``[N]`` the nodes that can use a volume, by its node affinity and zones."""
    affinity, nodes = volume.spec.node_affinity, cycle.session.nodes
    if affinity is not None and affinity.required is not None:
        return match_selector(affinity.required, nodes)
    return VolumeMap(cycle.session.snapshot.catalogue, nodes).in_zone(volume)


def _apart(cycle: Cycle, pod_class: PodClass) -> bool:
    """Whether each bound volume of a pod is on some node, and no node can use all of them."""
    catalogue = cycle.session.snapshot.catalogue
    claims = [catalogue.volume_claims.get(key) for key in pod_class.volumes]
    names = [claim.spec.volume_name or "" for claim in claims if claim is not None]
    reached = [_reached(cycle, catalogue.volumes[name]) for name in names if name in catalogue.volumes]
    return len(reached) > 1 and all(one.any() for one in reached) and not np.logical_and.reduce(reached).any()


def _selecting_others(cycle: Cycle, volume: PersistentVolume, pod_class: PodClass) -> Change | None:
    """What to change of the nodes that pods select, where only others reach the volume; else None."""
    affinity, nodes = volume.spec.node_affinity, cycle.session.nodes
    required = affinity.required if affinity is not None else None
    if required is None:
        return None
    reached = _reached(cycle, volume)
    if not reached.any() or (reached & match_pod(pod_class, nodes)).any():
        return None
    for term in required.node_selector_terms or ():
        for one in term.match_expressions or ():
            selected = pod_class.node_selector.get(one.key)
            if selected is not None and one.operator == "In" and one.values and selected not in one.values:
                return UseLabel(one.key, one.values[0], one.key, selected)
    return RelaxRule("nodeAffinity" if required_of(pod_class) is not None else "nodeSelector")


def _where(volume: PersistentVolume) -> str:
    """The labels that nodes need to reach a volume."""
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        return _selector_text(affinity.required)
    labels = volume.metadata.labels or {}
    return ", ".join(f"{key}={labels[key]}" for key in _ZONES if key in labels)


def _selector_text(selector: NodeSelector) -> str:
    terms = []
    for term in selector.node_selector_terms or ():
        parts = []
        for one in (*(term.match_expressions or ()), *(term.match_fields or ())):
            values = one.values or []
            is_one = one.operator == "In" and len(values) == 1
            parts.append(
                f"{one.key}={values[0]}" if is_one else f"{one.key} {one.operator} {', '.join(values)}".strip()
            )
        terms.append(" and ".join(parts))
    return " or ".join(filter(None, terms))


def _users(cycle: Cycle, key: str) -> tuple[str, ...]:
    """Pods that mount a claim, by name; also those that this cycle places."""
    snapshot, found = cycle.session.snapshot, dict[str, None]()
    for node, claims in snapshot.affinity_index.volume_users.items():
        if key in claims:
            found.update(
                (f"pod {task.name}", None)
                for task in snapshot.tasks_on.get(node, {}).values()
                if key in task.pod_class.volumes
            )
    for placement in cycle.bound:
        if key in placement.pod_class.volumes:
            found.update((f"pod {task.name}", None) for task in placement.tasks)
    return tuple(found)

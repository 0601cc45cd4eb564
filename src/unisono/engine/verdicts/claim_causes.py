"""Which volume claim or device claim keeps a pod away from nodes, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from unisono.api.core import PersistentVolume, PersistentVolumeClaim, StorageClass
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
from unisono.engine.verdicts.lack import Lack, absent
from unisono.engine.verdicts.selector_causes import terms_text

_SHOWN, _MOST_SHOWN = 2, 3
_LOOKED_AT = 1_000
_ELSEWHERE = frozenset((Misfit.NONE, Misfit.CLASS))
_ZONES = (TOPOLOGY_ZONE, TOPOLOGY_REGION, ZONE_BETA, REGION_BETA)
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
            yield absent("PersistentVolumeClaim", key, catalogue.volume_claims)
    for key in pod_class.devices:
        if key not in catalogue.device_claims and not key.endswith("/"):
            yield absent("ResourceClaim", key, catalogue.device_claims)


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
            yield absent("PersistentVolumeClaim", key, catalogue.volume_claims)
            continue
        name, leaving = claim.metadata.name, claim.metadata.deletion_timestamp is not None
        for_one = IN_USE.text in counts and "ReadWriteOncePod" in (claim.spec.access_modes or ())
        users = _users(cycle, key) if leaving or for_one else ()
        ended = f"{listed(users)} {'have' if len(users) > 1 else 'has'} ended" if users else ""
        if leaving:
            what = f"claim {name} is being deleted" + (f", and it is in use by {listed(users)}" if users else "")
            yield Lack(what, f"create claim {name} again once {ended or 'it is gone'}, or use another claim")
        elif for_one:
            one = f"claim {name} allows one pod (ReadWriteOncePod)"
            end = EvictPods((f"{claim.metadata.namespace}/{users[0].removeprefix('pod ')}",)) if users else None
            if users:
                yield Lack(f"{one}, and {listed(users)} has it", f"wait until {ended}, or use another claim", end)
            else:  # the first pod of the gang would have it
                yield Lack(f"{one}, and several pods of the gang name it", "give each pod a claim of its own")
        elif is_bound(claim):
            yield from _far(cycle, claim, pod_class, counts)
        elif NO_VOLUME.text in counts or (UNBOUND.text in counts and not waits(claim, catalogue)):
            yield _unbound(cycle, claim)
        elif NO_SPACE.text in counts:
            most = _most_free(cycle, claim)
            least = f", at most {most} for one volume" if most else ""
            yield Lack(f"{_wanted(claim)} finds no node with so much free storage{least}", f"make claim {name} smaller")


def _users(cycle: Cycle, key: str) -> tuple[str, ...]:
    """Pods that mount a claim, by name; also those that this cycle places."""
    snapshot, users = cycle.session.snapshot, dict[str, None]()
    on_nodes = (node for node, claims in snapshot.affinity_index.volume_users.items() if key in claims)
    for task in (task for node in on_nodes for task in snapshot.tasks_on.get(node, {}).values()):
        users |= {f"pod {task.name}": None} if key in task.pod_class.volumes else {}
    for placement in cycle.bound:
        if key in placement.pod_class.volumes:
            users.update((f"pod {task.name}", None) for task in placement.tasks)
    return tuple(users)


def _wanted(claim: PersistentVolumeClaim) -> str:
    """``claim data (10Gi, ReadWriteOnce, storage class local)``."""
    spec = claim.spec
    size = (spec.resources.requests or {}).get("storage")
    parts = [str(size) if size else "", ", ".join(spec.access_modes or ())]
    parts.append(f"storage class {spec.storage_class_name}" if spec.storage_class_name else "no storage class")
    return f"claim {claim.metadata.name} ({', '.join(filter(None, parts))})"


# ---- no volume is bound to it


def _unbound(cycle: Cycle, claim: PersistentVolumeClaim) -> Lack:
    """Why no volume is bound to a claim, and none can be."""
    catalogue, spec, name = cycle.session.snapshot.catalogue, claim.spec, claim.metadata.name
    class_name, remedy, change = spec.storage_class_name or "", f"create a volume that fits claim {name}", None
    storage_class, default = catalogue.storage_classes.get(class_name), _default_class(catalogue.storage_classes)
    if spec.volume_name and spec.volume_name not in catalogue.volumes:
        meant = _meant(spec.volume_name, islice(catalogue.volumes, MOST_LACKS))
        why, remedy = f"volume {spec.volume_name} does not exist{meant}", f"name a volume that exists in claim {name}"
    elif not class_name:
        why, remedy = f"no volume without a class fits{_misfits(cycle, claim)}", f"{remedy}, or name a class in it"
        change = UseStorageClass(name, default) if default else None
    elif storage_class is None:
        near = nearest(class_name, class_names := sorted(catalogue.storage_classes))
        why = f"storage class {class_name} does not exist{_meant(class_name, class_names)}"
        remedy = f"name storage class {near} in claim {name}" if near else f"create storage class {class_name}"
        change = UseStorageClass(name, near or default) if near or default else None
    elif storage_class.provisioner == NO_PROVISIONER:
        why = f"its class provisions no volumes, and no free one that fits is in reach{_misfits(cycle, claim)}"
    elif storage_class.allowed_topologies:
        why = f"its class makes volumes only on nodes with {_places(storage_class)}{_nodes_there(cycle, storage_class)}"
        remedy = f"add a node with {_places(storage_class)}"
    else:
        why = f"{storage_class.provisioner} has provisioned no volume for it yet"
        remedy = f"see whether {storage_class.provisioner} runs, or {remedy}"
    return Lack(f"{_wanted(claim)} is not bound: {why}", remedy, change)


def _meant(name: str, known: Iterable[str]) -> str:
    """`` (did you mean disk-1?)``, or which there are, where they are few."""
    names = sorted(known)
    few = f" (there is {listed(tuple(names))})" if 0 < len(names) <= _MOST_SHOWN else ""
    return did_you_mean(name, names) or few


def _misfits(cycle: Cycle, claim: PersistentVolumeClaim) -> str:
    """`` (volume disk has volumeMode Filesystem, not Block)``, of volumes of the claim's class."""
    class_name = claim.spec.storage_class_name or ""
    misfits: list[tuple[bool, str]] = []
    for volume in islice(cycle.session.snapshot.catalogue.volumes.values(), _LOOKED_AT):
        reason = misfit(volume, claim)
        if reason not in _ELSEWHERE and (volume.spec.storage_class_name or "") == class_name:
            misfits.append((reason is Misfit.TAKEN, f"volume {volume.metadata.name} {_text(volume, claim, reason)}"))
    return f" ({'; '.join(text for _, text in sorted(misfits)[:_SHOWN])})" if misfits else ""


def _text(volume: PersistentVolume, claim: PersistentVolumeClaim, reason: Misfit) -> str:
    spec, claim_spec = volume.spec, claim.spec
    match reason:
        case Misfit.SIZE:
            return f"has {(spec.capacity or {}).get('storage')}"
        case Misfit.MODE:
            return f"has volumeMode {spec.volume_mode or 'Filesystem'}, not {claim_spec.volume_mode or 'Filesystem'}"
        case Misfit.TAKEN if spec.claim_ref is not None:
            owner = spec.claim_ref
            if (owner.namespace, owner.name) == (claim.metadata.namespace, claim.metadata.name):
                return "belonged to an earlier claim of this name, which was deleted (its claimRef has that UID)"
            return f"belongs to {reference(f'{owner.namespace}/{owner.name}', 'claim')}"
        case Misfit.LABELS:
            asked = selector_text(claim_spec.selector) if claim_spec.selector is not None else ""
            return f"does not have the labels that the claim selects ({asked})"
        case Misfit.ACCESS:
            return f"allows {', '.join(spec.access_modes or ())} only"
        case Misfit.ATTRIBUTES:
            return f"has volume attributes class {spec.volume_attributes_class_name or 'none'}"
        case Misfit.DELETED:
            return "is being deleted"
        case _:
            return f"is {volume.status.phase or 'not available yet'}"


def _places(storage_class: StorageClass) -> str:
    """Where alone a class makes volumes."""
    terms = (term.match_label_expressions or () for term in storage_class.allowed_topologies or ())
    places = (" and ".join(f"{one.key}={' or '.join(one.values or ())}" for one in term) for term in terms)
    return ", or ".join(filter(None, places))


def _nodes_there(cycle: Cycle, storage_class: StorageClass) -> str:
    """``, and the pod cannot use those (n1)``, of the nodes where the class makes volumes."""
    terms = [term.match_label_expressions or () for term in storage_class.allowed_topologies or ()]
    there = tuple(
        name
        for name, facts in zip(cycle.session.snapshot.nodes.names, cycle.session.nodes.facts, strict=True)
        if any(all(facts.labels.get(one.key) in (one.values or ()) for one in term) for term in terms)
    )
    return f", and the pod cannot use those ({listed(there)})" if there else ", and no node is there"


def _most_free(cycle: Cycle, claim: PersistentVolumeClaim) -> str:
    """The largest volume that the driver of the claim's class says it can still make on a node, as it writes it."""
    name = claim.spec.storage_class_name or ""
    capacities = [
        stated
        for one in islice(cycle.session.snapshot.catalogue.storage_capacities.values(), _LOOKED_AT)
        if one.storage_class_name == name
        and (stated := one.capacity if one.maximum_volume_size is None else one.maximum_volume_size) is not None
    ]
    return str(max(capacities, key=to_int, default=""))


def _default_class(classes: Mapping[str, StorageClass]) -> str:
    """The class that claims get which name none, or the only one that provisions volumes."""
    able = [name for name, one in classes.items() if one.provisioner != NO_PROVISIONER]
    return _default(classes) or (able[0] if len(able) == 1 else "")


def _default(classes: Mapping[str, StorageClass]) -> str:
    """The class that claims get which name none; empty without one."""
    marked = (name for name, one in classes.items() if (one.metadata.annotations or {}).get(DEFAULT_CLASS) == "true")
    return next(marked, "")


# ---- its volume is elsewhere


def _far(cycle: Cycle, claim: PersistentVolumeClaim, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    volume = cycle.session.snapshot.catalogue.volumes.get(claim.spec.volume_name or "")
    where = _where(volume) if volume is not None else ""
    if volume is not None and where and (OUT_OF_REACH.text in counts or NO_ZONE.text in counts):
        reached = _reached(cycle, volume)
        what = f"volume {volume.metadata.name} of claim {claim.metadata.name} is only on nodes with {where}"
        remedy = f"use another claim than {claim.metadata.name}, or add or free a node with {where}"
        change = _selecting_others(cycle, volume, pod_class, reached)
        yield Lack(what if reached.any() else f"{what}, and no node is there", remedy, change)


def _where(volume: PersistentVolume) -> str:
    """The labels that nodes need to reach a volume."""
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        return terms_text(affinity.required)
    labels = volume.metadata.labels or {}
    return ", ".join(f"{key}={labels[key]}" for key in _ZONES if key in labels)


def _reached(cycle: Cycle, volume: PersistentVolume) -> BoolArray:
    """``[N]`` the nodes that can use a volume, by its node affinity and zones."""
    affinity, nodes = volume.spec.node_affinity, cycle.session.nodes
    if affinity is not None and affinity.required is not None:
        return match_selector(affinity.required, nodes)
    return VolumeMap(cycle.session.snapshot.catalogue, nodes).in_zone(volume)


def _selecting_others(cycle: Cycle, volume: PersistentVolume, pod_class: PodClass, reached: BoolArray) -> Change | None:
    """What to change of the nodes that pods select, where only others reach the volume; else None."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    if required is None or not reached.any() or (reached & match_pod(pod_class, cycle.session.nodes)).any():
        return None
    for term in required.node_selector_terms or ():
        for one in term.match_expressions or ():
            selected = pod_class.node_selector.get(one.key)
            if selected is not None and one.operator == "In" and one.values and selected not in one.values:
                return UseLabel(one.key, one.values[0], one.key, selected)
    return RelaxRule("nodeAffinity" if required_of(pod_class) is not None else "nodeSelector")

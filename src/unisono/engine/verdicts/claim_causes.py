"""Which volume claim or device claim keeps a pod away from nodes, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unisono.api.core import NodeSelector, PersistentVolume, PersistentVolumeClaim
from unisono.api.keys import NO_PROVISIONER, REGION_BETA, TOPOLOGY_REGION, TOPOLOGY_ZONE, ZONE_BETA
from unisono.api.near_names import did_you_mean
from unisono.cluster.podclass import PodClass
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.predicates.volume_match import is_bound, waits
from unisono.engine.plugins.predicates.volumes import IN_USE, NO_SPACE, NO_VOLUME, NO_ZONE, OUT_OF_REACH, UNBOUND

_ZONES = (TOPOLOGY_ZONE, TOPOLOGY_REGION, ZONE_BETA, REGION_BETA)


def volume_causes(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[str]:
    """One sentence per claim that keeps nodes away."""
    catalogue = cycle.session.snapshot.catalogue
    for key in pod_class.volumes:
        namespace, _, name = key.partition("/")
        claim = catalogue.volume_claims.get(key)
        if claim is None:
            siblings = [one.partition("/")[2] for one in catalogue.volume_claims if one.startswith(f"{namespace}/")]
            meant = did_you_mean(name, siblings)
            if meant:
                yield f"claim {name} does not exist{meant}"
        elif IN_USE.text in counts and "ReadWriteOncePod" in (claim.spec.access_modes or ()):
            users = _users(cycle, key)
            if users:
                yield f"claim {name} allows one pod (ReadWriteOncePod), and {listed(users)} has it"
        elif is_bound(claim):
            yield _far(cycle, claim, counts)
        elif UNBOUND.text in counts and not waits(claim, catalogue):
            yield _unbound(cycle, claim)
        elif NO_VOLUME.text in counts:
            yield f"{_wanted(claim)} finds no free volume that fits"
        elif NO_SPACE.text in counts:
            yield f"{_wanted(claim)} finds no node with so much free storage"


def _wanted(claim: PersistentVolumeClaim) -> str:
    """``claim data (10Gi, ReadWriteOnce, storage class local)``."""
    spec = claim.spec
    size = (spec.resources.requests or {}).get("storage")
    parts = [str(size) if size else "", ", ".join(spec.access_modes or ())]
    parts.append(f"storage class {spec.storage_class_name}" if spec.storage_class_name else "no storage class")
    return f"claim {claim.metadata.name} ({', '.join(filter(None, parts))})"


def _unbound(cycle: Cycle, claim: PersistentVolumeClaim) -> str:
    catalogue = cycle.session.snapshot.catalogue
    spec, name = claim.spec, claim.metadata.name
    if spec.volume_name and spec.volume_name not in catalogue.volumes:
        meant = did_you_mean(spec.volume_name, catalogue.volumes)
        return f"claim {name} names volume {spec.volume_name}, which does not exist{meant}"
    class_name = spec.storage_class_name or ""
    if not class_name:
        return f"claim {name} is not bound: it names no storage class, and no volume without one fits"
    found = catalogue.storage_classes.get(class_name)
    if found is None:
        known = sorted(catalogue.storage_classes)
        meant = did_you_mean(class_name, known) or (f" (there is {listed(tuple(known))})" if known else "")
        return f"claim {name} names storage class {class_name}, which does not exist{meant}"
    if found.provisioner == NO_PROVISIONER:
        return f"{_wanted(claim)} is not bound: the class provisions no volumes, and no existing volume fits"
    return f"{_wanted(claim)} is not bound: {found.provisioner} has provisioned no volume for it yet"


def _far(cycle: Cycle, claim: PersistentVolumeClaim, counts: Mapping[str, int]) -> str:
    volume = cycle.session.snapshot.catalogue.volumes.get(claim.spec.volume_name or "")
    if volume is None or not (OUT_OF_REACH.text in counts or NO_ZONE.text in counts):
        return ""
    where = _where(volume)
    return (
        f"volume {volume.metadata.name} of claim {claim.metadata.name} is only on nodes with {where}" if where else ""
    )


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
    for node, claims in snapshot.neighbours.volume_users.items():
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


def device_causes(cycle: Cycle, pod_class: PodClass) -> Iterator[str]:
    """Claims and device classes that do not exist, with near misses; else the classes that claims ask for."""
    catalogue = cycle.session.snapshot.catalogue
    classes = catalogue.device_classes
    for key in pod_class.devices:
        namespace, _, name = key.partition("/")
        claim = catalogue.device_claims.get(key)
        if claim is None:
            siblings = [one.partition("/")[2] for one in catalogue.device_claims if one.startswith(f"{namespace}/")]
            meant = did_you_mean(name, siblings)
            if name and meant:
                yield f"resource claim {name} does not exist{meant}"
            continue
        for request in claim.spec.devices.requests or ():
            given = [request.exactly] if request.exactly is not None else list(request.first_available or ())
            for one in given:
                wanted = one.device_class_name
                if wanted not in classes:
                    drivers = {piece.spec.driver for piece in catalogue.device_slices.values()}
                    meant = did_you_mean(wanted, sorted({*classes, *drivers}))
                    yield f"resource claim {name} names device class {wanted}, which does not exist{meant}"

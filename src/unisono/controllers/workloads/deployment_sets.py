"""ReplicaSets of a Deployment: which has the present template, what they are called, which revision they are (pure)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unisono.api import keys
from unisono.api.base import LabelSelector, ObjectMeta
from unisono.api.core import PodTemplateSpec
from unisono.api.groups.apps import Deployment, ReplicaSet, ReplicaSetSpec
from unisono.api.keys import LAST_APPLIED
from unisono.api.kind_families import DEPLOYMENTS
from unisono.controllers.owners import owned_by
from unisono.controllers.texts import whole_number
from unisono.controllers.workloads.amounts import amount
from unisono.controllers.workloads.templates import short_hash

HASH_LABEL = keys.POD_TEMPLATE_HASH
_PREFIX = "deployment.kubernetes.io/"
REVISION = f"{_PREFIX}revision"
HISTORY = f"{_PREFIX}revision-history"
DESIRED = f"{_PREFIX}desired-replicas"
MAXIMUM = f"{_PREFIX}max-replicas"
# What a Deployment's ReplicaSets do not take over from its annotations.
_OWN = {
    LAST_APPLIED,
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
}


def wanted(deployment: Deployment) -> int:
    """Replicas of the Deployment."""
    return deployment.spec.replicas or 0


def size(replica_set: ReplicaSet) -> int:
    """Replicas that the ReplicaSet should have."""
    return replica_set.spec.replicas or 0


def available(replica_set: ReplicaSet) -> int:
    """Available pods; never more than the ReplicaSet should have, for the others are about to go."""
    return min(size(replica_set), replica_set.status.available_replicas or 0)


def limits(deployment: Deployment) -> tuple[int, int]:
    """Pods that may be there beyond the replicas, and pods that may be missing, during a rolling update."""
    rolling, replicas = deployment.spec.strategy.rolling_update, wanted(deployment)
    if deployment.spec.strategy.type == "Recreate" or rolling is None or not replicas:
        return 0, 0
    surge = amount(rolling.max_surge, replicas, up=True)
    missing = amount(rolling.max_unavailable, replicas, up=False)
    if not surge and not missing:
        # Both rounded to nothing: without one of them no step could ever be taken.
        missing = 1
    return surge, min(missing, replicas)


def age(replica_set: ReplicaSet) -> tuple[str, str]:
    """Sorts ReplicaSets, the oldest first."""
    meta = replica_set.metadata
    return meta.creation_timestamp or "", meta.name


def find_new(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The oldest ReplicaSet with the Deployment's present template."""
    present = _plain(deployment.spec.template)
    return next((each for each in sorted(sets, key=age) if _plain(each.spec.template) == present), None)


def revision(replica_set: ReplicaSet) -> int:
    """Its number; 0 where it has none."""
    return whole_number((replica_set.metadata.annotations or {}).get(REVISION)) or 0


def noted(replica_set: ReplicaSet, key: str) -> int | None:
    """A number among the annotations."""
    return whole_number((replica_set.metadata.annotations or {}).get(key))


def sizes_noted(deployment: Deployment) -> dict[str, str]:
    """Annotations by which a later look sees that the Deployment was scaled."""
    replicas, (surge, _) = wanted(deployment), limits(deployment)
    return {DESIRED: str(replicas), MAXIMUM: str(replicas + surge)}


def new_annotations(deployment: Deployment, replica_set: ReplicaSet | None, number: int) -> dict[str, str]:
    """Annotations of the ReplicaSet with the present template, as far as they are not right yet.

    Args:
        deployment: its owner.
        replica_set: the ReplicaSet; None while it is made.
        number: the revision that it should at least have.

    """
    have = (replica_set.metadata.annotations or {}) if replica_set is not None else {}
    notes = {key: text for key, text in (deployment.metadata.annotations or {}).items() if key not in _OWN}
    if replica_set is None or revision(replica_set) < number:
        notes[REVISION] = str(number)
        if have.get(REVISION):
            before = have.get(HISTORY, "")
            notes[HISTORY] = f"{before},{have[REVISION]}".strip(",")
    return {key: text for key, text in notes.items() if have.get(key) != text}


def new_set(deployment: Deployment, number: int, replicas: int) -> ReplicaSet:
    """The ReplicaSet for the Deployment's present template.

    Args:
        deployment: its owner.
        number: its revision.
        replicas: how many pods it starts with.

    """
    spec, meta = deployment.spec, deployment.metadata
    mark = short_hash(spec.template, deployment.status.collision_count)
    template: PodTemplateSpec = msgspec.json.decode(msgspec.json.encode(spec.template), type=PodTemplateSpec)
    template.metadata.labels = {**(template.metadata.labels or {}), HASH_LABEL: mark}
    selector = spec.selector or LabelSelector()
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{meta.name}-{mark}",
            namespace=meta.namespace,
            labels=template.metadata.labels,
            annotations=new_annotations(deployment, None, number) | sizes_noted(deployment),
            owner_references=[owned_by(DEPLOYMENTS, deployment)],
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            min_ready_seconds=spec.min_ready_seconds,
            selector=LabelSelector(
                match_labels={**(selector.match_labels or {}), HASH_LABEL: mark},
                match_expressions=selector.match_expressions,
            ),
            template=template,
        ),
    )


def _plain(template: PodTemplateSpec) -> PodTemplateSpec:
    """The template without the hash, as the Deployment has it."""
    labels = {key: text for key, text in (template.metadata.labels or {}).items() if key != HASH_LABEL}
    metadata = msgspec.structs.replace(template.metadata, labels=labels or None)
    return msgspec.structs.replace(template, metadata=metadata)

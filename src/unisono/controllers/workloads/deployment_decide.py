"""The next step of a Deployment: a pure function from its ReplicaSets to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from unisono.api import keys
from unisono.api.base import LabelSelector, ObjectMeta
from unisono.api.core import PodTemplateSpec
from unisono.api.groups.apps import Deployment, ReplicaSet, ReplicaSetSpec
from unisono.api.keys import LAST_APPLIED
from unisono.api.kind_families import DEPLOYMENTS
from unisono.controllers.owners import owned_by, whole_number
from unisono.controllers.workloads.templates import amount, short_hash

# ReplicaSets of a Deployment: which has the present template, what they are called, which revision they are (pure).

_PREFIX = "deployment.kubernetes.io/"
REVISION = f"{_PREFIX}revision"
HISTORY = f"{_PREFIX}revision-history"
DESIRED = f"{_PREFIX}desired-replicas"
MAXIMUM = f"{_PREFIX}max-replicas"
# What a Deployment's ReplicaSets do not take over from its annotations.
_OWN = {LAST_APPLIED, "deprecated.deployment.rollback.to", REVISION, HISTORY, DESIRED, MAXIMUM}


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
    template.metadata.labels = {**(template.metadata.labels or {}), keys.POD_TEMPLATE_HASH: mark}
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
                match_labels={**(selector.match_labels or {}), keys.POD_TEMPLATE_HASH: mark},
                match_expressions=selector.match_expressions,
            ),
            template=template,
        ),
    )


def _plain(template: PodTemplateSpec) -> PodTemplateSpec:
    """The template without the hash, as the Deployment has it."""
    labels = {key: text for key, text in (template.metadata.labels or {}).items() if key != keys.POD_TEMPLATE_HASH}
    metadata = msgspec.structs.replace(template.metadata, labels=labels or None)
    return msgspec.structs.replace(template, metadata=metadata)


@dataclass(slots=True)
class Change:
    """What becomes different about one ReplicaSet; None leaves the replicas alone."""

    replicas: int | None = None
    min_ready_seconds: int | None = None
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class DeploymentPlan:
    """Steps of a Deployment.

    Attributes:
        new: the ReplicaSet with the present template, if it is there.
        create: the ReplicaSet to make.
        changes: by name of the ReplicaSet.
        delete: old ReplicaSets beyond the history limit.
        revision: number of the present template, empty while it has none.
    """

    new: ReplicaSet | None = None
    create: ReplicaSet | None = None
    changes: dict[str, Change] = field(default_factory=dict)
    delete: list[ReplicaSet] = field(default_factory=list)
    revision: str = ""

    def change(self, replica_set: ReplicaSet) -> Change:
        """The change of this ReplicaSet, for adding to it."""
        return self.changes.setdefault(replica_set.metadata.name, Change())

    def scale(self, deployment: Deployment, replica_set: ReplicaSet, replicas: int) -> bool:
        """Give the ReplicaSet so many replicas; whether that is a change."""
        notes = sizes_noted(deployment)
        have = replica_set.metadata.annotations or {}
        if any(have.get(key) != text for key, text in notes.items()):
            self.change(replica_set).annotations.update(notes)
        if size(replica_set) == replicas:
            return False
        self.change(replica_set).replicas = replicas
        return True


def decide(deployment: Deployment, sets: Sequence[ReplicaSet], *, old_pods: bool) -> DeploymentPlan:
    """The next step; after it has been taken and the ReplicaSets have followed, the one after that.

    Args:
        deployment: one that is being deleted gets an empty plan.
        sets: its ReplicaSets.
        old_pods: whether pods of old ReplicaSets have not ended yet.
    """
    new = find_new(deployment, sets)
    plan = DeploymentPlan(new=new)
    if deployment.metadata.deletion_timestamp:
        return plan
    old = sorted((each for each in sets if each is not new), key=age)
    number = max((revision(each) for each in old), default=0) + 1
    if new is not None:
        plan.revision = str(max(revision(new), number))
    if deployment.spec.paused or _was_scaled(deployment, sets):
        _scale(plan, deployment, new, old)
    else:
        _keep_current(plan, deployment, new, number)
        if deployment.spec.strategy.type == "Recreate":
            _recreate(plan, deployment, new, old, number, old_pods=old_pods)
        else:
            _roll(plan, deployment, new, old, number)
    if deployment.spec.paused or is_complete(deployment):
        plan.delete = _superfluous(deployment, old)
    if plan.create is not None:
        plan.revision = str(number)
    return plan


def is_complete(deployment: Deployment) -> bool:
    """Whether, by its status, all replicas have the present template and are available, and no other pod is left."""
    status, replicas = deployment.status, wanted(deployment)
    counts = (status.updated_replicas or 0, status.replicas or 0, status.available_replicas or 0)
    return counts == (replicas,) * 3 and (status.observed_generation or 0) >= (deployment.metadata.generation or 0)


def _keep_current(plan: DeploymentPlan, deployment: Deployment, new: ReplicaSet | None, number: int) -> None:
    """Annotations and the waiting time of the ReplicaSet with the present template."""
    if new is None:
        return
    notes = new_annotations(deployment, new, number)
    if notes:
        plan.change(new).annotations.update(notes)
    if (new.spec.min_ready_seconds or 0) != (deployment.spec.min_ready_seconds or 0):
        plan.change(new).min_ready_seconds = deployment.spec.min_ready_seconds or 0


def _was_scaled(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the number of replicas is another than at the last step."""
    desired = (noted(each, DESIRED) for each in sets if size(each))
    return any(number is not None and number != wanted(deployment) for number in desired)


def _recreate(
    plan: DeploymentPlan,
    deployment: Deployment,
    new: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    number: int,
    *,
    old_pods: bool,
) -> None:
    scaled = [plan.scale(deployment, each, 0) for each in old if size(each)]
    if any(scaled) or old_pods:
        return
    if new is None:
        plan.create = new_set(deployment, number, wanted(deployment))
    else:
        plan.scale(deployment, new, wanted(deployment))


def _roll(
    plan: DeploymentPlan, deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], number: int
) -> None:
    """New pods as far as the surge allows, else fewer old ones as far as availability allows."""
    replicas, (surge, missing) = wanted(deployment), limits(deployment)
    total = sum(map(size, old)) + (size(new) if new is not None else 0)
    present = size(new) if new is not None else 0
    target = min(replicas, present + max(0, replicas + surge - total))
    if new is None:
        plan.create = new_set(deployment, number, target)
        return
    if plan.scale(deployment, new, replicas if present > replicas else target):
        return
    spare = total - (replicas - missing) - (present - available(new))
    if spare <= 0:
        return
    sizes = {each.metadata.name: size(each) for each in old}
    # Those that do not work go first: no client misses them.
    left = spare
    for each in old:
        broken = min(left, size(each) - available(each))
        sizes[each.metadata.name] -= broken
        left -= broken
    surplus = available(new) + sum(map(available, old)) - (replicas - missing)
    for each in old:
        taken = max(0, min(left, surplus, sizes[each.metadata.name]))
        sizes[each.metadata.name] -= taken
        left, surplus = left - taken, surplus - taken
    for each in old:
        if sizes[each.metadata.name] != size(each):
            plan.scale(deployment, each, sizes[each.metadata.name])


def _scale(plan: DeploymentPlan, deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> None:
    """Another number of replicas while an update may be under way: all ReplicaSets grow or shrink in proportion."""
    every = [*old, *([new] if new is not None else [])]
    active = [each for each in every if size(each)]
    if len(active) <= 1:
        only = active[0] if active else new or (max(old, key=age) if old else None)
        if only is not None:
            plan.scale(deployment, only, wanted(deployment))
        return
    if new is not None and _is_saturated(deployment, new):
        for each in old:
            if size(each):
                plan.scale(deployment, each, 0)
        return
    if deployment.spec.strategy.type == "Recreate":
        return
    replicas, (surge, _) = wanted(deployment), limits(deployment)
    allowed = replicas + surge if replicas else 0
    missing = allowed - sum(map(size, active))
    # Larger ones first; of equal ones the new when growing, the old when shrinking.
    active.sort(key=age, reverse=missing > 0)
    active.sort(key=size, reverse=True)
    sizes: dict[str, int] = {}
    added = 0
    for each in active:
        share = _share(deployment, each, allowed) if missing else 0
        share = min(share, missing - added) if missing > 0 else max(share, missing - added)
        sizes[each.metadata.name] = size(each) + share
        added += share
    if active:
        first = active[0].metadata.name
        sizes[first] = max(0, sizes[first] + missing - added)
    for each in active:
        plan.scale(deployment, each, sizes[each.metadata.name])


def _share(deployment: Deployment, replica_set: ReplicaSet, allowed: int) -> int:
    """How many pods a ReplicaSet gets or loses so that its part of the whole stays."""
    if not wanted(deployment):
        return -size(replica_set)
    before = noted(replica_set, MAXIMUM) or deployment.status.replicas or 0
    if not before:
        return 0
    # Halves are rounded away from zero, as Kubernetes does.
    return int(size(replica_set) * allowed / before + 0.5) - size(replica_set)


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    replicas = wanted(deployment)
    return size(new) == replicas == noted(new, DESIRED) and available(new) == replicas


def _superfluous(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Old ReplicaSets without pods, beyond those that are kept to go back to."""
    limit = deployment.spec.revision_history_limit
    if limit is None:
        return []
    kept = [each for each in old if not each.metadata.deletion_timestamp]
    surplus = sorted(kept, key=lambda each: (revision(each), age(each)))[: max(0, len(kept) - limit)]
    return [
        each
        for each in surplus
        if not size(each)
        and not each.status.replicas
        and (each.status.observed_generation or 0) >= (each.metadata.generation or 0)
    ]

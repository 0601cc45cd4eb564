"""The next step of a StatefulSet: a pure function from its pods to a plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from unisono.api.core import Pod
from unisono.api.groups.apps import StatefulSet, StatefulSetStatus
from unisono.api.pod_states import has_ended
from unisono.controllers.objects import SLICE
from unisono.controllers.owners import whole_number
from unisono.controllers.pod_facts import is_available, is_deleting, is_ready, is_running, next_available, staying
from unisono.controllers.workloads.templates import amount, refused_for, revision_of
from unisono.kube.controller import sooner

_ORDINAL = re.compile(r"(.*)-([0-9]+)")


@dataclass(slots=True)
class StatefulPlan:
    """What to do about a StatefulSet's pods.

    Attributes:
        create: ordinals of pods to make, each with the name of its revision.
        delete: pods to delete.
        requeue_after: seconds until something is due by waiting.
    """

    create: list[tuple[int, str]] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    requeue_after: float | None = None


def ordinal(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """The pod's number; None for a pod that is not named after the set."""
    match = _ORDINAL.fullmatch(pod.metadata.name)
    return whole_number(match[2]) if match and match[1] == stateful_set.metadata.name else None


def first(stateful_set: StatefulSet) -> int:
    """The number of the first pod."""
    ordinals = stateful_set.spec.ordinals
    return (ordinals.start or 0) if ordinals is not None else 0


def slots(stateful_set: StatefulSet) -> range:
    """The numbers that pods should have."""
    start = first(stateful_set)
    return range(start, start + (stateful_set.spec.replicas or 0))


def decide(stateful_set: StatefulSet, pods: Sequence[Pod], current: str, update: str, now: float) -> StatefulPlan:
    """The next step.

    Args:
        stateful_set: one that is being deleted gets an empty plan.
        pods: its pods.
        current: name of the revision that pods below the partition keep.
        update: name of the present template's revision.
        now: seconds since 1970.
    """
    spec = stateful_set.spec
    waiting = spec.min_ready_seconds or 0
    plan = StatefulPlan(requeue_after=next_available(pods, waiting, now))
    if stateful_set.metadata.deletion_timestamp:
        return plan
    have = {number: pod for pod in pods if (number := ordinal(stateful_set, pod)) is not None}
    one_by_one = spec.pod_management_policy != "Parallel"
    if not _fill(plan, stateful_set, have, current, update, now) and one_by_one:
        return plan
    if not _shrink(plan, stateful_set, have, now) and one_by_one:
        return plan
    _roll(plan, stateful_set, have, update, now)
    return plan


def _fill(
    plan: StatefulPlan, stateful_set: StatefulSet, have: dict[int, Pod], current: str, update: str, now: float
) -> bool:
    """Make what is missing, the lowest number first; whether nothing is missing or on its way."""
    spec, complete = stateful_set.spec, True
    one_by_one = spec.pod_management_policy != "Parallel"
    for number in slots(stateful_set):
        pod = have.get(number)
        if pod is None:
            if len(plan.create) >= SLICE:
                plan.requeue_after = 0.0
                return False
            plan.create.append((number, _revision_for(stateful_set, number, current, update)))
        elif has_ended(pod):
            # Its name is free when it has gone; then a new one is made.
            left = refused_for(pod, now)
            if left > 0:
                plan.requeue_after = sooner(plan.requeue_after, left)
            else:
                plan.delete.append(pod)
        elif not is_deleting(pod) and is_available(pod, spec.min_ready_seconds or 0, now):
            continue
        elif not is_deleting(pod) and not is_ready(pod) and _outdated(stateful_set, number, pod, update):
            # It would never be waited for: a template that does not work must be replaceable.
            plan.delete.append(pod)
        complete = False
        if one_by_one:
            return False
    return complete


def _shrink(plan: StatefulPlan, stateful_set: StatefulSet, have: dict[int, Pod], now: float) -> bool:
    """Delete pods whose number is too high (or below the first), the highest first; whether none is left."""
    ordinals = slots(stateful_set)
    one_by_one = stateful_set.spec.pod_management_policy != "Parallel"
    condemned = sorted((number for number in have if number not in ordinals), reverse=True)
    for number in condemned:
        pod = have[number]
        if not is_deleting(pod):
            plan.delete.append(pod)
        if one_by_one:
            return False
    return not condemned


def _roll(plan: StatefulPlan, stateful_set: StatefulSet, have: dict[int, Pod], update: str, now: float) -> None:
    """Replace pods of older templates, the highest number first, as many at once as may be missing."""
    spec = stateful_set.spec
    if spec.update_strategy.type == "OnDelete" or plan.create:
        return
    rolling, waiting = spec.update_strategy.rolling_update, spec.min_ready_seconds or 0
    most = rolling.max_unavailable if rolling is not None else None
    allowed = max(1, amount(most, spec.replicas or 0, up=False)) if most is not None else 1
    numbers = slots(stateful_set)
    ordinals = [number for number in sorted(have) if number in numbers]
    missing = sum(
        bool(have[number].metadata.deletion_timestamp) or not is_available(have[number], waiting, now)
        for number in ordinals
    )
    for number in reversed(ordinals):
        pod = have[number]
        if is_deleting(pod) or pod in plan.delete or not _outdated(stateful_set, number, pod, update):
            continue
        if not is_available(pod, waiting, now):
            plan.delete.append(pod)
        elif missing < allowed:
            plan.delete.append(pod)
            missing += 1


def _outdated(stateful_set: StatefulSet, number: int, pod: Pod, update: str) -> bool:
    """Whether the update strategy replaces the pod."""
    strategy = stateful_set.spec.update_strategy
    if strategy.type == "OnDelete":
        return False
    partition = (strategy.rolling_update.partition or 0) if strategy.rolling_update is not None else 0
    return number >= first(stateful_set) + partition and revision_of(pod) != update


def _revision_for(stateful_set: StatefulSet, number: int, current: str, update: str) -> str:
    rolling = stateful_set.spec.update_strategy.rolling_update
    partition = (rolling.partition or 0) if rolling is not None else 0
    return current if number < first(stateful_set) + partition else update


def status_of(
    stateful_set: StatefulSet, pods: Sequence[Pod], current: str, update: str, now: float
) -> StatefulSetStatus:
    """The status for these pods; when all of them have the present template it becomes the current one."""
    spec, old = stateful_set.spec, stateful_set.status
    alive = staying(pods)
    ready = sum(is_running(pod) and is_ready(pod) for pod in pods)
    updated = sum(revision_of(pod) == update for pod in alive)
    at_current = sum(revision_of(pod) == current for pod in alive)
    if spec.update_strategy.type != "OnDelete" and updated == len(pods) == ready:
        current, at_current = update, updated
    return StatefulSetStatus(
        observed_generation=stateful_set.metadata.generation,
        replicas=len(pods),
        ready_replicas=ready or None,
        available_replicas=sum(is_available(pod, spec.min_ready_seconds or 0, now) for pod in alive),
        current_replicas=at_current or None,
        updated_replicas=updated or None,
        current_revision=current,
        update_revision=update,
        collision_count=old.collision_count or 0,
        conditions=old.conditions,
    )

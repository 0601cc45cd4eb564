"""What each change does to a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import singledispatch
from typing import Any, TypeVar

import msgspec

from unisono.api.annotations import GANG_PARTS, RUN_SECONDS, USER_LIMITS
from unisono.api.base import Object
from unisono.api.extended_devices import on_node
from unisono.api.gang_affinity import WORDS
from unisono.api.keys import CLOSED_BY_PARENT, HOSTNAME, JOB_VERSION
from unisono.api.licenses import UNIT
from unisono.api.node_checks import of_new_one, without_quarantine
from unisono.api.pod_states import stated_run_seconds
from unisono.api.queues import Family, exceeded, oversubscribed, raised, with_group
from unisono.api.selecting import ROOT
from unisono.cluster.groups import TopologyWish
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job, Task
from unisono.cluster.status import COMPLETED_STATES, READY_STATES, TaskStatus, count
from unisono.engine import changes
from unisono.engine.plugins.predicates.volume_match import waits
from unisono.engine.verdicts.edit import Edit
from unisono.engine.verdicts.holders import is_created_again, is_of_daemonset
from unisono.engine.verdicts.unmade_pods import unmade_pods
from unisono.errors import EngineError

FIRST, LAST = "!added-", "~added-"
"""Names that come before and after all names of real nodes: among equal nodes the first one is taken."""
MOST_ADDED = 4_000
"""Nodes or pods that a trial adds at most: how many a gang lacks is for its owner to say."""


@singledispatch
def apply(change: changes.Change, edit: Edit, job: str) -> None:
    """Make the change; ``job`` is the key of the PodGroup that it is for."""
    raise TypeError(f"unknown change {change!r}")


@apply.register
def _lower(change: changes.LowerMinAvailable, edit: Edit, job: str) -> None:
    record = edit.job(job)
    if record.min_resources is not None and record.min_member:
        record.min_resources = -(-record.min_resources * change.to // record.min_member)
        amounts, kept = (record.min_amounts or {}).items(), record.licenses  # which do not come with the members
        record.min_amounts = {
            name: kept.get(name, 0) - ((kept.get(name, 0) - amount) * change.to // record.min_member)
            for name, amount in amounts
            if amount
        }
        if kept:
            record.min_resources = edit.origin.registry.vector(record.min_amounts)
    record.min_member = change.to


@apply.register
def _state(change: changes.SetMinResources, edit: Edit, job: str) -> None:
    record = edit.job(job)
    _state_minimum(edit, record, {**(record.min_amounts or {}), **change.amounts})


def _bounded(count: int) -> int:
    """How many nodes or pods a change adds; a user's minMember must not decide how much memory a cycle takes."""
    if count > MOST_ADDED:
        raise EngineError(f"{count} nodes or pods are more than a trial may add")
    return count


@apply.register
def _add_nodes(change: changes.AddNodes, edit: Edit, job: str) -> None:
    add_nodes(change, edit, FIRST)


def add_nodes(change: changes.AddNodes, edit: Edit, prefix: str) -> None:
    """Add copies of a node whose names begin with ``prefix``; they have passed their checks."""
    table, checks = edit.origin.nodes, edit.origin.catalogue.node_checks
    like = table.facts[table.index[change.like]]
    daemons = [task for task in edit.origin.tasks_on.get(change.like, {}).values() if is_of_daemonset(task)]
    slices = [one for one in edit.origin.catalogue.device_slices.values() if one.spec.node_name == change.like]
    for number in range(_bounded(change.count)):
        facts = copy(like)
        facts.name = f"{prefix}{number}"
        facts.labels = {**like.labels, HOSTNAME: facts.name}
        facts.taints = tuple(without_quarantine(like.taints))
        passed = [rule.name for _, rule in checks.items() if rule.means(facts.name, facts.labels)]
        facts.annotations = of_new_one(like.annotations, passed, 0.0)
        edit.join(facts, [_on(task, facts.name) for task in daemons], [on_node(one, facts.name) for one in slices])


def _on(task: Task, node: str) -> Task:
    """The pod that a DaemonSet puts on another node."""
    made = copy(task)
    made.name, made.uid, made.node, made.status = f"{task.name}-{node}", f"{task.uid}-{node}", node, TaskStatus.RUNNING
    made.key, made.job = f"{task.namespace}/{made.name}", ""
    return made


@apply.register
def _raise_quota(change: changes.RaiseQuota, edit: Edit, job: str) -> None:
    namespace = job.partition("/")[0]
    quota = edit.origin.quotas[namespace][change.quota]
    edit.quota(replace(quota, hard=_changed(quota.hard, change)))
    record = edit.job(job)
    there = sum(task.status not in COMPLETED_STATES for task in record.tasks.values())
    if there and there < record.min_member and record.phase != "Pending":  # their controller tries again
        apply(changes.CreatePods(record.min_member - there), edit, job)


@apply.register
def _set_licenses(change: changes.SetLicenses, edit: Edit, job: str) -> None:
    edit.floating(change.name, change.to * UNIT)


@apply.register
def _raise_budget(change: changes.RaiseBudget, edit: Edit, job: str) -> None:
    edit.budget(change.name, change.amounts)


@apply.register
def _of_limits(
    change: changes.RaiseCapability | changes.RaiseDeserved | changes.LowerGuarantee, edit: Edit, job: str
) -> None:
    record, field = edit.queue(change.queue), change.path[0]
    setattr(record, field, _changed(getattr(record, field), change))
    queues, above = edit.origin.queues, record.parent
    if field == "capability":
        own = {name: (record.capability or {})[name] for name in change.amounts}
        for resource, smaller, _ in exceeded(change.queue, own, lambda name: _family(edit, name)):
            raise EngineError(f"queue {smaller} above {change.queue} has a smaller capability of {resource}")
    elif field == "deserved" and above not in ("", ROOT) and above in queues:
        children = [edit.queue(name).deserved or {} for name, one in queues.items() if one.parent == above]
        for resource in oversubscribed(edit.queue(above).deserved or {}, children):
            if resource in change.amounts:
                raise EngineError(f"the queues below {above} would deserve more {resource} than it does")


def _changed(limits: Mapping[str, int] | None, change: changes.OfLimits) -> dict[str, int]:
    amounts = dict(limits or {})
    return amounts | {name: max(amounts.get(name, 0) + step, 0) for name, step in change.steps().items()}


def _family(edit: Edit, name: str) -> Family | None:
    exists = name in edit.origin.queues
    return Family(edit.origin.queues[name].parent, edit.queue(name).capability or {}) if exists else None


@apply.register
def _of_queue_spec(change: changes.OfQueueSpec, edit: Edit, job: str) -> None:
    record = edit.queue(change.queue)
    for field, value in change.fields().items():
        if field == "dequeueStrategy":
            record.fifo = value == "fifo"
        else:
            setattr(record, field, value)


@apply.register
def _open(change: changes.OpenQueue, edit: Edit, job: str) -> None:
    edit.queue(change.queue).state = "Open"
    for name, record in edit.origin.queues.items():
        if record.annotations.get(CLOSED_BY_PARENT) == "true" and is_below(edit, name, change.queue):
            edit.queue(name).state = "Open"


def is_below(edit: Edit, name: str, ancestor: str) -> bool:
    """Whether a queue stands below another one."""
    for _ in edit.origin.queues:
        record = edit.origin.queues.get(name)
        if record is None:
            return False
        if record.parent == ancestor:
            return True
        name = record.parent
    return False


@apply.register
def _create_queue(change: changes.CreateQueue, edit: Edit, job: str) -> None:
    record = edit.queue(change.queue)
    record.known, record.state = True, "Open"


@apply.register
def _of_nodes(change: changes.Uncordon | changes.LiftQuarantine | changes.AddLabels, edit: Edit, job: str) -> None:
    for name in change.nodes:
        facts = edit.facts(name)
        match change:
            case changes.Uncordon():
                facts.unschedulable = False
            case changes.LiftQuarantine():
                facts.taints = tuple(without_quarantine(facts.taints))
            case changes.AddLabels():
                facts.labels = {**facts.labels, **change.labels}
        edit.node(facts)


@apply.register
def _allow(change: changes.AllowTier, edit: Edit, job: str) -> None:
    record = edit.job(job)
    if record.topology is not None and record.topology.hard:
        record.topology = TopologyWish(True, change.tier, "")
    record.sub_groups = tuple(
        policy.allowing(change.tier) if policy.wish is not None and policy.wish.hard else policy
        for policy in record.sub_groups
    )


# ---- the job's pods


@apply.register
def _of_pods(change: changes.OfPods, edit: Edit, job: str) -> None:
    what = str(change)
    for old in list(edit.job(job).tasks.values()):
        if old.status is TaskStatus.PENDING or (change.running and old.status not in COMPLETED_STATES):
            task = edit.task(old.key)
            task.pod_class = edit.edited_class(task, change, what)
            edit.put(task)


def _each_class(edit: Edit, job: str, what: str, changed: Callable[[PodClass], dict[str, Any]]) -> None:
    """Give the pods that wait other classes."""
    for old in list(edit.job(job).tasks.values()):
        if old.status is TaskStatus.PENDING:
            task = edit.task(old.key)
            given = changed(old.pod_class)
            task.pod_class = edit.pod_class(old.pod_class, what, **given)
            # What they would take elsewhere of what they ask less for is not known.
            kept = {} if "requests" in given else old.scaled
            task.scaled = {times: edit.pod_class(one, what, **changed(one)) for times, one in kept.items()}
            edit.put(task)


@apply.register
def _remove_gates(change: changes.RemoveGates, edit: Edit, job: str) -> None:
    for key in change.pods:
        task = edit.task(key)
        task.gated = False
        edit.put(task)


@apply.register
def _request(change: changes.RequestAtMost, edit: Edit, job: str) -> None:
    record = edit.job(job)
    if record.min_resources is not None:  # its maker adds up what the pods request
        _state_minimum(edit, record, _added_up(edit, record, change.amounts))
    _of_pods(change, edit, job)


def _state_minimum(edit: Edit, record: Job, amounts: dict[str, int]) -> None:
    record.min_amounts, record.min_resources = amounts, edit.origin.registry.vector(amounts)


def _added_up(edit: Edit, record: Job, most: Mapping[str, int]) -> dict[str, int]:
    """The job's minResources where no pod asks for more than ``most``, by role where that is known."""
    amounts, unmade = dict(record.min_amounts or {}), unmade_pods(edit.origin, record)
    pods = [(one.count, one.pod_class) for one in unmade]
    pods += [(1, task.pod_class) for task in record.tasks.values() if task.status is TaskStatus.PENDING]
    whole = sum(number for number, _ in pods) == record.min_member
    for name in amounts.keys() & most.keys():
        if whole:
            over = sum(number * max(one.requests.get(name, 0) - most[name], 0) for number, one in pods)
            amounts[name] = max(amounts[name] - over, 0)
        amounts[name] = min(amounts[name], most[name] * record.min_member + record.licenses.get(name, 0))
    return amounts


@apply.register
def _annotate(change: changes.AddAnnotation, edit: Edit, job: str) -> None:
    notes = {change.key: change.value}
    if change.key in WORDS:
        for old in list(edit.job(job).tasks.values()):
            if old.status is TaskStatus.PENDING:
                task = edit.task(old.key)
                task.annotations = {**old.annotations, **notes}
                terms = edit.terms_of(task, old.pod_class.base.spec)
                task.pod_class = edit.pod_class(old.pod_class, str(change), terms=terms)
                edit.put(task)
        return
    _each_class(edit, job, str(change), lambda one: {"notes": {**one.notes, **notes}})
    for old in list(edit.job(job).tasks.values()):
        if old.status is TaskStatus.PENDING:
            task = edit.task(old.key)
            task.annotations = {**old.annotations, **notes}
            task.run_seconds = stated_run_seconds(notes, None) if change.key == RUN_SECONDS else task.run_seconds
            edit.put(task)


@apply.register
def _create(change: changes.CreatePods, edit: Edit, job: str) -> None:
    record = edit.job(job)
    like = max(record.tasks.values(), key=lambda task: (task.status is TaskStatus.PENDING, task.ordinal, task.key))
    for number in range(_bounded(change.count)):
        task = copy(like)
        task.name = f"{like.name}-added-{number}"
        task.key, task.uid = f"{task.namespace}/{task.name}", f"{like.uid}-added-{number}"
        task.status, task.node, task.nominated_node = TaskStatus.PENDING, "", ""
        edit.put(task)


# ---- other pods


@apply.register
def _wait(change: changes.WaitFor, edit: Edit, job: str) -> None:
    for key in change.pods:
        edit.drop(key)


@apply.register(changes.EvictPods)
@apply.register(changes.ReleasePort)
def _end(change: changes.EvictPods | changes.ReleasePort, edit: Edit, job: str) -> None:
    """The pods are deleted, and controllers create theirs again at once."""
    for key in change.pods:
        task = edit.task(key)
        edit.drop(key)
        if is_created_again(task):
            task.name, task.uid = f"{task.name}-again", f"{task.uid}-again"
            task.key = f"{task.namespace}/{task.name}"
            task.status, task.node, task.nominated_node = TaskStatus.PENDING, "", ""
            edit.put(task)


# ---- what was meant


@apply.register
def _use_queue(change: changes.UseQueue, edit: Edit, job: str) -> None:
    edit.move(job, change.queue)


@apply.register
def _use_role(change: changes.UseRole, edit: Edit, job: str) -> None:
    record = edit.job(job)
    minimums = record.min_task_member.items()
    record.min_task_member = {change.instead if role == change.name else role: need for role, need in minimums}


@apply.register
def _use_priority(change: changes.UsePriority, edit: Edit, job: str) -> None:
    edit.job(job).priority_class = change.priority_class


@apply.register
def _use_resource(change: changes.UseResource, edit: Edit, job: str) -> None:
    record = edit.job(job)
    if record.min_amounts is not None:
        _state_minimum(edit, record, renamed(record.min_amounts, change.name, change.instead))
    _of_pods(change, edit, job)


def renamed(amounts: Mapping[str, int], name: str, instead: str) -> dict[str, int]:
    """The amounts with one resource counted as another one."""
    result = {key: amount for key, amount in amounts.items() if key != name}
    if name in amounts:
        result[instead] = result.get(instead, 0) + amounts[name]
    return result


@apply.register
def _use_claim(change: changes.UseClaim, edit: Edit, job: str) -> None:
    """The pods name another claim, which exists."""
    namespace = job.partition("/")[0]
    part = "devices" if change.of == "ResourceClaim" else "volumes"
    instead = {f"{namespace}/{change.name}": f"{namespace}/{change.instead}"}
    _with_claims(change, edit, job, part, instead)


@apply.register
def _create_claim(change: changes.CreateClaim, edit: Edit, job: str) -> None:
    """As if the new claim were bound to a volume that reaches every node: its class provisions one."""
    _with_claims(change, edit, job, "volumes", {f"{job.partition('/')[0]}/{change.name}": ""})


@apply.register
def _use_storage_class(change: changes.UseStorageClass, edit: Edit, job: str) -> None:
    """The claim names another class; where that binds at once, as if it had."""
    key = f"{job.partition('/')[0]}/{change.claim}"
    old = edit.origin.catalogue.volume_claims[key]
    claim = _edited(old, change.edit)
    if waits(claim, edit.origin.catalogue):
        edit.claim(claim)
    else:
        _with_claims(change, edit, job, "volumes", {key: ""})


@apply.register
def _use_device_class(change: changes.UseDeviceClass, edit: Edit, job: str) -> None:
    """The claim asks for devices of another class, and with it those that the job's pods have from its template."""
    keys = {f"{job.partition('/')[0]}/{change.claim}"}
    for task in edit.job(job).tasks.values() if change.template else ():
        keys |= {key for key, template in task.pod_class.templates if template == change.template}
    claims = edit.origin.catalogue.device_claims
    for old in [claims[key] for key in sorted(keys & claims.keys())]:
        if old.status.allocation is not None:
            continue
        edit.claim(_edited(old, change.edit))


_C = TypeVar("_C", bound=Object)


def _edited(claim: _C, edit: Callable[[dict[str, Any]], None]) -> _C:
    body = msgspec.to_builtins(claim)
    edit(body)
    return msgspec.convert(body, type(claim))


def _with_claims(change: changes.Change, edit: Edit, job: str, part: str, instead: Mapping[str, str]) -> None:
    """Other claims in the pods that wait; an empty name takes a claim away."""

    def claiming(one: PodClass) -> dict[str, Any]:
        return {part: tuple(filter(None, (instead.get(key, key) for key in getattr(one, part))))}

    _each_class(edit, job, str(change), claiming)


@apply.register
def _raise_user_limits(change: changes.RaiseUserLimits, edit: Edit, job: str) -> None:
    record = edit.queue(change.queue)
    text = raised(record.annotations.get(USER_LIMITS, ""), change.amounts)
    record.annotations = {**record.annotations, USER_LIMITS: text}


@apply.register
def _use_node_group(change: changes.UseNodeGroup, edit: Edit, job: str) -> None:
    record = edit.queue(change.queue)
    if record.affinity is not None:
        record.affinity = with_group(record.affinity, change.name, change.instead)


_OF_PODS = (changes.OfPods, changes.UseClaim)
OF_THE_JOB = (
    *(changes.OfPods, changes.AddAnnotation, changes.UseClaim),
    *(changes.AllowTier, changes.UseQueue, changes.UseRole),
)
"""Changes of a manifest that most controllers do not take over for pods that are there."""


def apply_to_pods(change: changes.Change, edit: Edit, job: str) -> None:
    """Make the change on pods of the job that have come since it was made on all else."""
    for one in changes.parts_of(change):
        if isinstance(one, OF_THE_JOB):
            apply(one, edit, job)


def submit_again(change: changes.Change, edit: Edit, job: str, now: float) -> bool:
    """Let a job of which nothing runs be a new one where it may have to be created again for a change.

    Then it is the last of its line, and is admitted like all others. Jobs of Volcano take another priority as they are.
    """
    record = edit.job(job)
    again = OF_THE_JOB if not record.owned or JOB_VERSION in record.annotations else (*OF_THE_JOB, changes.UsePriority)
    if not any(isinstance(one, again) for one in changes.parts_of(change)) or count(record.counts, READY_STATES):
        return False
    record.phase, record.created = "Pending", now
    if record.annotations.get(GANG_PARTS) and any(isinstance(one, _OF_PODS) for one in changes.parts_of(change)):
        # Its PodGroup will tell of other pods: it is no longer like those that wait in vain for what it asked for.
        record.annotations = {**record.annotations, GANG_PARTS: f"{record.annotations[GANG_PARTS]}\n"}
    return True


@apply.register
def _together(change: changes.Together, edit: Edit, job: str) -> None:
    for one in change.changes:
        apply(one, edit, job)

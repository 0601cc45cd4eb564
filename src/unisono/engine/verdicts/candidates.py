"""Which changes might start a waiting job: ladders of them, the first step of each that works is taken.

Nothing here needs to be certain, because every step is tried before it is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from unisono.api import keys
from unisono.api.core import Affinity, Taint
from unisono.api.gang_affinity import WORDS, preferring
from unisono.api.licenses import is_floating
from unisono.api.queues import JOBS, Family, capabilities_above
from unisono.cluster.hypertree import CLUSTER_TIER
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Matrix, Vector, total
from unisono.cluster.status import TaskStatus
from unisono.cluster.taints import tolerated
from unisono.engine.answers import BoolArray, Refusal
from unisono.engine.candidates.tables import EmptyFit
from unisono.engine.changes import (
    AddAnnotation,
    AddNodes,
    AddToleration,
    AllowReclaim,
    AllowTier,
    Change,
    CreatePods,
    LowerGuarantee,
    LowerMinAvailable,
    OpenQueue,
    RaiseCapability,
    RaiseDeserved,
    RaiseQueuePriority,
    RaiseQuota,
    RaiseUserLimits,
    RaiseWeight,
    RelaxRule,
    ReleasePort,
    RemoveGates,
    RequestAtMost,
    Together,
    Uncordon,
    UsePriority,
    UseResource,
)
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.common.node_selectors import is_state, match_pod
from unisono.engine.session.job_state import JobState
from unisono.engine.session.limit import tasks_fitting
from unisono.engine.session.once import once
from unisono.engine.session.sub_groups import effective
from unisono.engine.verdict import Cause
from unisono.engine.verdicts.check_causes import out_of_quarantine, soon_enough
from unisono.engine.verdicts.demand import kinds_of
from unisono.engine.verdicts.draft import Ladders
from unisono.engine.verdicts.holders import comes_again, port_holders
from unisono.engine.verdicts.kept_nodes import where_open
from unisono.engine.verdicts.labels import enough, labelled, other_labels, unselected
from unisono.engine.verdicts.limits import binding_queue, guarantees_of_others
from unisono.engine.verdicts.lines import Rivals, whole_need
from unisono.engine.verdicts.missing_resources import alternatives, unoffered

if TYPE_CHECKING:
    from unisono.engine.verdicts.waiting import Waiting

_REPELLING = ("NoSchedule", "NoExecute")
_TAINTS_TRIED = 4
_TIERS_TRIED = 4
_PRIORITIES_TRIED = 2
_KINDS_TRIED = 4
_GUARANTEES_TRIED, _GUARANTEES_TOGETHER = 2, 4
_QUEUES_TRIED, _TAKING = 2, frozenset(("reclaim", "gangreclaim"))
_SHRUNK, _MOST_OF_IT, _HALF = ("cpu", "memory"), 0.75, 0.5
"""Resources of which a pod may do with less, and how much of its request that is at least; of devices half."""
_MOST_NODES = 2_000
"""Nodes up to which kinds of nodes are told apart."""
_LEADING = frozenset(("master", "launcher", "chief", "head", "headgroup", "driver", "leader", "coordinator"))
"""Roles without whose pods the others have nothing to do."""
_WEIGHTS = (2, 4, 16)
"""Times its weight, by which a queue is given more of the cluster."""
_FACTORS = (1, 2, 4, 8)
"""More than the job itself lacks, for jobs that come before it would take some."""


def for_refusal(cycle: Cycle, job: JobState, refusal: Refusal, rivals: Rivals, pods: int = 0) -> Ladders:
    """Against a closed queue, a limit or a share.

    Args:
        cycle: at its end.
        job: is refused.
        refusal: says by what.
        rivals: the jobs that raising a limit serves as well.
        pods: of how many pods the refusal speaks; 0: of the whole gang where it is not admitted, else of one.
    """
    queue = job.queue
    pods = pods or (max(job.min_member, 1) if job.phase == "Pending" else 1)
    if refusal.cause is Cause.QUEUE_CLOSED:
        return [[OpenQueue(queue.name)]]
    short = {
        name: refusal.need[name] + refusal.have.get(name, 0) - limit
        for name, limit in refusal.limit.items()
        if name in refusal.need and refusal.need[name] + refusal.have.get(name, 0) > limit
    }
    if refusal.user:
        steps = [short, {JOBS: 1, **short}] if short else [{JOBS: 1}]
        more: list[Change] = [RaiseUserLimits(queue.name, step) for step in steps]
        return [_smaller_gang(job, refusal, short, pods) if short else [], more]
    if not short:
        return []
    if refusal.cause is not Cause.QUOTA and unoffered(
        cycle, short
    ):  # a job asks for it on purpose: without it, it would start and fail
        return []
    if refusal.cause is Cause.OVER_SHARE:
        return [*_larger_share(job, short, rivals), _nodes_with(cycle, job, short)]
    smaller = _smaller_gang(job, refusal, short, pods)
    if refusal.cause is Cause.OVER_CAPABILITY:
        steps = [*rivals.steps(job, short), whole_need(job, refusal, admission=pods > 1)]
        name = binding_queue(cycle.session, job, refusal)
        binding = cycle.session.queues.get(name)  # the root queue need not exist as an object
        stated = binding.record.capability or {} if binding else {}
        # What the cluster has, or guarantees leave, limits a queue whatever its own: to state or raise one is in vain.
        # A queue above it may have more than guarantees leave of it: with more it leaves more.
        own = name != job.queue.name or all(stated.get(each, 0) <= refusal.limit[each] for each in short)
        raised = [_raised_below(cycle, name, step) for step in steps if own and stated.keys() >= step.keys()]
        return [smaller, raised, *_less_guaranteed(cycle, job, short), _nodes_with(cycle, job, short)]
    if refusal.cause is Cause.QUOTA:
        return [smaller, [RaiseQuota(refusal.owner, step) for step in rivals.steps(job, short)]]
    if refusal.cause is Cause.CLUSTER_OVERCOMMITTED:
        fewer = [*smaller, *_gang_for_nodes(cycle, job, refusal)]
        return [fewer, _nodes_with(cycle, job, short), *higher_priorities(cycle, job)]
    return [smaller]


def _raised_below(cycle: Cycle, name: str, step: dict[str, int]) -> Change:
    """A larger capability of a queue, and of those above it that would be smaller, which the API refuses."""
    queues, parts = cycle.session.snapshot.queues, [RaiseCapability(name, step)]
    families = {each: Family(record.parent, record.capability or {}) for each, record in queues.items()}
    target = {each: families[name].capability.get(each, 0) + amount for each, amount in step.items()}
    for above, limits in capabilities_above(name, families.get):
        short = {each: amount - limits[each] for each, amount in target.items() if amount > limits.get(each, amount)}
        if short:
            parts.insert(0, RaiseCapability(above, short))
    return Together(tuple(parts)) if len(parts) > 1 else parts[0]


def for_one_alike(job: JobState, ladders: Ladders, rivals: Rivals) -> Ladders:
    """The ladders of a gang like ``job``, for ``job``: before it come others that raising a limit serves as well."""
    return [_raised_for(job, ladder, rivals) for ladder in ladders]


def _raised_for(job: JobState, ladder: list[Change], rivals: Rivals) -> list[Change]:
    first = ladder[0] if ladder else None
    if not isinstance(first, RaiseCapability | RaiseQuota | RaiseDeserved):
        return ladder
    last = ladder[-1:] if isinstance(first, RaiseCapability) else []  # what the whole gang asks for
    return [*(structs.replace(first, amounts=step) for step in rivals.steps(job, first.amounts)), *last]


def _less_guaranteed(cycle: Cycle, job: JobState, short: Mapping[str, int]) -> Ladders:
    """Take what is short from guarantees that their queues do not use."""
    registry, queues = cycle.session.registry, cycle.session.queues
    sufficient, some = list[tuple[int, str]](), list[tuple[int, str, dict[str, int]]]()
    for name, kept in guarantees_of_others(cycle.session, job, short):
        unused = {each: kept.get(each, 0) - int(queues[name].allocated[registry.requested(each)]) for each in short}
        if all(unused[each] >= amount for each, amount in short.items()):
            sufficient.append((-min(unused.values()), name))
        elif any(amount > 0 for amount in unused.values()):
            some.append((-sum(unused.values()), name, unused))
    if sufficient or not some:
        return [[LowerGuarantee(name, short)] for _, name in sorted(sufficient)[:_GUARANTEES_TRIED]]
    left, parts = dict(short), list[Change]()
    for _, name, unused in sorted(some, key=lambda one: one[:2]):
        if taken := {each: min(unused[each], amount) for each, amount in left.items() if min(unused[each], amount) > 0}:
            parts.append(LowerGuarantee(name, taken))
            left = {each: amount - taken.get(each, 0) for each, amount in left.items()}
    return [[Together(tuple(parts))]] if len(parts) <= _GUARANTEES_TOGETHER and not any(left.values()) else []


def _larger_share(job: JobState, short: Mapping[str, int], rivals: Rivals) -> Ladders:
    """What the queue deserves, and its weight: which of them divides the cluster is for a plug-in to say."""
    record = job.queue.record
    stated: list[Change] = []
    if record.deserved is not None:
        stated += [RaiseDeserved(job.queue.name, step) for step in rivals.steps(job, short)]
    weights: list[Change] = [RaiseWeight(job.queue.name, max(record.weight, 1) * factor) for factor in _WEIGHTS]
    return [stated, weights] if stated else [weights]


def _smaller_gang(job: JobState, refusal: Refusal, short: Mapping[str, int], pods: int) -> list[Change]:
    """The largest gang of equal tasks that would be admitted."""
    if job.min_member <= 1 or any(refusal.need[name] <= 0 for name in short):
        return []
    left = {name: max(refusal.limit[name] - refusal.have.get(name, 0), 0) for name in short}
    there = 0 if job.phase == "Pending" else job.ready_count  # admission looks at all that the gang needs
    fits = there + min(pods * left[name] // refusal.need[name] for name in short)
    return [LowerMinAvailable(fits)] if 0 < fits < job.min_member else []


def _gang_for_nodes(cycle: Cycle, job: JobState, refusal: Refusal) -> list[Change]:
    """The largest gang whose equal parts of what is asked for fit on the nodes now; its pods may not exist yet."""
    nodes, registry = cycle.session.nodes, cycle.session.registry
    asked = {name: amount for name, amount in refusal.need.items() if amount > 0}
    if job.min_member <= 1 or not asked or not nodes.size:
        return []
    usable = nodes.table.ready & ~nodes.table.unschedulable
    each = np.array([[-(-amount // job.min_member)] for amount in asked.values()], dtype=np.int64)
    idle = np.maximum(nodes.idle[[registry.requested(name) for name in asked]], 0) * usable
    fits = int(total((idle // each).min(axis=0), 0))
    return [LowerMinAvailable(fits)] if 0 < fits < job.min_member else []


def _nodes_with(cycle: Cycle, job: JobState, short: Mapping[str, int]) -> list[Change]:
    """Enough nodes for what is short, like the one that has most of it, of those that the job may use."""
    if any(map(is_floating, short)):
        return []
    return _like_the_richest(cycle, tuple(short.items()), usable_nodes(cycle, job).tobytes())


def usable_nodes(cycle: Cycle, job: JobState) -> BoolArray:
    """``[N]`` nodes that are in use and that some pod of the job may use; all in use where that is not known."""
    nodes, static = cycle.session.nodes, cycle.fits.static
    usable = nodes.table.ready & ~nodes.table.unschedulable
    classes = [kind.pod_class for kind in kinds_of(cycle.session, job)]
    masks = [static.result(one, cycle.session, cycle.hooks).allowed for one in classes if one is not None]
    allowed = usable & np.logical_or.reduce(masks) if masks else usable
    return allowed if allowed.any() else usable


@once
def _like_the_richest(cycle: Cycle, short: tuple[tuple[str, int], ...], usable: bytes) -> list[Change]:
    nodes, registry = cycle.session.nodes, cycle.session.registry
    if not nodes.size:
        return []
    need = np.array([[amount] for _, amount in short], dtype=np.float64)
    has = nodes.allocatable[[registry.requested(name) for name, _ in short]] * np.frombuffer(usable, np.bool_)
    worth = (has / need).min(axis=0)
    best = int(worth.argmax())
    if worth[best] <= 0:
        return []
    number = max(int(np.ceil(1 / worth[best])), 1)
    return [AddNodes(nodes.table.names[best], number * factor) for factor in _FACTORS]


def meant_resources(cycle: Cycle, names: Iterable[str]) -> Ladders:
    """Near misses of resources that nodes have."""
    ladders: Ladders = [[UseResource(name, one) for one in alternatives(cycle, name)] for name in names]
    return [ladder for ladder in ladders if ladder]


def higher_priorities(cycle: Cycle, job: JobState) -> Ladders:
    """PriorityClasses above the job's own, the lowest first; the system's own are not for users."""
    priority_classes = cycle.session.snapshot.priorities
    higher = sorted(
        (value, name) for name, value in priority_classes.items() if value > job.priority and _for_users(name)
    )
    return [[UsePriority(name) for _, name in higher[:_PRIORITIES_TRIED]]] if higher else []


def before_others(cycle: Cycle, job: JobState, position: int) -> list[tuple[Change, ...]]:
    """Steps that bring a job to the front, the first one is nothing: before its queue, then before other queues."""
    higher = higher_priorities(cycle, job) if position > 1 else []
    priority = tuple(ladder[-1] for ladder in higher)
    steps: list[tuple[Change, ...]] = [(), *([priority] if priority else [])]
    waiting = {other.queue.name for other in cycle.eligible if other.phase == "Pending" or other.record.pending}
    if others := waiting - {job.queue.name}:
        first = 1 + max(cycle.session.queues[name].record.priority for name in others)
        steps.append((*priority, RaiseQueuePriority(job.queue.name, first)))
    return steps


def _for_users(name: str) -> bool:
    return not name.startswith("system-")


def giving_back(cycle: Cycle, job: JobState) -> Ladders:
    """Queues that hold more than they deserve and give nothing back, where an action would take it."""
    if not _TAKING & set(cycle.config.actions):
        return []
    holders = []
    for name, queue in sorted(cycle.session.queues.items()):
        if queue is not job.queue and not queue.record.reclaimable and queue.allocated.any():
            holders.append((-int(queue.allocated[0]), name))
    return [[AllowReclaim(name)] for _, name in sorted(holders)[:_QUEUES_TRIED]]


# ---- nodes


def smaller_pods(waiting: Waiting) -> Ladders:
    """Of pods that no node could hold even if it were empty: as small as nodes are."""
    every = ((task, waiting.tools.capacity.empty(task.pod_class)) for task in waiting.samples)
    ladders = (
        _smaller_pods(waiting.cycle, task, empty, waiting.missing) for task, empty in every if not empty.per_node
    )
    return [ladder for ladder in ladders if ladder]


def asking_less(ladders: Ladders, at_most: Mapping[str, int]) -> Ladders:
    """With smaller requests as the first step, where pods are larger than any node."""
    if not at_most:
        return ladders
    steps = [step for ladder in ladders for step in ladder]
    less = [step for step in steps if isinstance(step, RequestAtMost) and step.amounts != at_most]
    others = [ladder for ladder in ladders if not any(isinstance(step, RequestAtMost) for step in ladder)]
    return [[RequestAtMost(at_most), *less], *others]


def uncordoned(cycle: Cycle, job: JobState) -> Ladders:
    """Cordoned nodes without other taints that hold what the usable ones cannot."""
    nodes = cycle.session.nodes
    kinds = kinds_of(cycle.session, job) if nodes.table.unschedulable.any() else []
    if not kinds:
        return []
    idle = np.maximum(nodes.idle, 0)
    rooms = [(idle[kind.rows] // kind.amounts[:, None]).min(axis=0) for kind in kinds]
    usable = nodes.table.ready & ~nodes.table.unschedulable
    own = np.array([_own_taints(facts.taints) for facts in nodes.table.facts], dtype=np.bool_)
    back = nodes.table.ready & nodes.table.unschedulable & ~own
    chosen: set[int] = set()
    for kind, room in zip(kinds, rooms, strict=True):  # kinds that only cordoned nodes have room for
        short = kind.count - int(room[usable].sum())
        chosen.update(enough(back, room, short) if short > 0 else ())
    if not chosen:  # every kind has room, and all of them together do not
        room = np.minimum.reduce(rooms)
        chosen.update(enough(back, room, max(job.min_member - job.ready_count - int(room[usable].sum()), 1)))
    if not chosen and not usable.any():  # they are full as well: whatever helps, one of them is needed for it
        chosen.update(np.flatnonzero(back).tolist())
    return [[Uncordon(tuple(nodes.table.names[at] for at in sorted(chosen)))]] if chosen else []


def for_fit(cycle: Cycle, job: JobState, task: Task, cause: Cause, placeable: int, empty: EmptyFit) -> Ladders:
    """Against nodes that are full, too small, or refuse the pod."""
    missing = max(job.min_member - placeable, 1)
    if placeable and placeable >= job.min_member:
        missing = max(job.counts[TaskStatus.PENDING], 1)
    nodes = [*_more_nodes(empty, missing), *_other_nodes(cycle, task, empty, missing)]
    if soon_enough(cycle, task.pod_class, missing):
        nodes = []
    if cause is Cause.PORT_TAKEN:
        return [_ports(cycle, job, task, missing), *unblocked(cycle, task, missing), _smaller(job, placeable), nodes]
    if cause in (Cause.NODES_FULL, Cause.TOO_LARGE):
        if empty.per_node == 0:
            return [_smaller_pods(cycle, task, empty, missing), *unblocked(cycle, task, missing), nodes]
        higher = higher_priorities(cycle, job)
        less = slightly_less(cycle, task, missing)
        return [_smaller(job, placeable), less, nodes, *unblocked(cycle, task, missing), *higher]
    if cause is Cause.FILTERS:
        fewer = [] if task.role in _LEADING else _smaller(job, placeable)
        return [*unblocked(cycle, task, missing), fewer, nodes]
    return [_smaller(job, placeable), nodes]


def _smaller(job: JobState, placeable: int) -> list[Change]:
    return [LowerMinAvailable(placeable)] if 0 < placeable < job.min_member else []


def or_smaller(ladders: Ladders, gang: int) -> Ladders:
    """With a smaller gang still, where the first one needs tasks that are placed only when all others are tried."""
    if not gang:
        return ladders
    return [
        [*ladder, LowerMinAvailable(gang)] if ladder and isinstance(ladder[0], LowerMinAvailable) else ladder
        for ladder in ladders
    ]


def _more_nodes(empty: EmptyFit, missing: int) -> list[Change]:
    """First what the job itself lacks; then more, for jobs that come before it would take some."""
    if not empty.per_node:
        return []
    number = -(-missing // empty.per_node)
    return [AddNodes(empty.best, number * factor) for factor in _FACTORS]


def _other_nodes(cycle: Cycle, task: Task, empty: EmptyFit, missing: int) -> list[Change]:
    """Nodes of the other kinds that could hold the pod: a filter may refuse the kind that holds most."""
    nodes = cycle.session.nodes
    if nodes.size > _MOST_NODES:
        return []
    room = tasks_fitting(nodes.allocatable, task.pod_class)
    chosen = [at for at in _one_of_each_kind(cycle) if room[at] > 0][:_KINDS_TRIED]
    return [AddNodes(nodes.table.names[at], -(-missing // int(room[at]))) for at in chosen]


@once
def _one_of_each_kind(cycle: Cycle) -> list[int]:
    """Columns of the first node of each kind: nodes with the same labels, taints and amounts are of one kind."""
    nodes, first = cycle.session.nodes, dict[tuple[object, ...], int]()
    for at, (facts, taints) in enumerate(zip(nodes.table.facts, nodes.taint_codes.tolist(), strict=True)):
        labels = tuple(sorted((key, value) for key, value in facts.labels.items() if key != keys.HOSTNAME))
        first.setdefault((labels, nodes.allocatable[:, at].tobytes(), taints), at)
    return list(first.values())


def _smaller_pods(cycle: Cycle, task: Task, empty: EmptyFit, missing: int) -> list[Change]:
    """Pods as small as the largest node, then as small as what is free now where that is most of it."""
    registry, nodes = cycle.session.registry, cycle.session.nodes
    requests = task.pod_class.requests
    largest = {name: int(empty.largest[registry.requested(name)]) for name in requests}
    over = [name for name, amount in requests.items() if amount > largest[name]]
    if not over or not empty.allowed or not all(largest[name] for name in over):
        return []
    ladder: list[Change] = [RequestAtMost({name: largest[name] for name in over})]
    named = zip(task.pod_class.rows.tolist(), task.pod_class.resource_names(registry), strict=True)
    others = [row for row, name in named if name not in over]
    idle = np.maximum(nodes.idle, 0)
    need = task.pod_class.vector[others][:, None]
    roomy = (idle[others] >= need).all(axis=0)
    if int(roomy.sum()) >= missing:
        free = {name: int(np.sort(idle[registry.requested(name)][roomy])[-missing]) for name in over}
        if all(amount >= _HALF * largest[name] for name, amount in free.items()):
            ladder.append(RequestAtMost(free))
    return ladder


def slightly_less(cycle: Cycle, task: Task, missing: int) -> list[Change]:
    """What is free on enough nodes where that is most of what the pod asks for: small agents run on every node.

    Of devices whole ones, where that is the half or more: other jobs leave holes of 4 GPUs for pods of 6.
    """
    nodes, registry, requests = cycle.session.nodes, cycle.session.registry, task.pod_class.requests
    usable = nodes.table.ready & ~nodes.table.unschedulable
    if int(usable.sum()) < missing:
        return []
    reduced: dict[str, int] = {}
    for name in [one for one in requests if one in _SHRUNK or "/" in one]:
        amount = requests[name]
        free = int(np.sort(np.maximum(nodes.idle[registry.requested(name)], 0) * usable)[-missing])
        free, least = (free // 1000 * 1000, _HALF) if "/" in name else (free, _MOST_OF_IT)
        if amount > free >= least * amount:
            reduced[name] = free
    return [RequestAtMost(reduced)] if reduced else []


def _ports(cycle: Cycle, job: JobState, task: Task, missing: int) -> list[Change]:
    """End the holders of the port on as many nodes as are needed, those first that have fewest."""
    session = cycle.session
    held = port_holders(cycle)
    ports = {(protocol, port) for protocol, _, port in task.pod_class.host_ports}
    options: list[tuple[int, str, tuple[str, ...], int]] = []
    for name in sorted(held.keys() & session.snapshot.nodes.index.keys()):
        taken = {key: _shared(pod_class, ports) for key, pod_class in held[name].items()}
        pods = tuple(sorted(key for key, port in taken.items() if port))
        if any(key in job.record.tasks or comes_again(cycle, key) for key in pods):  # they would take it again
            continue
        if pods and _fits_without(cycle, task.pod_class, name, [held[name][key] for key in pods]):
            options.append((len(pods), name, pods, taken[pods[0]]))
    chosen = sorted(options)[:missing]
    if len(chosen) < missing:
        return []
    pods = tuple(sorted({pod for _, _, pods, _ in chosen for pod in pods}))
    return [ReleasePort(chosen[0][3], pods, tuple(sorted(name for _, name, _, _ in chosen)))]


def _shared(pod_class: PodClass, wanted: set[tuple[str, int]]) -> int:
    return next((port for protocol, _, port in pod_class.host_ports if (protocol, port) in wanted), 0)


def _fits_without(cycle: Cycle, pod_class: PodClass, node: str, holders: list[PodClass]) -> bool:
    nodes = cycle.session.nodes
    column = nodes.table.index[node]
    free = nodes.idle[:, [column]].copy()
    for holder in holders:
        free[: len(holder.vector), 0] += holder.vector
    return bool(tasks_fitting(free, pod_class)[0] > 0)


def unblocked(cycle: Cycle, task: Task, missing: int) -> Ladders:
    """Cordons, taints and labels on nodes that have room, and what the pod requires of others."""
    nodes, pod_class, facts = cycle.session.nodes, task.pod_class, cycle.session.nodes.table.facts
    room = where_open(cycle, task, _room(cycle, pod_class, nodes.idle))
    others = other_labels(pod_class, nodes, room, missing)
    selected = match_pod(pod_class, nodes)
    # A cordon or a taint on nodes that the pod does not select keeps it from nothing.
    meant = selected if selected.any() else np.ones_like(selected)
    room = room * meant
    for shrunk in (False, True):  # what keeps it off nodes that could hold it; then if it were no larger than they are
        if not room.any():
            room = _room(cycle, pod_class, nodes.allocatable, shrunk=shrunk) * meant
    cordoned = enough(nodes.table.unschedulable, room, missing)
    if not cordoned:  # fewer may do: where a sub-group finds no domain, its pods that do find nodes count as missing
        cordoned = np.flatnonzero(nodes.table.unschedulable & (room > 0)).tolist()[:missing]
    ladders: Ladders = [[Uncordon(tuple(nodes.table.names[at] for at in cordoned))]] if cordoned else []
    taints: Counter[tuple[AddToleration, ...]] = Counter()
    roomy = np.flatnonzero(room > 0)
    _, first, numbers = np.unique(nodes.taint_codes[roomy], return_index=True, return_counts=True)
    for at, number in zip(roomy[first].tolist(), numbers.tolist(), strict=True):
        repelling = (one for one in facts[at].taints if one.effect in _REPELLING and not is_state(one))
        kept = (one for one in repelling if not tolerated(one, pod_class.tolerations))
        taints[tuple(AddToleration(one.key or "", one.value or "", one.effect or "") for one in kept)] += number
    common = sorted((-number, str(parts), parts) for parts, number in taints.items() if parts)[:_TAINTS_TRIED]
    ladders.append(out_of_quarantine(nodes, pod_class, room, missing))
    ladders.append([parts[0] if len(parts) == 1 else Together(parts) for _, _, parts in common])
    labels = labelled(pod_class, nodes, room, missing)
    # Where no node has the labels, a name that is nearly one that nodes have is likelier than a cordon.
    ladders = [*ladders, *others, labels] if selected.any() else [*others, labels, *ladders]
    ladders += _relaxed(cycle, task)
    return ladders if any(others) or labels else ladders + unselected(pod_class, nodes)


def _room(cycle: Cycle, pod_class: PodClass, amounts: Matrix, *, shrunk: bool = False) -> Vector:
    """How many pods ``amounts`` hold on each node, asking for what was meant; ``shrunk``: or for the most there is."""
    nodes, registry = cycle.session.nodes, cycle.session.registry
    rows = pod_class.rows.tolist()
    names = pod_class.resource_names(registry)
    for name in unoffered(cycle, (name for name in pod_class.requests if name in names)):
        near = alternatives(cycle, name)
        if not near:
            return np.zeros(nodes.size, dtype=np.int64)
        rows[names.index(name)] = registry.requested(near[0])
    asked = pod_class.amounts
    if shrunk and nodes.size:
        asked = np.maximum(np.minimum(asked, amounts[rows].max(axis=1)), 1)
    return np.asarray((np.maximum(amounts[rows], 0) // asked[:, None]).min(axis=0), dtype=np.int64)


def _relaxed(cycle: Cycle, task: Task) -> Ladders:
    """What a pod requires of other pods, rule by rule: in its spec, and in annotations."""
    spec = task.pod_class.base.spec
    affinity = spec.affinity or Affinity()
    near, away = affinity.pod_affinity, affinity.pod_anti_affinity
    rules = {
        "podAffinity": near is not None and near.required_during_scheduling_ignored_during_execution,
        "podAntiAffinity": away is not None and away.required_during_scheduling_ignored_during_execution,
        "topologySpreadConstraints": any(
            one.when_unsatisfiable != "ScheduleAnyway" for one in spec.topology_spread_constraints or ()
        ),
    }
    job = cycle.session.snapshot.jobs.get(task.job)
    said = {**(job.annotations if job is not None else {}), **task.annotations}
    words = {word: preferring(said, word) for word in WORDS if word in said}
    ladders: Ladders = [[RelaxRule(rule)] for rule, required in rules.items() if required]
    return ladders + [[AddAnnotation(word, text)] for word, text in words.items() if text]


# ---- the job's own pods


def for_too_few(job: JobState, have: int, need: int) -> Ladders:
    """More pods, or a smaller gang."""
    if not job.size or need <= have:
        return []
    smaller: list[Change] = [LowerMinAvailable(have)] if 0 < have < job.min_member else []
    return [[] if job.min_task_member else [CreatePods(need - have)], smaller]


def for_gates(job: JobState) -> Ladders:
    """Without their gates."""
    gated = sorted(key for key, task in job.record.pending.items() if task.gated and not task.named_node)
    return [[RemoveGates(tuple(gated))]] if gated and job.counts[TaskStatus.PENDING] else []


def for_topology(cycle: Cycle, job: JobState, placeable: int, lost: Iterable[int] = ()) -> Ladders:
    """Cordoned nodes among those (columns) that a domain lacks, then wider domains, the narrowest first."""
    tree, table = cycle.session.snapshot.hyper_nodes, cycle.session.snapshot.nodes
    cordoned = tuple(table.names[at] for at in lost if table.ready[at] and not _own_taints(table.facts[at].taints))
    back: Ladders = [[Uncordon(cordoned)]] if cordoned else []
    wishes = (job.record.topology, *(policy.wish for policy in job.record.sub_groups))
    limits = (effective(wish, tree) for wish in wishes if wish is not None and wish.hard)
    bound = min((limit for limit in limits if limit is not None), default=0)
    # That a gang stays in one cluster of a fleet is not for its job to say.
    wider = [tier for tier in tree.levels if bound < tier < CLUSTER_TIER][:_TIERS_TRIED]
    return [*back, [AllowTier(tier) for tier in wider], _smaller(job, placeable)]


def _own_taints(taints: Iterable[Taint]) -> bool:
    """Whether a node repels pods for more than its cordon."""
    return any(one.key != keys.NODE_UNSCHEDULABLE for one in taints)

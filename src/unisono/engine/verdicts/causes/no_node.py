"""No node takes a pod: filters refuse it, nodes are too small, or in use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import total
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray
from unisono.engine.candidates.tables import EmptyFit
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import FitErrors, JobReport
from unisono.engine.session.choices import tried_now
from unisono.engine.session.job_state import JobState
from unisono.engine.session.limit import tasks_fitting
from unisono.engine.session.sub_groups import is_grouped
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.check_causes import end_of_check, waiting_for_checks
from unisono.engine.verdicts.claim_causes import ways_out
from unisono.engine.verdicts.demand import Kind
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.filter_causes import lacks_of
from unisono.engine.verdicts.holders import holders_text
from unisono.engine.verdicts.kept_nodes import (
    for_node_groups,
    kept_for_others,
    node_groups,
    opening,
    opening_of_reservation,
    queues_of_reservations,
    revocable_zones,
    without_new_nodes,
)
from unisono.engine.verdicts.labels import nowhere as selected_nowhere
from unisono.engine.verdicts.lack import Lack
from unisono.engine.verdicts.missing_resources import asking, remedy, too_large, unoffered, unoffered_text
from unisono.engine.verdicts.nodes_away import bringing_back
from unisono.engine.verdicts.pending_pods import pending_pods
from unisono.engine.verdicts.shortage import Lack as Shortage
from unisono.engine.verdicts.waiting import Waiting

_MOST_ONLY = 3
"""Nodes that are named where labels choose them."""


class Room:
    """For pods of one class.

    Attributes:
        allowed: ``[N]`` nodes that nothing else refuses; where one of them could hold a pod if it were empty, without
            those that could not: what is free there is of no use.
    """

    def __init__(self, cycle: Cycle, pod_class: PodClass, allowed: BoolArray) -> None:
        self.pod_class, self.registry, self.nodes = pod_class, cycle.session.registry, cycle.session.nodes
        able = allowed & (tasks_fitting(self.nodes.allocatable, pod_class) > 0)
        self._able = bool(able.any())
        self._others = bool((allowed & ~able).any())
        self.allowed = able if self._able else allowed

    def lacking(self, fit: FitErrors) -> list[str]:
        """What these nodes have too little of, by name; what ``fit`` says of all nodes, where that is not known."""
        pod_class = self.pod_class
        if self._able:
            names = pod_class.resource_names(self.registry)
            short = self.nodes.future_idle[pod_class.rows] < pod_class.amounts[:, None]
            scarce = {name for name, row in zip(names, short, strict=True) if (row & self.allowed).any()}
            if scarce and (scarce & fit.lacking.keys()):
                fitting = [name for name in pod_class.requests if name in scarce]
                return fitting or sorted(scarce)
        return [name for name in pod_class.requests if name in fit.lacking] or list(fit.lacking)

    def only(self, *, alone: bool = False) -> str:
        """``; only gpu-0 could hold such a pod``, where other nodes could not hold a pod even if they were empty.

        ``alone``: nothing else that is said tells why pods cannot use the others, such as labels.
        """
        others = self._others or (alone and 0 < self.allowed.sum() < min(self.nodes.size, _MOST_ONLY + 1))
        if not (self._able and others):
            return ""
        names = tuple(self.nodes.table.names[at] for at in np.flatnonzero(self.allowed).tolist())
        return f"; only {listed(names)} could hold such a pod"

    def need(self, lacking: Iterable[str], missing: int) -> dict[str, int]:
        """What ``missing`` pods ask for."""
        requests = self.pod_class.requests
        return {name: requests[name] * missing for name in lacking if name in requests}

    def have(self, lacking: Iterable[str]) -> dict[str, int]:
        """What is free of it: on the node with the largest part of one pod, where no node has room for a whole one."""
        names = list(lacking)
        amounts = self.nodes.idle if self._able else self.nodes.allocatable
        rows = [self.registry.requested(name) for name in names]
        usable = self.allowed if self.allowed.any() else np.ones(self.nodes.size, dtype=np.bool_)
        there = np.where(usable, np.maximum(amounts, 0), 0)
        if names and self.nodes.size and not (tasks_fitting(there, self.pod_class) > 0).any():
            parts = there[self.pod_class.rows] / self.pod_class.amounts[:, None]
            best = int(parts.min(axis=0).argmax())
            return {name: int(there[row, best]) for name, row in zip(names, rows, strict=True)}
        return {name: int(total(there[row], 0)) for name, row in zip(names, rows, strict=True)}


_MOST_ROLES = 2
"""Further roles that are named."""


def _other_roles(waiting: Waiting, task: Task) -> str:
    """Sentences about pods of other roles than ``task`` that fit on no node even if all were empty; ``""``: none."""
    return "".join(islice(_told_of_roles(waiting, task), _MOST_ROLES))


def _told_of_roles(waiting: Waiting, task: Task) -> Iterator[str]:
    everywhere = np.ones(waiting.cycle.session.nodes.size, np.bool_)
    for one in waiting.samples:
        if not one.role or one.role == task.role or waiting.tools.capacity.empty(one.pod_class).per_node:
            continue
        large = too_large(waiting.cycle, [kind for kind in waiting.kinds if kind.role == one.role], everywhere)
        fit = waiting.cycle.fits.errors(one.pod_class)
        said = large[0] if large is not None else waiting.tools.filters.text(one.pod_class, fit, one.namespace)
        reason = said.strip().removesuffix(".") or fit.text.removesuffix(".")
        yield f" Nor does any take pods of role {one.role}: {reason[0].lower()}{reason[1:]}."


_MOST_RELAXED = 4
"""Changes that one plug-in may ask to be tried."""


def no_place(waiting: Waiting) -> Draft | None:
    """The first task that found no node."""
    report = waiting.report
    return without_node(waiting, report) if report.fit is not None and report.task is not None else None


def without_node(waiting: Waiting, report: JobReport) -> Draft:
    """Why ``report.task`` found no node, which ``report.fit`` says node by node."""
    fit, task, job, cycle = report.fit, report.task, waiting.job, waiting.cycle
    assert fit is not None and task is not None
    placed = job.ready_count + report.schedulable()
    placeable = _placeable(waiting, placed)
    missing = lacking_tasks(job, placeable)
    empty = waiting.tools.capacity.empty(task.pod_class)
    cause, room = _where(waiting, task, fit, empty)
    lacking = room.lacking(fit)
    alike = sum(one.count for one in pending_pods(job.record).groups if one.pod_class is task.pod_class)
    (need, have), crowded = _amounts(cause, room, lacking, min(missing, alike or missing)), ""
    if cause is Cause.NODES_FULL and lacking and _filtered(fit) and _amounts_suffice(waiting, room):
        cause, need, have = Cause.FILTERS, {}, {}
        crowded = _holders(waiting, room, lacking)
    elif cause is Cause.FILTERS and lacking:
        crowded = _holders_on_full(waiting, room, lacking)
    nowhere = unoffered(cycle, lacking)
    message, holders = (
        f"{_progress(job, placeable)}{_which(waiting, task)}: {fit.text}",
        waiting.tools.holders({} if cause is Cause.TOO_LARGE else need),  # whose end would not be enough
    )
    ladders = candidates.for_fit(cycle, job, task, cause, placeable, empty)
    if placeable > placed:
        ladders = candidates.or_smaller(ladders, placed)
    if nowhere:
        who = asking([kind for kind in waiting.kinds if kind.pod_class is task.pod_class], nowhere)
        message += f" {_sentence(unoffered_text(cycle, nowhere))}{f'; it is asked for{who}' if who else ''}"
        ladders = [*candidates.meant_resources(cycle, nowhere), *ladders]
    elif cause is not Cause.FILTERS and _of_amounts(waiting, task, fit, empty, cause):
        lack, short = _short(waiting, task, room, need or dict.fromkeys(lacking, missing))
        message = f"{spare(job, placeable)}{_within(cycle, task, room, fit, short)}"
        holders = lack.holders or holders
        ladders = candidates.asking_less(ladders, lack.at_most)
        have |= {name: amount for name, amount in lack.at_most.items() if name in have}
    else:
        message += _largest(waiting, task) if empty.allowed and not empty.per_node else ""
        lost = waiting.tools.shortages.lost_devices(waiting.kinds, task.pod_class.requests)
        message = "; ".join([*lost, f"{message.removesuffix('.')}; {crowded}" if crowded else message])
    others = _other_roles(waiting, task)
    refused = "".join(_by_name(waiting, task, fit)) + others
    verdict = waiting.verdict(
        cause,
        f"{message.removesuffix('.')}.{refused}" if refused else message,
        need=need,
        have=have,
        tasks_placeable=placeable,
        reasons=dict(fit.counts),
        nodes=fit.nodes,
        holders=holders,
        task=task.key if task.key in job.record.tasks else "",
    )
    last = "add a node" if cause is Cause.NO_NODES else remedy(cycle, nowhere) or opening(cycle, fit.counts)
    last = last or opening_of_reservation(cycle, job, task.pod_class, fit.counts) or end_of_check(cycle, fit.counts)
    lacks = list(lacks_of(cycle, task.pod_class, fit.counts))
    fallback = _in_words(cycle, task, cause, lacks, lacking)
    of_claims, untried = ways_out(cycle, lacks)
    full = cause is Cause.NODES_FULL or (cause is Cause.FILTERS and bool(fit.lacking))
    ladders += for_node_groups(cycle, job.queue, task, missing, fit.counts)
    ladders = [
        *without_new_nodes(job, task.pod_class, ladders),
        *queues_of_reservations(cycle, job, task.pod_class),
    ]
    cycle.session.subject = job  # of whom plug-ins are asked
    asked = cycle.hooks.flat["relax"]
    ladders += [[one] for _, relax in asked for one in relax(task.pod_class, cycle.session.nodes)[:_MOST_RELAXED]]
    ladders += [*of_claims, *(candidates.giving_back(cycle, job) if full else ())]
    return Draft(
        verdict,
        ladders,
        last=last,
        fallback=fallback,
        evictions=full,
        untried=untried,
    )


def _amounts(cause: Cause, room: Room, lacking: Sequence[str], missing: int) -> tuple[dict[str, int], dict[str, int]]:
    """What ``missing`` pods ask for of it, and what there is; nothing where a rule is the cause and there is enough."""
    need, have = room.need(lacking, missing), room.have(lacking)
    enough = all(have[name] >= amount for name, amount in need.items())
    return ({}, {}) if enough and cause not in (Cause.NODES_FULL, Cause.TOO_LARGE) else (need, have)


def _placeable(waiting: Waiting, placed: int) -> int:
    """Pods that have a place or would find one: of a gang of several kinds the actions try only the first ones."""
    job, kinds = waiting.job, waiting.kinds
    if placed >= job.min_member or len(kinds) < 2 or is_grouped(job, waiting.cycle.session.snapshot.hyper_nodes):
        return placed
    return max(placed, min(waiting.findable, job.min_member - 1))


def _where(waiting: Waiting, task: Task, fit: FitErrors, empty: EmptyFit) -> tuple[Cause, Room]:
    """What keeps ``task`` waiting, as far as its own class tells, and the nodes that it may use."""
    cycle, cause = waiting.cycle, fit.cause
    if cause is Cause.NODES_FULL and (empty.per_node == 0 or empty.total < wanted(waiting.job, task)):
        cause = Cause.TOO_LARGE if empty.allowed else Cause.FILTERS
    if cause is Cause.FILTERS and sum(fit.lacking.values()) >= empty.allowed > 0:
        cause = Cause.NODES_FULL  # those that nothing else refuses have no room
        if empty.per_node == 0 and tried_now(cycle.session, task.pod_class) is not None:
            cause = Cause.TOO_LARGE
    room = Room(cycle, task.pod_class, waiting.tools.capacity.allowed(task.pod_class))
    if fit.lacking and _filtered(fit):
        passing = cycle.fits.passing(task.pod_class)
        able = passing & (tasks_fitting(cycle.session.nodes.allocatable, task.pod_class) > 0)
        if passing.any() and not able.any() and empty.per_node:
            cause = Cause.FILTERS  # what keeps the pod from the nodes that could hold it
        elif able.any() and able.sum() < room.allowed.sum():
            cause = Cause.NODES_FULL if cause is Cause.FILTERS else cause
            room = Room(cycle, task.pod_class, able)
    return cause, room


def _holders(waiting: Waiting, room: Room, lacking: Sequence[str]) -> str:
    """``deployment ns/hog holds cpu 7``, on the nodes that a pod may use."""
    return holders_text(waiting.cycle, waiting.job, lacking[0], nodes=room.allowed)[0]


def _holders_on_full(waiting: Waiting, room: Room, lacking: Sequence[str]) -> str:
    """``on c deployment ns/hog holds cpu 7``: nodes that filters leave and that would do if they were empty."""
    nodes = waiting.cycle.session.nodes
    full = room.allowed & (tasks_fitting(nodes.allocatable, room.pod_class) > 0)
    full &= tasks_fitting(np.maximum(nodes.future_idle, 0), room.pod_class) <= 0
    held = holders_text(waiting.cycle, waiting.job, lacking[0], nodes=full)[0] if full.any() else ""
    return f"on {listed(tuple(nodes.table.names[at] for at in np.flatnonzero(full).tolist()))} {held}" if held else ""


def _by_name(waiting: Waiting, task: Task, fit: FitErrors) -> Iterator[str]:
    """Sentences with the objects that filters look at."""
    yield waiting.tools.filters.text(task.pod_class, fit, task.namespace)
    yield node_groups(waiting.cycle, waiting.job.queue, fit.counts)
    yield revocable_zones(waiting.cycle, fit.counts)
    yield kept_for_others(waiting.cycle, waiting.job, task.pod_class, fit.counts)
    yield waiting_for_checks(waiting.cycle, fit.counts)


def _amounts_suffice(waiting: Waiting, room: Room) -> bool:
    """Whether the nodes that a pod may use have room for the whole gang: then it is a filter that keeps pods away."""
    job, kinds = waiting.job, waiting.kinds
    needed = max(job.min_member, 1)
    return len(kinds) == 1 and waiting.tools.shortages.find_room(job, kinds, [room.allowed]) >= needed > job.ready_count


def _short(waiting: Waiting, task: Task, room: Room, asked: Mapping[str, int]) -> tuple[Shortage, str]:
    """What the nodes that ``task`` may use have too little of, with its role where others use other nodes."""
    rivals = _rivals(waiting, task, room)
    lack = waiting.tools.shortages.lack(waiting.job, asked, {}, room.allowed, rivals)
    whose = f"role {task.role}: " if task.role and len(rivals) < len(waiting.kinds) else ""
    return lack, f"{whose}{lack.message}"


def _rivals(waiting: Waiting, task: Task, room: Room) -> list[Kind]:
    """The pods that need the same nodes as ``task``: its own kind, and those that may use no other nodes."""
    capacity = waiting.tools.capacity
    return [
        kind
        for kind in waiting.kinds
        if kind.pod_class is None
        or kind.pod_class is task.pod_class
        or not (capacity.allowed(kind.pod_class) & ~room.allowed).any()
    ]


def _in_words(cycle: Cycle, task: Task, cause: Cause, lacks: Sequence[Lack], lacking: Sequence[str]) -> str:
    """What would help where no change is known to: with labels, claims, or the state of nodes."""
    selected = selected_nowhere(task.pod_class, cycle.session.nodes) if cause is Cause.FILTERS else ""
    if cause is Cause.PORT_TAKEN:
        ports = listed(tuple(sorted({str(port) for _, _, port in task.pod_class.host_ports})))
        return f"let its pods use other host ports than {ports}"
    of_claims = next(filter(None, (lack.remedy for lack in lacks)), "")
    return selected or of_claims or bringing_back(cycle, lacking, task.pod_class)


def _largest(waiting: Waiting, task: Task) -> str:
    """What the pod asks for, and what the largest of the nodes has that filters leave."""
    same = [kind for kind in waiting.kinds if kind.pod_class is task.pod_class]
    excess = too_large(waiting.cycle, same, waiting.tools.capacity.allowed(task.pod_class))
    return f" Of the nodes that filters leave: {excess[0]}." if excess is not None else ""


def lacking_tasks(job: JobState, placeable: int) -> int:
    """How many tasks have to find a place: those that the gang lacks, or all that wait beyond its minimum."""
    if placeable and placeable >= job.min_member:
        return max(job.counts[TaskStatus.PENDING], 1)
    return max(job.min_member - placeable, 1)


def wanted(job: JobState, task: Task) -> int:
    """How many tasks of this class the gang cannot do without."""
    same = sum(1 for other in job.record.tasks.values() if other.pod_class is task.pod_class)
    return min(job.min_member, same) if same == job.size else 1


def spare(job: JobState, placeable: int) -> str:
    """Said before the shortage of tasks beyond the gang's minimum."""
    return f"{_progress(job, placeable)}: " if placeable and placeable >= job.min_member else ""


def _progress(job: JobState, placeable: int) -> str:
    """How far the job got: its gang, one pod, or tasks beyond the gang's minimum."""
    if placeable and placeable >= job.min_member:
        pending = job.counts[TaskStatus.PENDING]
        return f"the gang has its minimum, and {pending} more {'task waits' if pending == 1 else 'tasks wait'}"
    if job.min_member > 1:
        return f"{placeable} of {job.min_member} tasks can be placed"
    return "no node takes it"


def _which(waiting: Waiting, task: Task) -> str:
    """The pod that found no node, where the gang has pods of several roles."""
    if not task.role or len({kind.role for kind in waiting.kinds}) < 2:
        every = [other.pod_class.base for other in waiting.job.record.tasks.values()]
        alone = len(every) > 1 and every.count(task.pod_class.base) == 1
        return f"; none takes pod {task.name}" if alone else ""
    same = sum(1 for other in waiting.job.record.pending.values() if other.role == task.role)
    return f"; none takes {'pods' if same > 1 else 'the pod'} of role {task.role}"


def _within(cycle: Cycle, task: Task, room: Room, fit: FitErrors, short: str) -> str:
    """What is short, and on which nodes."""
    tried = tried_now(cycle.session, task.pod_class)
    if tried is not None:
        return f"on nodes of {tried[0]}, {short}{_filtered(fit)}"
    return f"{short}{room.only(alone=not _filtered(fit))}{_filtered(fit)}"


def _of_amounts(waiting: Waiting, task: Task, fit: FitErrors, empty: EmptyFit, cause: Cause) -> bool:
    """The nodes that filters allow would do if they had more room."""
    of_kind = cause is Cause.TOO_LARGE and tried_now(waiting.cycle.session, task.pod_class) is not None
    if not (of_kind or Cause.NODES_FULL in (fit.cause, cause)) or not empty.allowed or not fit.lacking:
        return False
    return empty.total >= wanted(waiting.job, task) or not _filtered(fit)


def _filtered(fit: FitErrors) -> str:
    """Nodes that are refused for anything but their amounts, and for what they are where a job names kinds."""
    others = sorted(f"{count} {text}" for text, count in fit.counts.items() if text not in fit.apart)
    return f"; {', '.join(others)}" if others else ""


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."

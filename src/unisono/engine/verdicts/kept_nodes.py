"""What plug-ins calendar, nodegroup and tdm refuse: nodes that are kept for others, and what is to be done about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from unisono.api.annotations import RESERVATION, RUN_SECONDS
from unisono.api.keys import NODE_GROUP, PREEMPTABLE, REVOCABLE_ZONE
from unisono.api.messages import plural
from unisono.api.names import nearest
from unisono.api.selecting import lineage
from unisono.api.times import format_duration, rfc3339
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector
from unisono.engine.changes import AddLabels, AddNodes, Change, UseNodeGroup, UseQueue, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.calendar import calendar_of, named_by
from unisono.engine.plugins.nodegroup import NO_GROUP, NO_RULES, REFUSED, rules_of
from unisono.engine.plugins.tdm import NO_RIGHT, TdmPlugin
from unisono.engine.session.calendar import Slot
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.limit import tasks_fitting
from unisono.engine.verdicts.draft import Ladders
from unisono.engine.verdicts.labels import enough
from unisono.engine.verdicts.limits import chain

_QUEUES_TRIED = 2


def kept_for_others(cycle: Cycle, job: JobState, pod_class: PodClass, counts: Mapping[str, int]) -> str:
    """Sentences: whose the nodes are, how many there are, and how long the job runs as far as that is known.

    ``counts``: nodes by reason; what else refuses all of its nodes makes a reservation of no concern.
    """
    calendar = calendar_of(cycle.hooks.alive())
    slots = list(_keeping(cycle, job, pod_class, counts))
    if calendar is None or not slots:
        return ""
    longest = calendar.estimates.longest(job.record, pod_class)
    phrases = [
        f"{_what(slot)} {slot.booking.name} has {_nodes(slot)} {_whose(slot)}, {slot.window.text}" for slot in slots
    ]
    soon = any(not slot.window.holds(cycle.session.now) for slot in slots)
    runs = f"its pods may run for {format_duration(longest)}" if longest else "how long its pods run is not stated"
    ends = f"; {runs}" if soon else ""
    text = "; ".join(phrases) + ends
    return f" {text[0].upper()}{text[1:]}."


def opening_of_reservation(cycle: Cycle, job: JobState, pod_class: PodClass, counts: Mapping[str, int]) -> str:
    """What helps where no change is known to: to wait until the first of the windows that are in the way is over."""
    calendar, now = calendar_of(cycle.hooks.alive()), cycle.session.now
    if calendar is None:
        return ""
    name = named_by(job.record, pod_class)
    if name:
        number = calendar.numbers.get(name)
        if near := nearest(name, calendar.numbers) if number is None else "":
            return f"name reservation {near} in the annotation {RESERVATION}, or remove it"
        if number is None or number not in calendar.admitted(job.record):
            return f"name a reservation that is for this job in the annotation {RESERVATION}, or remove it"
        window = calendar.slots[number].window
        if not window.holds(now):
            return f"wait until {rfc3339(window.start)}, when reservation {name} begins"
        if any(one.slot is None for one in calendar.refused(job.record, pod_class)):
            return f"state a run time of at most {format_duration(window.end - now)} (annotation {RUN_SECONDS})"
        return ""
    slots = list(_keeping(cycle, job, pod_class, counts))
    if not slots:
        return ""
    first = min(slots, key=lambda slot: slot.window.end)
    return f"wait until {rfc3339(first.window.end)}, when {_what(first)} {first.booking.name} ends"


def numbers_for_a_time(cycle: Cycle, job: JobState) -> str:
    """Which TemporaryQuotas the job's queue, and those above it, have numbers of just now; empty for none."""
    quotas, now = cycle.session.snapshot.catalogue.temporary_quotas, cycle.session.now
    if not quotas:
        return ""
    parents = {name: queue.record.parent for name, queue in cycle.session.queues.items()}
    above, sentences = set(lineage(job.queue.name, parents)), list[str]()
    for each in sorted(quotas.values(), key=lambda one: one.name):
        window = each.times.window(now) if each.queue in above else None
        if window is not None and window.holds(now):
            sentences.append(
                f"TemporaryQuota {each.name} gives queue {each.queue} its numbers until {rfc3339(window.end)}"
            )
    return "; ".join(sentences)


def queues_of_reservations(cycle: Cycle, job: JobState, pod_class: PodClass) -> Ladders:
    """Queues that may use the nodes which are kept from the job; another one might not use the one that it names."""
    if named_by(job.record, pod_class):
        return []
    names = sorted({name for slot in _keeping(cycle, job, pod_class) for name in slot.booking.queues})
    ladders: Ladders = [[UseQueue(name)] for name in names if name in cycle.session.queues]
    return ladders[:_QUEUES_TRIED]


def where_open(cycle: Cycle, task: Task, room: Vector) -> Vector:
    """``[N]`` the same without nodes that reservations keep from the task's job; all of it where they keep all."""
    calendar, job = calendar_of(cycle.hooks.alive()), cycle.session.snapshot.jobs.get(task.job)
    if calendar is None or job is None:
        return room
    left = np.where(calendar.closed(job, task.pod_class), 0, room)
    return left if left.any() else room


def without_new_nodes(job: JobState, pod_class: PodClass, ladders: Ladders) -> Ladders:
    """The ladders of a job; of one that keeps to the nodes of a reservation those without nodes that would be new."""
    if not named_by(job.record, pod_class):
        return ladders
    kept: Ladders = [[*filter(lambda one: not isinstance(one, AddNodes), ladder)] for ladder in ladders]
    return [ladder for ladder in kept if ladder]


def _keeping(
    cycle: Cycle, job: JobState, pod_class: PodClass, counts: Mapping[str, int] | None = None
) -> Iterator[Slot]:
    """The reservations that keep nodes from the job which it could use otherwise, but for its own.

    ``counts``: nodes by reason, of which the reservation has to be one.
    """
    calendar = calendar_of(cycle.hooks.alive())
    if calendar is None:
        return
    usable = cycle.fits.static.result(pod_class, cycle.session, cycle.hooks).allowed
    for one in calendar.refused(job.record, pod_class):
        told = counts is None or one.reason.text in counts
        if told and one.slot is not None and not one.others and usable[calendar.slots[one.slot].columns].any():
            yield calendar.slots[one.slot]


def _what(slot: Slot) -> str:
    return "maintenance" if slot.booking.maintenance else "reservation"


def _nodes(slot: Slot) -> str:
    return f"{len(slot.columns)} {plural(len(slot.columns), 'node')}"


def _whose(slot: Slot) -> str:
    booking = slot.booking
    if booking.maintenance:
        return "for nobody"
    parts: Mapping[str, tuple[str, ...]] = {
        "user": tuple(sorted(booking.users)),
        "namespace": booking.namespaces,
        "queue": tuple(sorted(booking.queues)),
    }
    return "for " + " and ".join(
        f"{plural(len(names), word)} {listed(names)}" for word, names in parts.items() if names
    )


_TEXTS = (NO_GROUP.text, NO_RULES.text, REFUSED.text)
_GROUPS_TRIED = 2


def node_groups(cycle: Cycle, queue: QueueState, reasons: Mapping[str, int]) -> str:
    """One sentence; empty where the plug-in refuses no node."""
    if not any(text in reasons for text in _TEXTS):
        return ""
    rules = rules_of(queue.record)
    allowed = tuple(dict.fromkeys((*rules.required, *rules.preferred, *rules.avoided)))
    there = tuple(sorted(group for group in cycle.session.snapshot.nodes.label_values(NODE_GROUP) if group))
    may = f"may use the node groups {listed(allowed)}" if allowed else "names no node group that it may use"
    return f" Queue {queue.name} {may} (spec.affinity); there are {listed(there) if there else 'none'}."


def for_node_groups(cycle: Cycle, queue: QueueState, task: Task, missing: int, reasons: Mapping[str, int]) -> Ladders:
    """The group that was meant; where none is near, nodes of no group that the one which is named could have.

    Args:
        cycle: at its end.
        queue: of the job.
        task: one of its pods that no node takes.
        missing: how many wait.
        reasons: why nodes refuse it.
    """
    if not any(text in reasons for text in _TEXTS):
        return []
    nodes, queues = cycle.session.nodes, cycle.session.queues
    owner = next((name for name in chain(cycle.session, queue.name) if rules_of(queues[name].record)), "")
    there = nodes.table.present_values(NODE_GROUP)
    rules = rules_of(queues[owner].record if owner else queue.record)
    lacking = [name for name in (*rules.required, *rules.preferred) if name not in there][:_GROUPS_TRIED]
    corrections: list[Change] = [UseNodeGroup(owner, name, near) for name in lacking if (near := nearest(name, there))]
    if corrections or not lacking:
        return [corrections] if corrections else []
    usable = (nodes.table.label_column(NODE_GROUP) < 0) & nodes.table.ready & ~nodes.table.unschedulable
    chosen = enough(usable, tasks_fitting(np.maximum(nodes.future_idle, 0), task.pod_class), missing)
    return [[AddLabels(tuple(nodes.table.names[at] for at in chosen), {NODE_GROUP: lacking[0]})]] if chosen else []


def revocable_zones(cycle: Cycle, reasons: Mapping[str, int]) -> str:
    """One sentence; empty where the plug-in refuses no node for the sake of the pods."""
    if NO_RIGHT.text not in reasons:
        return ""
    zones = tuple(sorted(zone for zone in cycle.session.snapshot.nodes.label_values(REVOCABLE_ZONE) if zone))
    return (
        f" Nodes of the revocable {plural(len(zones), 'zone')} {listed(zones)} take only pods that may be evicted:"
        f' with the annotation {PREEMPTABLE}: "true", or {REVOCABLE_ZONE}: "*".'
    )


def opening(cycle: Cycle, reasons: Mapping[str, int]) -> str:
    """``wait until 01:00 UTC, when revocable zone night opens``; empty where no closed window keeps pods away."""
    for plugin in cycle.hooks.plugins():
        if isinstance(plugin, TdmPlugin):
            shut = [(window, zone) for zone, window in plugin.windows.items() if plugin.beyond(zone) in reasons]
            if shut:
                window, zone = min(shut, key=lambda one: one[0].minutes_until(plugin.here))
                return f"wait until {window.opening(plugin.here)} {plugin.clock}, when revocable zone {zone} opens"
    return ""

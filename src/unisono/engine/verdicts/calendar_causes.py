"""What plug-in calendar refuses: nodes that are kept for others, and jobs that wait for a reservation of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unisono.api.annotations import RESERVATION, RUN_SECONDS
from unisono.api.messages import plural
from unisono.api.selecting import lineage
from unisono.api.times import format_duration, rfc3339
from unisono.cluster.podclass import PodClass
from unisono.engine.changes import AddNodes, UseQueue, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.calendar import CalendarPlugin, named_by
from unisono.engine.session.calendar import Slot
from unisono.engine.session.job_state import JobState
from unisono.engine.verdicts.draft import Ladders

_QUEUES_TRIED = 2


def calendar_of(cycle: Cycle) -> CalendarPlugin | None:
    """The plug-in, where it takes part in the cycle."""
    for plugin in cycle.hooks.plugins():
        if isinstance(plugin, CalendarPlugin) and not cycle.hooks.guard.dead(plugin):
            return plugin
    return None


def kept_for_others(cycle: Cycle, job: JobState, pod_class: PodClass) -> str:
    """Sentences: whose the nodes are, how many there are, and how long the job runs as far as that is known."""
    calendar = calendar_of(cycle)
    slots = list(_keeping(cycle, job, pod_class))
    if calendar is None or not slots:
        return ""
    longest = calendar.estimates.longest(job.record, pod_class)
    told = [
        f"{_what(slot)} {slot.booking.name} has {_nodes(slot)} {_whose(slot)}, {slot.window.text}" for slot in slots
    ]
    soon = any(not slot.window.holds(cycle.session.now) for slot in slots)
    runs = f"its pods may run for {format_duration(longest)}" if longest else "how long its pods run is not stated"
    ends = f"; {runs}" if soon else ""
    text = "; ".join(told) + ends
    return f" {text[0].upper()}{text[1:]}."


def opening_of_reservation(cycle: Cycle, job: JobState, pod_class: PodClass) -> str:
    """What helps where no change is known to: to wait until the first of the windows that are in the way is over."""
    calendar, now = calendar_of(cycle), cycle.session.now
    if calendar is None:
        return ""
    name = named_by(job.record, pod_class)
    if name:
        number = calendar.numbers.get(name)
        if number is None or number not in calendar.admitted(job.record):
            return f"name a reservation that is for this job in the annotation {RESERVATION}, or remove it"
        window = calendar.slots[number].window
        if not window.holds(now):
            return f"wait until {rfc3339(window.start)}, when reservation {name} begins"
        if any(one.slot is None for one in calendar.refused(job.record, pod_class)):
            return f"state a run time of at most {format_duration(window.end - now)} (annotation {RUN_SECONDS})"
        return ""
    slots = list(_keeping(cycle, job, pod_class))
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
    above, told = set(lineage(job.queue.name, parents)), list[str]()
    for each in sorted(quotas.values(), key=lambda one: one.name):
        window = each.times.window(now) if each.queue in above else None
        if window is not None and window.holds(now):
            told.append(f"TemporaryQuota {each.name} gives queue {each.queue} its numbers until {rfc3339(window.end)}")
    return "; ".join(told)


def queues_of_reservations(cycle: Cycle, job: JobState, pod_class: PodClass) -> Ladders:
    """Queues that may use the nodes which are kept from the job; another one might not use the one that it names."""
    if named_by(job.record, pod_class):
        return []
    names = sorted({name for slot in _keeping(cycle, job, pod_class) for name in slot.booking.queues})
    found: Ladders = [[UseQueue(name)] for name in names if name in cycle.session.queues]
    return found[:_QUEUES_TRIED]


def without_new_nodes(job: JobState, pod_class: PodClass, ladders: Ladders) -> Ladders:
    """The ladders of a job; of one that keeps to the nodes of a reservation those without nodes that would be new."""
    if not named_by(job.record, pod_class):
        return ladders
    kept: Ladders = [[*filter(lambda one: not isinstance(one, AddNodes), ladder)] for ladder in ladders]
    return [ladder for ladder in kept if ladder]


def _keeping(cycle: Cycle, job: JobState, pod_class: PodClass) -> Iterator[Slot]:
    """The reservations that keep nodes from the job which it could use otherwise, but for its own."""
    calendar = calendar_of(cycle)
    if calendar is None:
        return
    usable = cycle.fits.static.result(pod_class, cycle.session, cycle.hooks).allowed
    for one in calendar.refused(job.record, pod_class):
        if one.slot is not None and not one.others and usable[calendar.slots[one.slot].columns].any():
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

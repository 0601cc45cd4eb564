"""Writes what a cycle found out: PodGroup status and verdict, pod conditions, queue status, and their events.

Nothing is written that the API server says already. A change of phase or reason goes out at once; changed numbers wait
a little, so that thousands of waiting jobs do not cost a write each per cycle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unisono.api.annotations import SET_ASIDE, VERDICT
from unisono.api.core import ObjectReference
from unisono.api.groups.calendar import ReservationStatus
from unisono.api.groups.scheduling import PodGroup, PodGroupStatus
from unisono.api.kinds import NODES, POD_GROUPS, PODS, QUEUES, RESERVATIONS
from unisono.api.times import rfc3339
from unisono.engine.decisions import Decisions, IdleJob, PodCondition, PodGroupUpdate, QueueUpdate, ReservationUpdate
from unisono.engine.verdict import Cause
from unisono.errors import NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.events import EventRecorder
from unisono.kube.pace import LONGEST_COUNT_SECONDS, LONGEST_SECONDS
from unisono.scheduler.explain import VerdictBook, material
from unisono.scheduler.feed import Feed
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.outbox import Outbox

_GROUP_SECONDS = 2.0
_POD_SECONDS = 10.0
_QUEUE_SECONDS = 1.0
# Who waits for less than this time gets no reports: most gangs wait a moment, until all their pods are there.
_SETTLE_SECONDS = 1.0
# A gang whose pods are being made waits for no place yet; when they do not come for so long, that is news.
_MAKING_SECONDS = 5.0
# The same for one that got its places: that and how many of its pods run are told in one write.
_STARTING_SECONDS = 5.0
_BEING_MADE = (Cause.NO_PODS, Cause.TOO_FEW_PODS)

_MOST_NODE_TEXT = 1000
# Of each cause a job has so many events, and so many of its pods, which all have the condition.
_MOST_EVENTS, _MOST_PODS = 3, 2


@dataclass(frozen=True, slots=True)
class _GroupWish:
    """What a PodGroup should say; no update means that its status is right."""

    update: PodGroupUpdate | None
    verdict: str | None
    cycle: str


@dataclass(slots=True)
class _Told:
    """Which events have told of a job since the cause of its waiting is the one that it is now: types, and pods."""

    cause: str
    by_group: set[str] = field(default_factory=set)
    pods: set[str] = field(default_factory=set)

    def is_new(self, by: str, seen: set[str], most: int) -> bool:
        """Whether it is to be told by this one, too; noted."""
        if by in seen or len(seen) == most or len(self.by_group) + len(self.pods) == _MOST_EVENTS:
            return False
        seen.add(by)
        return True


class Reports:
    """Turns decisions into status writes and events.

    An event of its kind tells of every cause once: conditions and the verdict follow the amounts, events do not. A job
    that waits for an hour while those before it come and go has as many events as its cause has changed, not thousands.
    """

    def __init__(
        self, client: Client, feed: Feed, verdicts: VerdictBook, events: EventRecorder, metrics: Metrics, clock: Clock
    ) -> None:
        pace = client.pace
        self._client, self._feed, self._verdicts = client, feed, verdicts
        self._events, self._metrics, self._clock = events, metrics, clock
        self._told: dict[str, _Told] = {}
        self._groups: Outbox[_GroupWish] = Outbox(
            "pod groups", self._write_group, clock, metrics, interval=_GROUP_SECONDS, pace=pace
        )
        self._pods: Outbox[PodCondition] = Outbox(
            "pod conditions", self._write_pod, clock, metrics, interval=_POD_SECONDS, pace=pace
        )
        self._queues: Outbox[QueueUpdate] = Outbox(
            "queues", self._write_queue, clock, metrics, interval=_QUEUE_SECONDS, pace=pace, workers=2
        )
        self._idle: dict[str, str] = {}
        self._reservations: Outbox[ReservationUpdate] = Outbox(
            "reservations", self._write_reservation, clock, metrics, interval=_QUEUE_SECONDS, pace=pace, workers=2
        )
        self._nodes: Outbox[str] = Outbox(
            "node conditions",
            self._write_node,
            clock,
            metrics,
            interval=_QUEUE_SECONDS,
            pace=pace,
            workers=2,
            insists=True,
        )

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for outbox in (self._groups, self._pods, self._queues, self._reservations, self._nodes):
                group.create_task(outbox.run())

    def take(self, decisions: Decisions, but: Collection[str] = ()) -> None:
        """Take in the decisions of a cycle; `VerdictBook` has its verdicts already.

        Of the PodGroups ``but`` something newer is to be written.
        """
        waiting = set(self._verdicts.jobs())
        self._told = {key: told for key, told in self._told.items() if key in waiting}
        self._take_groups(decisions, but)
        for condition in decisions.pod_conditions:
            self._take_pod(condition)
        for queue in decisions.queues:
            stored = self._feed.queues.get(queue.name)
            if stored is not None and dict(stored.status.allocated or {}) != dict(queue.allocated):
                self._queues.put(queue.name, queue, urgent=False, longest=LONGEST_COUNT_SECONDS)
        for reservation in decisions.reservations:
            there = self._feed.reservations.get(reservation.name)
            if there is not None and (changed := _changes(there.status, reservation)):
                urgent = "phase" in changed or "windowStart" in changed
                self._reservations.put(reservation.name, reservation, urgent=urgent, longest=LONGEST_COUNT_SECONDS)
        self._metrics.decided(decisions)

    def idle(self, jobs: Iterable[IdleJob]) -> None:
        """Events on jobs whose GPUs are idle, and on the first of their pods, when that is new."""
        before, self._idle = self._idle, {}
        for one in jobs:
            self._idle[one.job] = one.news
            group = self._feed.groups.get(one.job)
            if before.get(one.job) == one.news or group is None:
                continue
            namespace, _, name = one.pod.partition("/")
            pod = ObjectReference(api_version="v1", kind="Pod", namespace=namespace, name=name, uid=one.uid)
            for about in (group, pod):
                self._events.event(about, "Warning", "IdleGPUs", one.message)

    def bound(self, pods: Iterable[str]) -> None:
        """These pods get a node now: what their conditions should have said is void."""
        for key in pods:
            self._pods.discard(key)

    def set_aside(self, node: str, why: str) -> None:
        """Tell a node why it is ignored, or, without a reason, that it is not any more."""
        self._nodes.put(node, why)

    def waiting(self) -> int:
        """Writes that wait."""
        others = len(self._queues) + len(self._reservations) + len(self._nodes)
        return len(self._groups) + len(self._pods) + others

    def _take_groups(self, decisions: Decisions, but: Collection[str]) -> None:
        updates = {update.key: update for update in decisions.pod_groups}
        # A cycle that explains nothing has nothing to say of the others: what is to be written about them stays.
        others = {*self._verdicts.jobs(), *self._feed.explained, *self._groups.keys()} if decisions.explained else ()
        for key in sorted({*updates, *others}.difference(but)):
            group = self._feed.groups.get(key)
            if group is None:
                continue
            update, text = updates.get(key), self._verdicts.text(key)
            if self._feed.state.is_foreign(key):
                # Another scheduler writes its status; what we said before its pods came is void.
                update, text = None, None
            previous = (group.metadata.annotations or {}).get(VERDICT)
            if update is not None and update.uid and update.uid != group.metadata.uid:
                continue
            if update is None and text == previous:
                self._groups.discard(key)
                continue
            reported = bool(previous) or bool(group.status.conditions)
            settle = self._settle(key)
            being_made = settle > _SETTLE_SECONDS and not reported
            if being_made and update is not None and update.phase != (group.status.phase or "Pending"):
                # That it was admitted is told at once, what it waits for only if it goes on to wait for it.
                update, text = msgspec.structs.replace(update, conditions=(), events=()), None
            phase_moves = update is not None and update.phase != (group.status.phase or "Pending")
            changed = material(text) != material(previous) or (
                update is not None and _is_material(group.status, update)
            )
            if not reported and update is not None and _is_starting(group, update):
                settle = _STARTING_SECONDS
            # A gang that got its places runs in a moment: both are told in one write.
            quick = (phase_moves and update is not None and update.phase != "Running") or (reported and changed)
            # One whose pods have all ended has an owner in most cases, which removes the PodGroup in a moment.
            ended = update is not None and update.phase == "Completed"
            # Its pods are made again when it says so, and their places are kept meanwhile.
            remade = update is not None and bool(update.notes) and update.phase != "Running"
            urgent = (quick and not ended) or remade
            settle = 0.0 if remade else settle
            # Without a verdict nothing is wrong: the rest are its places, and how many of it run.
            # No user can act upon pods that are not there yet because so many are being made.
            obstacle = bool(text and not being_made) or (reported and changed)
            longest = LONGEST_SECONDS if obstacle else LONGEST_COUNT_SECONDS
            self._groups.put(
                key,
                _GroupWish(update, text, decisions.cycle),
                urgent=urgent,
                settle=settle,
                longest=longest,
                # Its turn to get its pods comes after those of others, which are still on their way.
                patient=being_made,
            )

    def _settle(self, job: str) -> float:
        """Seconds that something has to last before it is told of the job."""
        verdict = self._verdicts.get(job)
        return _MAKING_SECONDS if verdict is not None and verdict.cause in _BEING_MADE else _SETTLE_SECONDS

    def _take_pod(self, wish: PodCondition) -> None:
        key = f"{wish.namespace}/{wish.pod}"
        pod = self._feed.pods.get(key)
        if pod is None or pod.uid != wish.uid:
            return
        condition = pod.scheduled_condition
        # The next cycle goes by it: without it a victim's new pod could take the place that its eviction made.
        urgent = bool(wish.nominated_node) and wish.nominated_node != pod.nominated_node
        withdrawn = wish.withdrawn and bool(pod.nominated_node)
        if condition is None or condition.status != "False":
            pass
        elif (condition.reason, condition.message) != (wish.reason, wish.message):
            urgent = urgent or condition.reason != wish.reason
        elif not urgent and not withdrawn:
            self._pods.discard(key)
            return
        task = self._feed.state.tasks.get(key)
        settle = self._settle(task.job) if task is not None else _SETTLE_SECONDS
        being_made = settle > _SETTLE_SECONDS
        longest = LONGEST_COUNT_SECONDS if being_made else LONGEST_SECONDS
        self._pods.put(key, wish, urgent=urgent, settle=settle, longest=longest, patient=being_made)

    async def _write_group(self, key: str, wish: _GroupWish) -> bool:
        group = self._feed.groups.get(key)
        if group is None:
            return False
        patch: dict[str, Any] = {"metadata": {"resourceVersion": group.metadata.resource_version}}
        previous = (group.metadata.annotations or {}).get(VERDICT)
        notes: dict[str, Any] = {VERDICT: wish.verdict} if wish.verdict != previous else {}
        update = wish.update
        if update is not None and (not update.uid or update.uid == group.metadata.uid):
            notes |= update.notes
            status = self._group_status(group, update, wish.cycle)
            if status is not None:
                patch["status"] = status
        if notes:
            patch["metadata"]["annotations"] = notes
        elif len(patch) == 1:
            return False
        written = await self._client.patch(POD_GROUPS, group.metadata.name, patch, namespace=group.metadata.namespace)
        self._feed.learn(POD_GROUPS, written)
        if update is not None and "status" in patch:
            history = self._told_of(key)
            for event_type, reason, message in update.events:
                told_of = history if reason == "Unschedulable" else None
                if told_of is not None and not told_of.is_new(event_type, told_of.by_group, _MOST_EVENTS):
                    continue
                self._events.event(written, "Warning" if event_type == "Warning" else "Normal", reason, message)
        return True

    def _group_status(self, group: PodGroup, update: PodGroupUpdate, cycle: str) -> dict[str, Any] | None:
        """The status to write, None when it stands already."""
        status = group.status
        if _group_facts(status) == _update_facts(update):
            return None
        now = rfc3339(self._clock.time())
        old = {condition.type: condition for condition in status.conditions or ()}
        conditions = []
        for condition in update.conditions:
            before = old.get(condition.type)
            same = before is not None and (before.status, before.reason) == (condition.status, condition.reason)
            since = before.last_transition_time if before is not None and same else None
            conditions.append(
                {
                    "type": condition.type,
                    "status": condition.status,
                    "reason": condition.reason,
                    "message": condition.message,
                    "lastTransitionTime": since or now,
                    "transitionID": cycle,
                }
            )
        # Zeros are removed as the API leaves them out.
        return {
            "phase": update.phase,
            "running": update.running or None,
            "succeeded": update.succeeded or None,
            "failed": update.failed or None,
            "conditions": conditions or None,
        }

    async def _write_pod(self, key: str, wish: PodCondition) -> bool:
        pod = self._feed.pods.get(key)
        if pod is None or pod.uid != wish.uid:
            return False
        before = pod.scheduled_condition
        since = before.last_transition_time if before is not None and before.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": wish.reason,
            "message": wish.message,
            "lastTransitionTime": since or rfc3339(self._clock.time()),
        }
        others = msgspec.to_builtins([item for item in pod.conditions if item.type != "PodScheduled"])
        status: dict[str, Any] = {"conditions": [*others, condition]}
        if wish.nominated_node:
            status["nominatedNodeName"] = wish.nominated_node
        elif wish.withdrawn:
            status["nominatedNodeName"] = None
        patch = {"metadata": {"resourceVersion": pod.version}, "status": status}
        written = await self._client.patch(PODS, wish.pod, patch, namespace=wish.namespace, subresource="status")
        self._metrics.unschedulable.inc()
        task = self._feed.state.tasks.get(key)
        history = self._told_of(task.job) if task is not None else None
        if history is not None and not history.is_new(key, history.pods, _MOST_PODS):
            return True
        reference = ObjectReference(
            api_version="v1",
            kind="Pod",
            namespace=wish.namespace,
            name=wish.pod,
            uid=wish.uid,
            resource_version=written.metadata.resource_version,
        )
        self._events.event(reference, "Warning", "FailedScheduling", wish.message)
        return True

    def _told_of(self, job: str) -> _Told | None:
        """What events told of the cause for which the job waits now; None: it has no verdict."""
        verdict = self._verdicts.get(job)
        if verdict is None:
            return None
        history = self._told.get(job)
        if history is None or history.cause is not verdict.cause:
            history = self._told[job] = _Told(verdict.cause)
        return history

    async def _write_node(self, name: str, why: str) -> bool:
        condition = {
            "type": SET_ASIDE,
            "status": "True" if why else "False",
            "reason": "SchedulerError" if why else "SchedulerReadsNode",
            "message": why[:_MOST_NODE_TEXT] or "the scheduler reads the node",
            "lastTransitionTime": rfc3339(self._clock.time()),
        }
        # A strategic patch merges conditions by type: those of others stay.
        patch = {"status": {"conditions": [condition]}}
        try:
            await self._client.patch(NODES, name, patch, subresource="status", patch_type="strategic")
        except NotFound:
            return False
        return True

    async def _write_reservation(self, name: str, wish: ReservationUpdate) -> bool:
        there = self._feed.reservations.get(name)
        changed = _changes(there.status, wish) if there is not None else {}
        if there is None or not changed:
            return False
        patch = {"metadata": {"resourceVersion": there.metadata.resource_version}, "status": changed}
        await self._client.patch(RESERVATIONS, name, patch, subresource="status")
        return True

    async def _write_queue(self, key: str, wish: QueueUpdate) -> bool:
        queue = self._feed.queues.get(key)
        if queue is None:
            return False
        previous = dict(queue.status.allocated or {})
        if previous == dict(wish.allocated):
            return False
        allocated: Mapping[str, str | None] = {**dict.fromkeys(previous), **wish.allocated}
        patch = {"metadata": {"resourceVersion": queue.metadata.resource_version}, "status": {"allocated": allocated}}
        written = await self._client.patch(QUEUES, key, patch, subresource="status")
        self._feed.learn(QUEUES, written)
        return True


def _changes(status: ReservationStatus, update: ReservationUpdate) -> dict[str, Any]:
    """What of a Reservation's status is to be written; None stands for what goes."""
    desired = ReservationStatus(
        phase=update.phase,
        window_start=update.window_start or None,
        window_end=update.window_end or None,
        node_count=update.node_count or None,
        nodes=list(update.nodes) or None,
        others=update.others or None,
        message=update.message or None,
    )
    before, after = msgspec.to_builtins(status), msgspec.to_builtins(desired)
    return {key: after.get(key) for key in {*before, *after} if before.get(key) != after.get(key)}


def _is_starting(group: PodGroup, update: PodGroupUpdate) -> bool:
    """Whether the gang has just got its places, and some of the pods that it cannot do without do not run yet."""
    if update.phase != "Running" or (group.status.phase or "Pending") == "Running":
        return False
    return update.running + update.succeeded + update.failed < (group.spec.min_member or 1)


def _group_facts(status: PodGroupStatus) -> tuple[Any, ...]:
    return (
        status.phase or "Pending",
        (status.running or 0, status.succeeded or 0, status.failed or 0),
        {(c.type, c.status, c.reason, c.message) for c in status.conditions or ()},
    )


def _update_facts(update: PodGroupUpdate) -> tuple[Any, ...]:
    return (
        update.phase,
        (update.running, update.succeeded, update.failed),
        {(c.type, c.status, c.reason, c.message) for c in update.conditions},
    )


def _is_material(status: PodGroupStatus, update: PodGroupUpdate) -> bool:
    """Whether more differs than the text of a condition, or counts: those follow the pods one by one."""
    conditions = {(c.type, c.status, c.reason) for c in status.conditions or ()}
    desired = {(c.type, c.status, c.reason) for c in update.conditions}
    return (status.phase or "Pending") != update.phase or conditions != desired

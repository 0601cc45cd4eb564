"""Queues: the two that always exist, their states, and their hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unisono.api.base import ObjectMeta
from unisono.api.commands import target_of
from unisono.api.groups.batch import Command
from unisono.api.groups.scheduling import PodGroup, Queue, QueueSpec
from unisono.api.keys import CLOSED_BY_PARENT
from unisono.api.kinds import COMMANDS, POD_GROUPS, QUEUES
from unisono.api.selecting import DEFAULT_QUEUE, queue_of
from unisono.controllers.objects import delete_seen, to_json
from unisono.controllers.owners import index
from unisono.controllers.recorder import Recorder
from unisono.errors import AlreadyExists, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

# What to do about a queue: a pure function of the queue, its relatives, its pod groups and its commands.

# The state machine of a Queue, as a table, and the counts of its status.

OPEN = "Open"
CLOSING = "Closing"
CLOSED = "Closed"
UNKNOWN = "Unknown"

OPEN_QUEUE = "OpenQueue"
CLOSE_QUEUE = "CloseQueue"
SYNC_QUEUE = "SyncQueue"

# States in which jobs are refused.
SHUT = frozenset({CLOSING, CLOSED})

# A queue to be closed is Closing as long as it holds work.
_SHUT_DOWN = "shut down"
_TABLE: Mapping[str, Mapping[str, str]] = {
    OPEN: {OPEN_QUEUE: OPEN, CLOSE_QUEUE: _SHUT_DOWN, SYNC_QUEUE: OPEN},
    CLOSED: {OPEN_QUEUE: OPEN, CLOSE_QUEUE: CLOSED, SYNC_QUEUE: CLOSED},
    CLOSING: {OPEN_QUEUE: OPEN, CLOSE_QUEUE: _SHUT_DOWN, SYNC_QUEUE: _SHUT_DOWN},
    UNKNOWN: {OPEN_QUEUE: OPEN, CLOSE_QUEUE: _SHUT_DOWN, SYNC_QUEUE: UNKNOWN},
}

_COUNTERS = {
    "Pending": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Completed": "completed",
    "Unknown": "unknown",
}


def next_state(state: str, action: str, busy: bool) -> str:
    """State after an action.

    Args:
        state: present state; empty means Open.
        action: OpenQueue or CloseQueue; anything else keeps the queue as it is.
        busy: whether the queue holds pod groups that are not completed.
    """
    row = _TABLE.get(state, _TABLE[OPEN] if not state else _TABLE[UNKNOWN])
    after = row.get(action, row[SYNC_QUEUE])
    if after == _SHUT_DOWN:
        return CLOSING if busy else CLOSED
    return after


def is_busy(groups: Iterable[PodGroup]) -> bool:
    """Whether any pod group is not completed: finished work does not keep a queue from closing."""
    return any(group.status.phase != "Completed" for group in groups)


def count_groups(groups: Iterable[PodGroup]) -> dict[str, Any]:
    """Pod groups by phase, as fields of the queue's status on the wire; every field is present."""
    counts = dict.fromkeys(_COUNTERS.values(), 0)
    for group in groups:
        counts[_COUNTERS.get(group.status.phase or "Pending", "unknown")] += 1
    return dict(counts)


ROOT = "root"


@dataclass(slots=True)
class QueuePlan:
    """What to write, in order: metadata and spec, then status, then commands are taken away.

    Attributes:
        patch: merge patch of the queue, empty for none.
        status: merge patch of its status, empty for none.
        commands: commands that have been taken into account.
        events: type, reason and message of events to record on the queue.
    """

    patch: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)


def decide(
    queue: Queue, parent: Queue | None, groups: Sequence[PodGroup], commands: Sequence[Command] = ()
) -> QueuePlan:
    """Bring parent, state and counts of a queue up to date.

    A queue follows its parent: it closes when the parent closes, and opens with it if that is why it was closed.
    The annotation ``volcano.sh/closed-by-parent`` keeps the why.

    Args:
        queue: the queue.
        parent: its parent, None when it has none or the parent does not exist.
        groups: all pod groups of the queue.
        commands: commands for the queue, oldest first.
    """
    plan = QueuePlan(commands=list(commands))
    name = queue.metadata.name
    if name != ROOT and not queue.spec.parent:
        plan.patch["spec"] = {"parent": ROOT}
    state, by_parent = queue.status.state or "", _closed_by_parent(queue)
    parent_shut = parent is not None and parent.metadata.name != ROOT and parent.status.state in SHUT
    busy = is_busy(groups)
    for command in commands:
        state, by_parent = _obey(plan, queue, command.action or "", parent_shut, state, busy, by_parent)
    if parent_shut and state not in SHUT:
        state, by_parent = next_state(state, CLOSE_QUEUE, busy), True
    elif parent is not None and not parent_shut and state in SHUT and by_parent:
        state, by_parent = next_state(state, OPEN_QUEUE, busy), False
    else:
        state = next_state(state, SYNC_QUEUE, busy)
    if by_parent != _closed_by_parent(queue):
        plan.patch["metadata"] = {"annotations": {CLOSED_BY_PARENT: "true" if by_parent else "false"}}
    desired = {"state": state, **count_groups(groups)}
    have = to_json(queue.status)
    plan.status = {key: value for key, value in desired.items() if have.get(key, 0) != value}
    return plan


def _obey(
    plan: QueuePlan, queue: Queue, action: str, parent_shut: bool, state: str, busy: bool, by_parent: bool
) -> tuple[str, bool]:
    """Carry out one command; answers the state and whether the parent is the reason for it."""
    name = queue.metadata.name
    if action == OPEN_QUEUE and state not in ("", OPEN):
        if parent_shut:
            above = queue.spec.parent
            plan.events.append(
                (
                    "Warning",
                    OPEN_QUEUE,
                    f"Failed to open queue {name} because its parent queue {above} is closing or closed. "
                    "Open the parent queue first.",
                )
            )
            return state, by_parent
        plan.events.append(("Normal", OPEN_QUEUE, "Open queue succeed"))
        return next_state(state, OPEN_QUEUE, busy), False
    if action == CLOSE_QUEUE and state != CLOSED:
        if name == ROOT:
            plan.events.append(("Warning", CLOSE_QUEUE, "Close queue failed for the root queue: it is always open."))
            return state, by_parent
        plan.events.append(("Normal", CLOSE_QUEUE, "Close queue succeed"))
        return next_state(state, CLOSE_QUEUE, busy), False
    return state, by_parent


def _closed_by_parent(queue: Queue) -> bool:
    return (queue.metadata.annotations or {}).get(CLOSED_BY_PARENT) == "true"


# The queue controller: makes ``root`` and ``default``, keeps states and counts.

GROUP_INDEX = "queue"
CHILD_INDEX = "parent-queue"
COMMAND_INDEX = "target-queue"
# Counts of one queue, which every job of it changes, keep this time in seconds between two writes.
_COUNT_SECONDS = 1.0


class QueueController(Controller):
    """Reconciles ``scheduling.volcano.sh`` Queues; ``status.allocated`` belongs to the scheduler."""

    name = "queue-controller"

    def __init__(self, recorder: Recorder, default_queue: str = DEFAULT_QUEUE) -> None:
        """``default_queue`` is the queue of jobs that name none."""
        self._recorder, self._default_queue = recorder, default_queue
        self._counted: dict[str, float] = {}

    def setup(self, context: Context) -> None:
        """Watch queues with their children, pod groups and commands."""
        self._queues = context.watch(QUEUES, self._family)
        self._groups = context.watch(POD_GROUPS, queue_names, when=_moves_counts)
        self._commands = context.watch(COMMANDS, command_targets)
        index(self._groups, GROUP_INDEX, queue_names)
        index(self._queues, CHILD_INDEX, parent_names)
        index(self._commands, COMMAND_INDEX, command_targets)

    async def start(self) -> None:
        """Make the queues without which nothing can be submitted, the parent first."""
        await self._make(ROOT, QueueSpec(weight=1, reclaimable=False))
        await self._make(self._default_queue, QueueSpec(weight=1, reclaimable=True, parent=ROOT))

    async def reconcile(self, key: str) -> float | None:
        """Decide about one queue and write it."""
        queue = self._queues.get(key)
        commands = sorted(
            self._commands.by_index(COMMAND_INDEX, key), key=lambda c: c.metadata.creation_timestamp or ""
        )
        if queue is None or queue.metadata.deletion_timestamp:
            for command in commands:
                await delete_seen(self._client, COMMANDS, command)
            self._counted.pop(key, None)
            return None
        parent = self._queues.get(queue.spec.parent) if queue.spec.parent else None
        plan = decide(queue, parent, self._groups.by_index(GROUP_INDEX, key), commands)
        wait = self._pace(key, plan)
        await self._write(queue, plan)
        return wait

    def _pace(self, key: str, plan: QueuePlan) -> float | None:
        """Take counts out of the plan that can wait, and answer how long; a state is news."""
        if not plan.status or "state" in plan.status:
            return None
        now = self._clock.monotonic()
        wait = self._counted.get(key, float("-inf")) + _COUNT_SECONDS * self._client.pace.stretch - now
        if wait > 0:
            plan.status = {}
            return wait
        self._counted[key] = now
        return None

    async def _write(self, queue: Queue, plan: QueuePlan) -> None:
        name, version = queue.metadata.name, queue.metadata.resource_version
        try:
            if plan.patch:
                # Compare and set: a state decided from an older queue must not undo a newer one.
                patch = {**plan.patch, "metadata": {**plan.patch.get("metadata", {}), "resourceVersion": version}}
                version = (await self._client.patch(QUEUES, name, patch)).metadata.resource_version
            if plan.status:
                status = {"metadata": {"resourceVersion": version}, "status": plan.status}
                await self._client.patch(QUEUES, name, status, subresource="status")
        except NotFound:
            return
        for kind, reason, message in plan.events:
            self._recorder.event(queue, "Warning" if kind == "Warning" else "Normal", reason, message)
        for command in plan.commands:
            await delete_seen(self._client, COMMANDS, command)

    async def _make(self, name: str, spec: QueueSpec) -> None:
        if self._queues.get(name) is not None:
            return
        try:
            await self._client.create(QUEUES, Queue(metadata=ObjectMeta(name=name), spec=spec))
        except AlreadyExists:
            return

    def _family(self, queue: Queue) -> Iterable[str]:
        """The queue and its children, which follow its state."""
        children = self._queues.by_index(CHILD_INDEX, queue.metadata.name)
        return [queue.metadata.name, *(child.metadata.name for child in children)]


def queue_names(group: PodGroup) -> Iterable[str]:
    """Index function: the pod group's queue."""
    return [queue_of(group)]


def parent_names(queue: Queue) -> Iterable[str]:
    """Index function: the queue's parent."""
    return [queue.spec.parent] if queue.spec.parent else []


def command_targets(command: Command) -> Iterable[str]:
    """Index function: key of the queue that a command is for."""
    target = target_of(command)
    return [target[1]] if target is not None and target[0] is QUEUES else []


def _moves_counts(event_type: EventType, new: PodGroup, old: PodGroup | None) -> bool:
    """Only the phase and the queue of a pod group matter to queues."""
    if event_type != "MODIFIED" or old is None:
        return True
    return (new.status.phase, new.spec.queue) != (old.status.phase, old.spec.queue)

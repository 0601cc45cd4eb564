"""The queue controller: makes ``root`` and ``default``, keeps states and counts."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.api.base import ObjectMeta
from unisono.api.commands import target_of
from unisono.api.groups.batch import Command
from unisono.api.groups.scheduling import PodGroup, Queue, QueueSpec
from unisono.api.kinds import COMMANDS, POD_GROUPS, QUEUES
from unisono.api.selecting import DEFAULT_QUEUE, queue_of
from unisono.controllers.objects import delete_seen
from unisono.controllers.owners import index
from unisono.controllers.queue.decide import ROOT, QueuePlan, decide
from unisono.controllers.recorder import Recorder
from unisono.errors import AlreadyExists, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

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
        self._client, self._clock = context.client, context.clock
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
    found = target_of(command)
    return [found[1]] if found is not None and found[0] is QUEUES else []


def _moves_counts(event_type: EventType, new: PodGroup, old: PodGroup | None) -> bool:
    """Only the phase and the queue of a pod group matter to queues."""
    if event_type != "MODIFIED" or old is None:
        return True
    return (new.status.phase, new.spec.queue) != (old.status.phase, old.spec.queue)

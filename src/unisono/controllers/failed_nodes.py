"""Keeps the books of nodes on which pods of a job fail, in annotations of PodGroups (`unisono.api.failed_nodes`).

Of pods of a gang that fail together only the first one counts: the others fail because of it. The first failure of a
job that asks to be retried elsewhere counts twice, so that the node is avoided at once.
"""

from __future__ import annotations

import contextlib

from unisono.api.annotations import FAILED_NODES
from unisono.api.core import Pod
from unisono.api.failed_nodes import avoided, book_of, early_seconds, failed, text_of
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.pod_states import failed_on_its_node
from unisono.api.times import format_duration, time_or
from unisono.controllers.node_scaling.decide import groups_of
from unisono.controllers.recorder import Recorder
from unisono.errors import NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

_REMEMBERED = 4096
_TOGETHER = 60.0
"""Seconds in which pods of a gang fail because of the first one."""


class FailedNodesController(Controller):
    """Reconciles PodGroups of which pods have failed, or which have a book."""

    name = "failed-nodes-controller"

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` records events on PodGroups."""
        self._recorder = recorder
        # By PodGroup: when and where pods have failed. Such pods may be gone before their PodGroup is looked at.
        self._failed: dict[str, list[tuple[float, str, float]]] = {}
        # By PodGroup: its UID and its book. A job that restarts makes its PodGroup anew, and keeps its book.
        self._books: dict[str, tuple[str, str]] = {}

    def setup(self, context: Context) -> None:
        """Watch pods that fail, and PodGroups with a book."""
        self._pods = context.watch(PODS, groups_of, when=_fails)
        self._groups = context.watch(POD_GROUPS, when=self._has_book)
        self._pods.on_change(self._pod_changed)

    def _has_book(self, _: EventType, new: PodGroup, old: PodGroup | None) -> bool:
        return FAILED_NODES in (new.metadata.annotations or {}) or new.key in self._books

    def _pod_changed(self, event_type: EventType, new: Pod, old: Pod | None) -> None:
        if _fails(event_type, new, old):
            end = _ended(new, self._clock.time())
            lasted = end - time_or(new.status.start_time or new.metadata.creation_timestamp, 0.0)
            failure = end, new.spec.node_name or "", lasted
            for key in groups_of(new):
                self._failed.setdefault(key, []).append(failure)

    async def reconcile(self, key: str) -> float | None:
        """Enter failures that are new, and let counts go that have come down to 1."""
        group, now = self._groups.get(key), self._clock.time()
        uid, previous = self._books.get(key, ("", ""))
        said = None if group is None else (group.metadata.annotations or {}).get(FAILED_NODES)
        text = previous if said is None and (group is None or group.metadata.uid != uid) else said or ""
        book = {name: one if one.until > now else one.settled(now) for name, one in book_of(text).items()}
        newly_failed: list[str] = []
        early = early_seconds(group.metadata.annotations if group is not None else None)
        for time, node, lasted in sorted(self._failed.get(key, ())):
            if all(abs(time - one.last) >= _TOGETHER for one in book.values()):
                if not book and lasted < early:
                    book = failed(book, node, time)
                book = failed(book, node, time)
                newly_failed.append(node)
        new, until = text_of(book, now), avoided(book, now)
        if group is not None and not group.metadata.deletion_timestamp and new != (said or ""):
            notes = {FAILED_NODES: new or None}
            patch = {"metadata": {"resourceVersion": group.metadata.resource_version, "annotations": notes}}
            with contextlib.suppress(NotFound):
                await self._client.patch(POD_GROUPS, group.metadata.name, patch, namespace=group.metadata.namespace)
        self._failed.pop(key, None)
        self._keep(key, uid if group is None else group.metadata.uid or "", new)
        for node in newly_failed:
            if node in until and group is not None:
                count, left = round(book[node].number), format_duration(round(until[node] - now))
                words = f"pods failed on node {node} {count} times: others of the job keep away from it for {left}"
                self._recorder.event(group, "Warning", "NodeAvoided", words)
        again = min(until.values(), default=None)
        return None if again is None or group is None else max(again - now, 1.0)

    def _keep(self, key: str, uid: str, text: str) -> None:
        """Remember a book; of those that were changed longest ago some are forgotten when there are many."""
        self._books.pop(key, None)
        if text:
            self._books[key] = uid, text
        if len(self._books) > _REMEMBERED:
            del self._books[next(iter(self._books))]


def _fails(_: EventType, new: Pod, old: Pod | None) -> bool:
    return failed_on_its_node(new) and old is not None and not failed_on_its_node(old)


def _ended(pod: Pod, now: float) -> float:
    """When the first of its containers ended."""
    times = (
        time_or(each.state.terminated.finished_at or "", now)
        for each in pod.status.container_statuses or ()
        if each.state is not None and each.state.terminated is not None
    )
    return min(times, default=now)

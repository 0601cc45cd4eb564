"""Keeps the books of what went wrong on nodes (`unisono.api.node_faults`): conditions, events, and failed jobs."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.annotations import NODE_CHECK, NODE_FAULTS
from unisono.api.core import Event, Node, Pod
from unisono.api.kinds import EVENTS, NODE_CHECKS, NODES, PODS
from unisono.api.node_faults import HALF_LIFE, JOB_FAILURE, faults_of, faults_text, of_condition, of_event, with_fault
from unisono.api.pod_states import failed_on_its_node
from unisono.controllers.node_scaling.shrink import is_of_node
from unisono.controllers.pod_facts import finished_at
from unisono.controllers.recorder import Recorder
from unisono.errors import NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

_MOST_WAITING = 64
_REMEMBERED = 16_384


class NodeFaultsController(Controller):
    """Writes down what conditions, events and pods tell of one node."""

    name = "node-faults-controller"
    workers = 4

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` records events on nodes."""
        self._recorder = recorder
        # By node: signals that are not in its book yet, with their times.
        self._told: dict[str, list[tuple[str, float]]] = {}
        # By node and namespace: when a failure last counted, the newest entry at the end. One failure counts per
        # namespace and day, so that jobs that fail on purpose cannot take nodes away from other namespaces.
        self._failures: dict[tuple[str, str], float] = {}

    def setup(self, context: Context) -> None:
        """Watch nodes, events about nodes, and pods that fail."""
        self._nodes = context.watch(NODES, when=_never)
        self._nodes.on_change(self._node_changed)
        self._checks = context.watch(NODE_CHECKS, when=_never, optional=True)
        context.informer(PODS).on_change(self._pod_changed)
        context.watch(EVENTS, when=_never, fields="involvedObject.kind=Node").on_change(self._event_came)

    def _node_changed(self, _: EventType, new: Node, old: Node | None) -> None:
        before = set(_conditions(old)) if old is not None else set()
        for signal, since in set(_conditions(new)) - before:
            self._tell(new.metadata.name, signal, since)

    def _event_came(self, event_type: EventType, new: Event, old: Event | None) -> None:
        fault = of_event(new) if event_type != "DELETED" else None
        if fault is not None and (old is None or of_event(old) != fault):
            self._tell(*fault)

    def _pod_changed(self, _: EventType, new: Pod, old: Pod | None) -> None:
        node = new.spec.node_name
        # Without checks nothing goes by the book: it is left to signals that are rare.
        if not node or not len(self._checks) or old is None or not _has_failed(new) or _has_failed(old):
            return
        key, now = (node, new.metadata.namespace or ""), self._clock.time()
        if now - self._failures.get(key, float("-inf")) < HALF_LIFE:
            return
        self._failures.pop(key, None)
        self._failures[key] = now
        if len(self._failures) > _REMEMBERED:
            del self._failures[next(iter(self._failures))]
        self._tell(node, JOB_FAILURE, finished_at(new))

    def _tell(self, node: str, signal: str, time: float) -> None:
        waiting = self._told.setdefault(node, [])
        if len(waiting) < _MOST_WAITING:
            waiting.append((signal, time))
            self._context.enqueue(node)

    async def reconcile(self, key: str) -> float | None:
        """Enter what is new into the book of a node."""
        node, now = self._nodes.get(key), self._clock.time()
        reports = self._told.pop(key, [])
        if node is None or node.metadata.deletion_timestamp or not reports:
            return None
        book = before = faults_of(node.metadata.annotations)
        for signal, time in sorted(reports, key=lambda one: one[1]):
            book = with_fault(book, signal, time)
        if book == before:
            return None
        notes = {NODE_FAULTS: faults_text(book, now) or None}
        patch = {"metadata": {"resourceVersion": node.metadata.resource_version, "annotations": notes}}
        try:
            await self._client.patch(NODES, key, patch)
        except NotFound:
            return None
        except Exception:
            self._told[key] = [*reports, *self._told.get(key, [])][:_MOST_WAITING]
            raise
        new = sorted(signal for signal in book if book[signal] != before.get(signal))
        self._recorder.event(node, "Warning", "NodeFault", f"counted: {', '.join(new)}; lately {notes[NODE_FAULTS]}")
        return None


def _never(_: EventType, new: object, old: object) -> bool:
    return False


def _conditions(node: Node) -> Iterator[tuple[str, float]]:
    return (found for each in node.status.conditions or () if (found := of_condition(each)) is not None)


def _has_failed(pod: Pod) -> bool:
    ours = NODE_CHECK in (pod.metadata.labels or {})
    return failed_on_its_node(pod) and not ours and not is_of_node(pod)
